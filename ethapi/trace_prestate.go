package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
)

// Records of what a transaction caused, accounts that it created for instance, have
// times a few nanoseconds before and after its own. The network leaves at least a
// hundred nanoseconds between transactions.
const (
	roomBefore = 4
	roomAfter  = 60
)

// states is accounts by address.
type states = map[common.Address]*evm.Touch

// tracePrestate shows the accounts that a transaction touched as they were before it, or in diff mode what it
// changed.
//
// The mirror node is asked for the state at a time, so balances, code and storage are exact. The nonce of an
// account that is neither the sender nor a contract comes from its last transaction before.
func (a *API) tracePrestate(ctx context.Context, s subject, o traceOptions) (any, error) {
	nothing := json.RawMessage("{}")
	if o.diff {
		nothing = json.RawMessage(`{"post":{},"pre":{}}`)
	}
	if s.result == nil || !s.result.Complete() {
		return nothing, nil
	}
	var actions []*mirror.Action
	var changes []mirror.StateChange
	t, taskCtx := parallel(ctx, 2)
	t.run(func() (err error) { actions, err = a.mirror.Actions(taskCtx, s.hash); return err })
	t.run(func() (err error) {
		shared, err := a.mirror.StateChanges(taskCtx, s.hash)
		changes = slices.Clone(shared) // their addresses are replaced
		_, err = notFound(err)
		return err
	})
	if err := t.wait(); err != nil {
		return nil, err
	}
	sender := s.result.From
	addresses, err := a.touched(ctx, s.result, &sender, actions, changes, o.onlyTop)
	if err != nil {
		return nil, err
	}
	at := s.result.Timestamp.UnixNano()
	pre, err := a.statesAt(ctx, addresses, hedera.FromNanos(at-roomBefore))
	if err != nil {
		return nil, err
	}
	if state := pre[sender]; state != nil && s.result.Nonce != nil && s.result.Type != nil {
		state.Nonce = *s.result.Nonce
	}
	for _, c := range changes {
		if state := pre[c.Address]; state != nil {
			state.Store(c.Slot, c.Read)
		}
	}
	w := stateWriter{hiero: a.hiero(), noCode: o.noCode}
	if !o.diff {
		return w.all(pre, o.withEmpty), nil
	}
	post, err := a.statesAt(ctx, addresses, hedera.FromNanos(at+roomAfter))
	if err != nil {
		return nil, err
	}
	if state := post[sender]; state != nil && s.result.Nonce != nil && s.result.Type != nil {
		state.Nonce = *s.result.Nonce + 1
	}
	for _, c := range changes {
		if state := post[c.Address]; state != nil {
			value := c.Read
			if c.Written != nil {
				value = *c.Written
			}
			state.Store(c.Slot, value)
		}
	}
	return w.diff(pre, post, o.withEmpty), nil
}

// touched lists the accounts that a transaction touched, by the addresses that clients know, and puts these into
// changes as well.
func (a *API) touched(
	ctx context.Context, r *mirror.ContractResult, sender *common.Address, actions []*mirror.Action, changes []mirror.StateChange, onlyTop bool,
) ([]common.Address, error) {
	all := []*common.Address{sender}
	put := func(address common.Address) { all = append(all, &address) }
	for _, address := range []*common.Address{r.To, r.Address} {
		if address != nil {
			put(*address)
		}
	}
	for _, action := range actions {
		if onlyTop && action.Depth > 0 {
			continue
		}
		put(action.From)
		if action.To != nil {
			put(*action.To)
		}
	}
	for i := range changes {
		if !onlyTop {
			put(changes[i].Address)
		}
		all = append(all, &changes[i].Address)
	}
	if err := a.aliases(ctx, all...); err != nil {
		return nil, err
	}
	return distinct(all, changes, onlyTop), nil
}

// distinct leaves out repetitions and system addresses, which have no state. If only the top call counts, it also
// leaves out the storage of others.
func distinct(all []*common.Address, changes []mirror.StateChange, onlyTop bool) []common.Address {
	beside := make(map[*common.Address]bool)
	for i := range changes {
		beside[&changes[i].Address] = onlyTop
	}
	var addresses []common.Address
	seen := make(map[common.Address]bool)
	for _, address := range all {
		if id, numbered := hedera.FromLongZero(*address); beside[address] || seen[*address] || numbered && id.Num <= lastSystemAddress {
			continue
		}
		seen[*address] = true
		addresses = append(addresses, *address)
	}
	return addresses
}

// lastSystemAddress is the last number of the network's own accounts.
const lastSystemAddress = 750

