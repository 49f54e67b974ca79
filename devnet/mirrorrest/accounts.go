package mirrorrest

import (
	"encoding/base32"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// accountOf writes an account as the view shows it.
func accountOf(a state.Account, v *ledger.View) object {
	out := object{
		"account":                          a.ID.String(),
		"alias":                            aliasText(a.Alias),
		"auto_renew_period":                positive(a.AutoRenewPeriod),
		"balance":                          object{"balance": a.Balance, "timestamp": timeText(v.Time()), "tokens": tokenBalances(v, a.ID)},
		"created_timestamp":                timeText(a.Created),
		"decline_reward":                   a.DeclineReward,
		"delegation_address":               nil,
		"deleted":                          a.Deleted,
		"ethereum_nonce":                   a.Nonce,
		"evm_address":                      addressText(a.Address),
		"expiry_timestamp":                 timeText(a.Expires),
		"key":                              keyOf(a.Key),
		"max_automatic_token_associations": a.MaxAutoAssociations,
		"memo":                             a.Memo,
		"pending_reward":                   0,
		"receiver_sig_required":            a.ReceiverSigRequired,
		"stake_period_start":               nil,
		"staked_account_id":                idText(a.StakedAccount),
		"staked_node_id":                   nil,
	}
	if a.Delegation != (common.Address{}) {
		out["delegation_address"] = addressText(a.Delegation)
	}
	if a.StakedNode >= 0 {
		out["staked_node_id"], out["stake_period_start"] = a.StakedNode, timeText(a.StakePeriodStart)
	}
	return out
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// getAccount answers accounts/{idOrAliasOrEvmAddress}.
func getAccount(r *request, q *query) (any, error) {
	times := q.timestamps()
	newest := *r // lists what is within a block, too, unlike the view of a moment
	r.view = r.asOf(times)
	a, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	out := object{"transactions": []any{}, "links": links{}}
	if q.flag("transactions", true) {
		out = r.transactions(q, where(newest.records(&times, q.desc), func(rec *history.Record) bool { return concerns(rec, a.ID) }))
	}
	maps.Copy(out, accountOf(a, r.view))
	return out, nil
}

// asOf is the view at the end of a range of time: what a historical question
// about an entity is about.
func (r *request) asOf(times bounds) *ledger.View {
	_, end := times.span()
	return r.view.At(fromNanos(end))
}

// accountArg finds the account or contract that the path names, by its id, EVM
// address or alias.
func (r *request) accountArg() (state.Account, error) {
	text := r.args[0]
	if address, ok := parseAddress(text); ok {
		return found(r.view.AccountByAddress(address))
	}
	if num, ok := parseEntity(text); ok {
		return found(r.view.Account(hedera.Entity(num)))
	}
	alias, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(text[strings.LastIndexByte(text, '.')+1:])
	if err != nil || len(alias) == 0 {
		return state.Account{}, invalidParameter("idOrAliasOrEvmAddress")
	}
	id, ok := r.view.ResolveAlias(alias)
	if !ok {
		return state.Account{}, notFound()
	}
	return found(r.view.Account(id))
}

// found turns the second result of a look-up into a 404.
func found[T any](v T, ok bool) (T, error) {
	if !ok {
		return v, notFound()
	}
	return v, nil
}

// party is the number of the account or contract that an id or address names.
func (r *request) party(text string) (int64, bool) {
	if address, ok := parseAddress(text); ok {
		id, known := r.view.Resolve(address)
		return id.Num, known
	}
	return parseEntity(text)
}

// contractArg is the number of the contract that the path names, or absent when
// nothing has that address.
func (r *request) contractArg() (int64, error) {
	text := r.args[0]
	if !isParty(eq, text) {
		return 0, invalidParameter("contractId")
	}
	if num, ok := r.party(text); ok {
		return num, nil
	}
	if num, ok := tokenNumber(text); ok { // tokens have events, too
		return num, nil
	}
	return absent, nil
}

// listAccounts answers accounts.
func listAccounts(r *request, q *query) (any, error) {
	return list(r, q, "accounts", r.accounts(q), func(a state.Account) any {
		account := accountOf(a, r.view)
		if !q.flag("balance", true) {
			account["balance"] = nil
		}
		return account
	}, r.accountIDs()), nil
}

// listBalances answers balances. Where a real mirror node has a snapshot every
// quarter of an hour, this one knows the balance at any moment.
func listBalances(r *request, q *query) (any, error) {
	r.view = r.asOf(q.timestamps())
	out := list(r, q, "balances", r.accounts(q), func(a state.Account) any {
		return object{"account": a.ID.String(), "balance": a.Balance, "tokens": tokenBalances(r.view, a.ID)}
	}, r.accountIDs())
	out["timestamp"] = nil // before the beginning
	if _, known := r.view.Account(hedera.Entity(treasury)); known {
		out["timestamp"] = r.view.Time().String()
	}
	return out, nil
}

// treasury is the number of the account that exists as long as the ledger does.
const treasury = 2

func (r *request) accountIDs() column[state.Account] {
	return byID("account.id", r.party, func(a state.Account) hedera.ID { return a.ID })
}

// accounts yields the accounts that the filters of a list other than those on their ids leave.
func (r *request) accounts(q *query) iter.Seq[state.Account] {
	ids, balances := q.bounds("account.id", r.party), q.bounds("account.balance", parseCount)
	low, high := ids.span()
	wanted, byKey := q.last("account.publickey")
	return where(r.view.Accounts(low, high, q.desc), func(a state.Account) bool {
		return balances.allows(int64(a.Balance)) && (!byKey || isKey(a.Key, wanted))
	})
}

// isKey tells whether a key is the one that a parameter names.
func isKey(key *hapi.Key, wanted string) bool {
	k := keyOf(key)
	return k != nil && k.Key == publicKey(wanted)
}

// ed25519Prefix starts the DER form of an Ed25519 public key.
const ed25519Prefix = "302a300506032b6570032100"

// publicKey is the hex of a key as keys are written, from raw hex or DER.
func publicKey(text string) string {
	b, _ := parseHex(text)
	return strings.TrimPrefix(hex.EncodeToString(b), ed25519Prefix)
}

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

// A slotFilter is what a query asks of slots: some by name, in order, and within bounds.
type slotFilter struct {
	filters []filter
	among   []common.Hash
}

func newSlotFilter(q *query) *slotFilter {
	f := &slotFilter{}
	for _, p := range q.filters {
		if word, _ := parseWord(p.value); p.name == "slot" && p.op == eq {
			f.among = append(f.among, word)
		} else if p.name == "slot" {
			f.filters = append(f.filters, p)
		}
	}
	slices.SortFunc(f.among, common.Hash.Cmp)
	f.among = slices.Compact(f.among)
	return f
}

// allows tells whether a slot is within the bounds.
func (f *slotFilter) allows(slot common.Hash) bool {
	for _, p := range f.filters {
		word, _ := parseWord(p.value)
		if c := slot.Cmp(word); c < 0 && p.op <= gte || c == 0 && (p.op == gt || p.op == lt) || c > 0 && p.op >= lt {
			return false
		}
	}
	return true
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
	all = slices.DeleteFunc(all, func(s state.StorageSlot) bool { return !f.allows(s.Slot) })
	if desc {
		slices.Reverse(all)
	}
	return all
}

// ends tells whether the filter lets nothing pass beyond a slot that it lets pass.
func (f *slotFilter) ends(slot common.Hash, desc bool) bool {
	switch n := len(f.among); {
	case n > 0 && desc:
		return slot == f.among[0]
	case n > 0:
		return slot == f.among[n-1]
	}
	next := new(uint256.Int).SetBytes32(slot[:])
	if desc {
		return next.IsZero() || !f.allows(next.SubUint64(next, 1).Bytes32())
	}
	next.AddUint64(next, 1)
	return next.IsZero() || !f.allows(next.Bytes32())
}
