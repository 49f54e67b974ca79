package ledger

import (
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hedera"
)

// record notes what ran: the result and the children for what it created. New entities
// get their numbers here, so that logs and actions can name them.
func (h *handling) record(r *EVMResult, out outcome) {
	r.Index = 0 // it has one; place finds which
	r.Address, r.Output, r.ErrorMessage = out.address, out.output, out.message
	r.GasUsed, r.GasConsumed = out.gasUsed, out.gasUsed
	r.Actions = out.actions
	if h.sub.Body.GetEthereumTransaction() != nil {
		r.SignerNonce = int64(h.o.get(r.Sender).nonce)
	}
	h.number()
	h.recordCreations(r) // after a failure, only what authorizations created
	h.following = append(h.following, h.o.children...)
	if out.ok() {
		r.Logs, r.Bloom = h.logs(out.logs)
	}
	if acct := h.o.get(out.address); acct.exists && (out.ok() || !r.Create) {
		r.Address, r.Target = acct.address, hedera.Entity(acct.num)
		h.r.ContractID, h.r.Entity = r.Target, r.Target
	} else if num := h.o.entityAt(out.address); num != 0 && !r.Create {
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
	for _, a := range h.o.creations() {
		h.o.number(a)
	}
}

// recordCreations notes the created contracts and accounts and makes their children.
func (h *handling) recordCreations(r *EVMResult) {
	for _, a := range h.o.creations() {
		if !a.fresh {
			h.hollowChild(a)
			continue
		}
		id := hedera.Entity(a.num)
		r.Created = append(r.Created, id)
		if r.Create && a.address == r.Address {
			continue // the transaction itself, not a child of it
		}
		h.following = append(h.following, &Record{
			Kind: KindContractCreate, Status: okay, Entity: id, ContractID: id, EVMAddress: a.address.Bytes(),
		})
	}
	for _, a := range h.o.order {
		if a.contract && a.exists && a.num != 0 && (a.fresh || a.base == nil || int64(a.nonce) != a.base.Nonce) {
			r.Nonces = append(r.Nonces, ContractNonce{Contract: hedera.Entity(a.num), Nonce: int64(a.nonce)})
		}
	}
	slices.SortFunc(r.Nonces, func(a, b ContractNonce) int { return int(a.Contract.Num - b.Contract.Num) })
}

// hollowChild is the creation of an account by a transfer to its address.
func (h *handling) hollowChild(a *ovAccount) {
	id := hedera.Entity(a.num)
	h.preceding = append(h.preceding, &Record{
		Kind: KindCryptoCreate, Status: okay, Entity: id, Account: id,
		EVMAddress: a.address.Bytes(),
	})
}

func (h *handling) logs(raw []*types.Log) ([]*Log, *types.Bloom) {
	if len(raw) == 0 {
		return nil, nil
	}
	bloom := new(types.Bloom)
	logs := make([]*Log, 0, len(raw))
	for _, l := range raw {
		logs = append(logs, &Log{
			Address: l.Address, Contract: hedera.Entity(h.o.entityAt(l.Address)), Topics: l.Topics, Data: l.Data,
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
func (h *handling) stateChanges() []StateChange {
	var changes []StateChange
	for _, a := range h.o.order {
		if len(a.committed) == 0 || a.num == 0 {
			continue
		}
		for _, key := range slices.SortedFunc(maps.Keys(a.committed), common.Hash.Cmp) {
			c := StateChange{Contract: hedera.Entity(a.num), Address: a.address, Slot: key, Read: a.committed[key]}
			if written, ok := a.storage[key]; ok && written != c.Read {
				c.Written = &written
			}
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b StateChange) int { return int(a.Contract.Num - b.Contract.Num) })
	return changes
}

// nameAction finds the entities of an action's addresses.
func (h *handling) nameAction(a *Action, root bool) {
	a.Caller = hedera.Entity(h.o.get(a.From).num)
	if num := h.o.entityAt(a.To); num != 0 {
		a.Recipient = hedera.Entity(num)
	} else if id, ok := hedera.FromLongZero(a.To); ok && id.Num <= lastSystemNumber {
		a.Recipient = id
	}
	if root {
		a.CallType, a.Operation = CallTypeCreate, vm.CREATE.String()
	}
}

// commit brings the overlay into the world. The caller holds both locks.
func (h *handling) commit() {
	h.number()
	h.l.nextNum += h.o.newNums
	created := h.o.creations()
	for _, a := range created {
		h.describe(a)
	}
	for _, a := range h.o.order {
		if (!a.exists && a.base == nil) || a.override {
			continue
		}
		h.transfer(a)
		h.commitAccount(a)
		for key, value := range a.storage {
			if value != a.committed[key] {
				h.o.slots.set(slotKey{a.num, key}, &value)
			}
		}
	}
	h.o.tables.commit(h.at, &h.l.chain.openTouched)
	h.deductChildren()
	slices.SortFunc(h.r.Transfers, func(a, b Transfer) int { return int(a.Account.Num - b.Account.Num) })
	for _, f := range h.files {
		h.l.world.files[f.ID.Num] = &f
	}
}

// transfer notes how a balance changed.
func (h *handling) transfer(a *ovAccount) {
	var before hedera.Tinybar
	if a.base != nil {
		before = a.base.Balance
	}
	if d := a.tinybar() - before; d != 0 {
		h.r.Transfers = append(h.r.Transfers, Transfer{
			Account: hedera.Entity(a.num), Amount: d, Approval: slices.Contains(h.approved, a.num),
		})
	}
}

// commitAccount writes an entity when something changed.
func (h *handling) commitAccount(a *ovAccount) {
	if a.destroyed {
		m := *a.currentMeta()
		m.Deleted, m.Obtainer = true, hedera.Entity(h.o.get(a.obtainer).num)
		a.meta = &m
	}
	if m := a.currentMeta(); !m.Deleted && m.Delegation != a.delegation() {
		changed := *m
		changed.Delegation = a.delegation()
		a.meta = &changed
	}
	e := entity{Balance: a.tinybar(), Nonce: int64(a.nonce), Description: a.currentMeta()}
	if a.base != nil {
		e.upstream = a.base.upstream
	}
	if a.base == nil || e != *a.base {
		h.o.setEntity(a.num, &e)
	}
}

// describe makes the lasting part of what the overlay created, where no handler did.
func (h *handling) describe(a *ovAccount) {
	switch {
	case a.fresh:
		a.meta = h.contractMeta(a)
	case a.meta == nil:
		a.meta = h.hollowMeta(a.address)
	}
}

func (h *handling) hollowMeta(address common.Address) *Description {
	return &Description{
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
func (h *handling) contractMeta(a *ovAccount) *Description {
	m := Description{StakedNode: -1, Created: h.r.Consensus, Address: a.address, AutoRenewPeriod: minRenewal}
	creator := h.o.get(a.creator)
	switch from := creator.currentMeta(); {
	case a.meta != nil:
		m = *a.meta
	case from != nil:
		m.Memo, m.AutoRenewPeriod, m.AutoRenewAccount = from.Memo, from.AutoRenewPeriod, from.AutoRenewAccount
		m.StakedAccount, m.StakedNode, m.DeclineReward = from.StakedAccount, from.StakedNode, from.DeclineReward
		h.beginPeriod(&m)
		m.MaxAutoAssociations = from.MaxAutoAssociations
	}
	if a.base != nil { // a hollow account becomes the contract
		m.Created = a.base.Created
	}
	if _, longZero := hedera.FromLongZero(a.address); !longZero {
		m.Alias = a.address.Bytes()
	}
	if m.AutoRenewPeriod == 0 {
		m.AutoRenewPeriod = minRenewal
	}
	if m.Key == nil {
		m.Key = hapikey.Contract(a.num)
	}
	m.Expires = hedera.Timestamp{Seconds: m.Created.Seconds + m.AutoRenewPeriod, Nanos: m.Created.Nanos}
	c := Contract{Initcode: a.initcode, Runtime: a.code, CodeHash: a.codeHash, Creator: hedera.Entity(creator.num)}
	if m.Contract != nil {
		c.File = m.Contract.File
	} else if r := h.r.Result; r != nil && r.Create && r.Address == a.address {
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
	var left []Transfer
	for _, t := range h.r.Transfers {
		t.Amount -= moved[t.Account.Num]
		delete(moved, t.Account.Num)
		if t.Amount != 0 {
			left = append(left, t)
		}
	}
	for num, amount := range moved {
		if amount != 0 {
			left = append(left, Transfer{Account: hedera.Entity(num), Amount: -amount})
		}
	}
	h.r.Transfers = left
}