func (a *API) statesAt(ctx context.Context, addresses []common.Address, at hedera.Timestamp) (states, error) {
	list := make([]*evm.Touch, len(addresses))
	err := each(ctx, a.cfg.Concurrency, addresses, func(ctx context.Context, i int, address common.Address) (err error) {
		list[i], err = a.stateAt(ctx, address, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make(states, len(addresses))
	for i, address := range addresses {
		all[address] = list[i]
	}
	return all, nil
}

// stateAt reads the state of an address at a moment, without storage.
func (a *API) stateAt(ctx context.Context, address common.Address, at hedera.Timestamp) (*evm.Touch, error) {
	state := new(evm.Touch)
	balance, err := a.mirror.BalanceAt(ctx, address, at)
	if missing, err := notFound(err); missing || err != nil {
		return state, err
	}
	state.Exists, state.Balance = true, balance
	contract, err := a.mirror.ContractAt(ctx, address, at)
	missing, err := notFound(err)
	if err != nil {
		return nil, err
	}
	if missing {
		return state, a.accountAt(ctx, state, address, at)
	}
	state.Code, state.Gone, state.Nonce = contract.Code, contract.Deleted, 1
	if contract.Nonce != nil {
		state.Nonce = *contract.Nonce
	}
	return state, nil
}

// accountAt completes the state of an account that is no contract.
func (a *API) accountAt(ctx context.Context, state *evm.Touch, address common.Address, at hedera.Timestamp) error {
	account, err := a.mirror.Account(ctx, address)
	if missing, err := notFound(err); missing || err != nil {
		return err
	}
	if account.Nonce == nil || *account.Nonce == 0 {
		return nil
	}
	state.Nonce, err = a.nonceAt(ctx, address, &mirror.Block{Period: mirror.Period{To: at}})
	return err
}

// stateWriter shows states in the profile's form: hiero with every member, ethereum without members that are
// zero.
type stateWriter struct {
	hiero, noCode bool
}

// shownAccount is an account in a trace.
type shownAccount struct {
	Balance *hexutil.Big                `json:"balance,omitempty"`
	Nonce   *uint64                     `json:"nonce,omitempty"`
	Code    hexutil.Bytes               `json:"code,omitzero"`
	Storage map[common.Hash]common.Hash `json:"storage,omitzero"`
}

type shownAccounts map[common.Address]*shownAccount

func (w stateWriter) show(s *evm.Touch) *shownAccount {
	shown := &shownAccount{Balance: (*hexutil.Big)(s.Balance.Weibar()), Storage: s.Storage}
	if s.Nonce > 0 || w.hiero {
		shown.Nonce = &s.Nonce
	}
	if len(s.Code) > 0 || w.hiero {
		shown.Code = present(s.Code)
	}
	if w.noCode {
		shown.Code = nil
	}
	if w.hiero && shown.Storage == nil {
		shown.Storage = map[common.Hash]common.Hash{}
	}
	return shown
}

// all shows the accounts that existed before.
func (w stateWriter) all(pre states, withEmpty bool) shownAccounts {
	shown := make(shownAccounts)
	for address, s := range pre {
		if s.Exists || withEmpty {
			shown[address] = w.show(s)
		}
	}
	return shown
}

// stateDiff is what a transaction changed: the changed accounts as they were before, and their changed members as
// they are after. Of storage both have only the changed words. A deleted account has no after.
type stateDiff struct {
	Post shownAccounts `json:"post"`
	Pre  shownAccounts `json:"pre"`
}

func (w stateWriter) diff(pre, post states, withEmpty bool) stateDiff {
	d := stateDiff{Post: make(shownAccounts), Pre: make(shownAccounts)}
	for address, before := range pre {
		after := post[address]
		deleted := before.Exists && (!after.Exists || after.Gone && !before.Gone)
		changed := w.changes(before, after)
		if !deleted && changed == nil {
			continue
		}
		if before.Exists || withEmpty {
			d.Pre[address] = w.before(before, after)
		}
		if !deleted {
			d.Post[address] = changed
		}
	}
	return d
}

// before shows an account with those words of storage that changed and were not zero.
func (w stateWriter) before(before, after *evm.Touch) *shownAccount {
	own := *before
	own.Storage = nil
	for slot, value := range before.Storage {
		if value != after.Storage[slot] && value != (common.Hash{}) {
			own.Store(slot, value)
		}
	}
	return w.show(&own)
}

// changes shows the different members of an account; nil if there are none.
func (w stateWriter) changes(before, after *evm.Touch) *shownAccount {
	var changed shownAccount
	if before.Balance != after.Balance {
		changed.Balance = (*hexutil.Big)(after.Balance.Weibar())
	}
	if before.Nonce != after.Nonce {
		changed.Nonce = &after.Nonce
	}
	code := !bytes.Equal(before.Code, after.Code)
	if code && !w.noCode {
		changed.Code = present(after.Code)
	}
	words := false
	for slot, value := range after.Storage {
		if value == before.Storage[slot] {
			continue
		}
		words = true
		if value != (common.Hash{}) {
			if changed.Storage == nil {
				changed.Storage = make(map[common.Hash]common.Hash)
			}
			changed.Storage[slot] = value
		}
	}
	if changed.Balance == nil && changed.Nonce == nil && !code && !words {
		return nil
	}
	return &changed
}
