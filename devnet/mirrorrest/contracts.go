package mirrorrest

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

func contractOf(a state.Account) object {
	return object{
		"admin_key":                        keyOf(a.Key),
		"auto_renew_account":               idText(a.AutoRenewAccount),
		"auto_renew_period":                positive(a.AutoRenewPeriod),
		"contract_id":                      a.ID.String(),
		"created_timestamp":                timeText(a.Created),
		"deleted":                          a.Deleted,
		"evm_address":                      addressText(a.Address),
		"expiration_timestamp":             timeText(a.Expires),
		"file_id":                          idText(a.Contract.File),
		"max_automatic_token_associations": a.MaxAutoAssociations,
		"memo":                             a.Memo,
		"nonce":                            a.Nonce,
		"obtainer_id":                      idText(a.Obtainer),
		"permanent_removal":                nil,
		"proxy_account_id":                 nil,
		"timestamp":                        rangeJSON{From: a.Modified.String()},
	}
}

// getContract answers contracts/{contractIdOrAddress}.
func getContract(r *request, q *query, num int64) (any, error) {
	a, ok := r.asOf(q.timestamps()).Account(hedera.Entity(num))
	if !ok || !a.IsContract() {
		return nil, notFound()
	}
	out := contractOf(a)
	out["bytecode"], out["runtime_bytecode"] = nil, hexutil.Encode(a.Contract.Runtime)
	if a.Contract.Initcode != nil {
		out["bytecode"] = hexutil.Encode(a.Contract.Initcode)
	}
	return out, nil
}

// listContracts answers contracts.
func listContracts(r *request, q *query) (any, error) {
	ids := q.bounds("contract.id", r.party)
	low, high := ids.span()
	return list(r, q, "contracts", where(r.view.Accounts(low, high, q.desc), state.Account.IsContract), func(a state.Account) any { return contractOf(a) },
		byID("contract.id", r.party, func(a state.Account) hedera.ID { return a.ID })), nil
}

// listState answers contracts/{id}/state: every word the contract ever stored,
// those that are zero again included, now or as of a timestamp.
func listState(r *request, q *query) (any, error) {
	if slices.ContainsFunc(q.filters, func(f filter) bool { return f.name == "timestamp" && f.op == ne }) {
		return nil, badRequest("Not equals (ne) operator is not supported for timestamp")
	}
	id, err := r.contractArg()
	if err != nil {
		return nil, err
	}
	times := q.timestamps()
	r.view = r.asOf(times)
	state, next := []any{}, links{}
	contract, ok := r.view.Account(hedera.Entity(id))
	if !ok {
		return object{"state": state, "links": next}, nil
	}
	filter := newSlotFilter(q)
	for _, s := range filter.slots(r.view, contract.ID, q.desc) {
		if s.Modified.UnixNano() < times.lo {
			continue
		}
		state = append(state, object{
			"address":     addressText(contract.Address),
			"contract_id": contract.ID.String(),
			"timestamp":   s.Modified.String(),
			"slot":        hexutil.Encode(s.Slot[:]),
			"value":       hexutil.Encode(s.Value[:]),
		})
		if len(state) == q.limit {
			if !filter.ends(s.Slot, q.desc) {
				next = q.next(r.self(), []cursor{{name: "slot", value: hexutil.Encode(s.Slot[:])}})
			}
			break
		}
	}
	return object{"state": state, "links": next}, nil
}

// A slotFilter is what a query asks of slots: some by name, within a range whose
// ends are in it.
type slotFilter struct {
	among     []common.Hash
	low, high common.Hash
	empty     bool
}

func newSlotFilter(q *query) *slotFilter {
	f := &slotFilter{high: common.MaxHash}
	for _, p := range q.filters {
		if p.name != "slot" {
			continue
		}
		word, _ := parseWord(p.value)
		f.add(p.op, word)
	}
	slices.SortFunc(f.among, common.Hash.Cmp)
	f.among = slices.Compact(f.among)
	return f
}

func (f *slotFilter) add(op operator, word common.Hash) {
	switch op {
	case gt, gte:
		if op == gt {
			f.empty = f.empty || word == common.MaxHash
			word = step(word, 1)
		}
		if word.Cmp(f.low) > 0 {
			f.low = word
		}
	case lt, lte:
		if op == lt {
			f.empty = f.empty || word == common.Hash{}
			word = step(word, -1)
		}
		if word.Cmp(f.high) < 0 {
			f.high = word
		}
	default:
		f.among = append(f.among, word)
	}
}

// step is the word after or before another, around the end if need be.
func step(word common.Hash, by int) common.Hash {
	for i := len(word) - 1; i >= 0; i-- {
		word[i] += byte(by)
		carried := by > 0 && word[i] == 0 || by < 0 && word[i] == 0xff
		if !carried {
			break
		}
	}
	return word
}

// slots returns the words of a contract that the filter lets pass. Words asked
// for by name are looked up alone: a contract may have many.
func (f *slotFilter) slots(v *ledger.View, contract hedera.ID, desc bool) []state.StorageSlot {
	var all []state.StorageSlot
	if len(f.among) > 0 {
		for _, word := range f.among {
			if s := v.Storage(contract, word); !s.Modified.IsZero() {
				all = append(all, s)
			}
		}
	} else {
		all = v.StorageSlots(contract)
	}
	all = slices.DeleteFunc(all, func(s state.StorageSlot) bool {
		return f.empty || s.Slot.Cmp(f.low) < 0 || s.Slot.Cmp(f.high) > 0
	})
	if desc {
		slices.Reverse(all)
	}
	return all
}

// ends tells whether the filter lets nothing pass beyond a slot.
func (f *slotFilter) ends(slot common.Hash, desc bool) bool {
	low, high := f.low, f.high
	if n := len(f.among); n > 0 {
		low, high = f.among[0], f.among[n-1]
	}
	if desc {
		return slot.Cmp(low) <= 0
	}
	return slot.Cmp(high) >= 0
}
