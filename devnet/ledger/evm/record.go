package evm

import (
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// record notes what ran: the result and the children for what it created. New entities
// get their numbers here, so that logs and actions can name them.
func record(h *core.Handling, r *history.EVMResult, out outcome) {
	r.Index = 0 // it has one; place finds which
	r.Address, r.Output, r.ErrorMessage = out.address, out.output, out.message
	r.GasUsed, r.GasConsumed = out.gasUsed, out.gasUsed
	r.Actions = out.actions
	if h.Sub.Body.GetEthereumTransaction() != nil {
		r.SignerNonce = int64(h.State.Get(r.Sender).Nonce)
	}
	h.Number()
	recordCreations(h, r) // after a failure, only what authorizations created
	h.Following = append(h.Following, h.State.Children...)
	if out.ok() {
		r.Logs, r.Bloom = logs(h, out.logs)
	}
	if acct := h.State.Get(out.address); acct.Exists && (out.ok() || !r.Create) {
		r.Address, r.Target = acct.Address, hedera.Entity(acct.Num)
		h.Record.ContractID, h.Record.Entity = r.Target, r.Target
	} else if num := h.State.EntityAt(out.address); num != 0 && !r.Create {
		r.Target = hedera.Entity(num)
		h.Record.ContractID, h.Record.Entity = r.Target, r.Target
	} else if r.Create {
		r.Address = common.Address{} // nothing was created
	}
	if r.Create && !out.ok() {
		r.Output = nil
	}
	r.StateChanges = stateChanges(h)
	for i := range r.Actions {
		nameAction(h, &r.Actions[i], i == 0 && r.Create)
	}
}

// recordCreations notes the created contracts and accounts and makes their children.
func recordCreations(h *core.Handling, r *history.EVMResult) {
	for _, a := range h.State.Creations() {
		if !a.Fresh {
			h.HollowChild(a)
			continue
		}
		id := hedera.Entity(a.Num)
		r.Created = append(r.Created, id)
		if r.Create && a.Address == r.Address {
			continue // the transaction itself, not a child of it
		}
		h.Following = append(h.Following, &history.Record{
			Kind: history.KindContractCreate, Status: okay, Entity: id, ContractID: id, EVMAddress: a.Address.Bytes(),
		})
	}
	for _, a := range h.State.Order {
		if a.Contract && a.Exists && a.Num != 0 && (a.Fresh || a.Base == nil || int64(a.Nonce) != a.Base.Nonce) {
			r.Nonces = append(r.Nonces, history.ContractNonce{Contract: hedera.Entity(a.Num), Nonce: int64(a.Nonce)})
		}
	}
	slices.SortFunc(r.Nonces, func(a, b history.ContractNonce) int { return int(a.Contract.Num - b.Contract.Num) })
}

func logs(h *core.Handling, raw []*types.Log) ([]*history.Log, *types.Bloom) {
	if len(raw) == 0 {
		return nil, nil
	}
	bloom := new(types.Bloom)
	logs := make([]*history.Log, 0, len(raw))
	for _, l := range raw {
		logs = append(logs, &history.Log{
			Address: l.Address, Contract: hedera.Entity(h.State.EntityAt(l.Address)), Topics: l.Topics, Data: l.Data,
		})
		bloom.Add(l.Address[:])
		for _, topic := range l.Topics {
			bloom.Add(topic[:])
		}
	}
	return logs, bloom
}

// stateChanges lists the slots that were read or written, by contract and slot.
// Slots that a rolled back transaction wrote count as read.
func stateChanges(h *core.Handling) []history.StateChange {
	var changes []history.StateChange
	for _, a := range h.State.Order {
		if len(a.Committed) == 0 || a.Num == 0 {
			continue
		}
		for _, key := range slices.SortedFunc(maps.Keys(a.Committed), common.Hash.Cmp) {
			c := history.StateChange{Contract: hedera.Entity(a.Num), Address: a.Address, Slot: key, Read: a.Committed[key]}
			if written, ok := a.Storage[key]; ok && written != c.Read {
				c.Written = &written
			}
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b history.StateChange) int { return int(a.Contract.Num - b.Contract.Num) })
	return changes
}

// nameAction finds the entities of an action's addresses.
func nameAction(h *core.Handling, a *history.Action, root bool) {
	a.Caller = hedera.Entity(h.State.Get(a.From).Num)
	if num := h.State.EntityAt(a.To); num != 0 {
		a.Recipient = hedera.Entity(num)
	} else if id, ok := hedera.FromLongZero(a.To); ok && id.Num <= state.LastSystemNumber {
		a.Recipient = id
	}
	if root {
		a.CallType, a.Operation = history.CallTypeCreate, vm.CREATE.String()
	}
}
