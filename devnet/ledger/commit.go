package ledger

import (
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// record notes what ran: the result and the children for what it created. New entities
// get their numbers here, so that logs and actions can name them.
func (h *handling) record(r *history.EVMResult, out outcome) {
	r.Index = 0 // it has one; place finds which
	r.Address, r.Output, r.ErrorMessage = out.address, out.output, out.message
	r.GasUsed, r.GasConsumed = out.gasUsed, out.gasUsed
	r.Actions = out.actions
	if h.sub.Body.GetEthereumTransaction() != nil {
		r.SignerNonce = int64(h.o.Get(r.Sender).Nonce)
	}
	h.number()
	h.recordCreations(r) // after a failure, only what authorizations created
	h.following = append(h.following, h.o.children...)
	if out.ok() {
		r.Logs, r.Bloom = h.logs(out.logs)
	}
	if acct := h.o.Get(out.address); acct.Exists && (out.ok() || !r.Create) {
		r.Address, r.Target = acct.Address, hedera.Entity(acct.Num)
		h.r.ContractID, h.r.Entity = r.Target, r.Target
	} else if num := h.o.EntityAt(out.address); num != 0 && !r.Create {
		r.Target = hedera.Entity(num)
		h.r.ContractID, h.r.Entity = r.Target, r.Target
	} else if r.Create {
		r.Address = common.Address{} // nothing was created
	}
	if r.Create && !out.ok() {
		r.Output = nil
	}
	r.StateChanges = h.stateChanges()
	for i := range r.Actions {
		h.nameAction(&r.Actions[i], i == 0 && r.Create)
	}
}

// number gives entity numbers to what the overlay created, in the order of creation.
func (h *handling) number() {
	for _, a := range h.o.Creations() {
		h.o.Number(a)
	}
}

// recordCreations notes the created contracts and accounts and makes their children.
func (h *handling) recordCreations(r *history.EVMResult) {
	for _, a := range h.o.Creations() {
		if !a.Fresh {
			h.hollowChild(a)
			continue
		}
		id := hedera.Entity(a.Num)
		r.Created = append(r.Created, id)
		if r.Create && a.Address == r.Address {
			continue // the transaction itself, not a child of it
		}
		h.following = append(h.following, &history.Record{
			Kind: history.KindContractCreate, Status: okay, Entity: id, ContractID: id, EVMAddress: a.Address.Bytes(),
		})
	}
	for _, a := range h.o.Order {
		if a.Contract && a.Exists && a.Num != 0 && (a.Fresh || a.Base == nil || int64(a.Nonce) != a.Base.Nonce) {
			r.Nonces = append(r.Nonces, history.ContractNonce{Contract: hedera.Entity(a.Num), Nonce: int64(a.Nonce)})
		}
	}
	slices.SortFunc(r.Nonces, func(a, b history.ContractNonce) int { return int(a.Contract.Num - b.Contract.Num) })
}

// hollowChild is the creation of an account by a transfer to its address.
func (h *handling) hollowChild(a *state.Party) {
	id := hedera.Entity(a.Num)
	h.preceding = append(h.preceding, &history.Record{
		Kind: history.KindCryptoCreate, Status: okay, Entity: id, Account: id,
		EVMAddress: a.Address.Bytes(),
	})
}

func (h *handling) logs(raw []*types.Log) ([]*history.Log, *types.Bloom) {
	if len(raw) == 0 {
		return nil, nil
	}
	bloom := new(types.Bloom)
	logs := make([]*history.Log, 0, len(raw))
	for _, l := range raw {
		logs = append(logs, &history.Log{
			Address: l.Address, Contract: hedera.Entity(h.o.EntityAt(l.Address)), Topics: l.Topics, Data: l.Data,
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
func (h *handling) stateChanges() []history.StateChange {
	var changes []history.StateChange
	for _, a := range h.o.Order {
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
func (h *handling) nameAction(a *history.Action, root bool) {
	a.Caller = hedera.Entity(h.o.Get(a.From).Num)
	if num := h.o.EntityAt(a.To); num != 0 {
		a.Recipient = hedera.Entity(num)
	} else if id, ok := hedera.FromLongZero(a.To); ok && id.Num <= state.LastSystemNumber {
		a.Recipient = id
	}
	if root {
		a.CallType, a.Operation = history.CallTypeCreate, vm.CREATE.String()
	}
}

// commit brings the overlay into the world. The caller holds both locks.
func (h *handling) commit() {
	h.number()
	h.l.store.NextNum += h.o.NewNums
	created := h.o.Creations()
	for _, a := range created {
		h.describe(a)
	}
	for _, a := range h.o.Order {
		if (!a.Exists && a.Base == nil) || a.Override {
			continue
		}
		h.transfer(a)
		h.o.Write(a)
	}
	h.o.Tables.Commit(h.at, &h.l.chain.OpenTouched)
	h.deductChildren()
	slices.SortFunc(h.r.Transfers, func(a, b history.Transfer) int { return int(a.Account.Num - b.Account.Num) })
	for _, f := range h.files {
		h.l.store.World.Files[f.ID.Num] = &f
	}
}

// transfer notes how a balance changed.
func (h *handling) transfer(a *state.Party) {
	var before hedera.Tinybar
	if a.Base != nil {
		before = a.Base.Balance
	}
	if d := a.Tinybar() - before; d != 0 {
		h.r.Transfers = append(h.r.Transfers, history.Transfer{
			Account: hedera.Entity(a.Num), Amount: d, Approval: slices.Contains(h.approved, a.Num),
		})
	}
}

// describe makes the lasting part of what the overlay created, where no handler did.
func (h *handling) describe(a *state.Party) {
	switch {
	case a.Fresh:
		a.Meta = h.contractMeta(a)
	case a.Meta == nil:
		a.Meta = h.hollowMeta(a.Address)
	}
}

func (h *handling) hollowMeta(address common.Address) *state.Description {
	return &state.Description{
		Address: address, Alias: address.Bytes(), Key: hapikey.Hollow(),
		Created: h.r.Consensus, Expires: h.expiry(genesisRenewal), AutoRenewPeriod: genesisRenewal,
		MaxAutoAssociations: -1, StakedNode: -1,
	}
}

func (h *handling) expiry(seconds int64) hedera.Timestamp {
	return hedera.Timestamp{Seconds: h.r.Consensus.Seconds + seconds, Nanos: h.r.Consensus.Nanos}
}

// contractMeta is what a contract inherits from its creator, unless a handler has
// described it already.
func (h *handling) contractMeta(a *state.Party) *state.Description {
	m := state.Description{StakedNode: -1, Created: h.r.Consensus, Address: a.Address, AutoRenewPeriod: minRenewal}
	creator := h.o.Get(a.Creator)
	switch from := creator.CurrentMeta(); {
	case a.Meta != nil:
		m = *a.Meta
	case from != nil:
		m.Memo, m.AutoRenewPeriod, m.AutoRenewAccount = from.Memo, from.AutoRenewPeriod, from.AutoRenewAccount
		m.StakedAccount, m.StakedNode, m.DeclineReward = from.StakedAccount, from.StakedNode, from.DeclineReward
		h.beginPeriod(&m)
		m.MaxAutoAssociations = from.MaxAutoAssociations
	}
	if a.Base != nil { // a hollow account becomes the contract
		m.Created = a.Base.Created
	}
	if _, longZero := hedera.FromLongZero(a.Address); !longZero {
		m.Alias = a.Address.Bytes()
	}
	if m.AutoRenewPeriod == 0 {
		m.AutoRenewPeriod = minRenewal
	}
	if m.Key == nil {
		m.Key = hapikey.Contract(a.Num)
	}
	m.Expires = hedera.Timestamp{Seconds: m.Created.Seconds + m.AutoRenewPeriod, Nanos: m.Created.Nanos}
	c := state.Contract{Initcode: a.Initcode, Runtime: a.Code, CodeHash: a.CodeHash, Creator: hedera.Entity(creator.Num)}
	if m.Contract != nil {
		c.File = m.Contract.File
	} else if r := h.r.Result; r != nil && r.Create && r.Address == a.Address {
		c.File = h.dataFile
	}
	m.Contract = &c
	return &m
}

// deductChildren leaves to children what they moved of hbar: the record of the parent
// tells the rest.
func (h *handling) deductChildren() {
	moved := map[int64]hedera.Tinybar{}
	for _, child := range h.o.children {
		for _, t := range child.Transfers {
			moved[t.Account.Num] += t.Amount
		}
	}
	if len(moved) == 0 {
		return
	}
	var left []history.Transfer
	for _, t := range h.r.Transfers {
		t.Amount -= moved[t.Account.Num]
		delete(moved, t.Account.Num)
		if t.Amount != 0 {
			left = append(left, t)
		}
	}
	for num, amount := range moved {
		if amount != 0 {
			left = append(left, history.Transfer{Account: hedera.Entity(num), Amount: -amount})
		}
	}
	h.r.Transfers = left
}
