package core

import (
	"cmp"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// Number gives entity numbers to what the overlay created, in the order of creation.
func (h *Handling) Number() {
	for _, a := range h.State.Creations() {
		h.State.Number(a)
	}
}

// HollowChild is the creation of an account by a transfer to its address.
func (h *Handling) HollowChild(a *state.Party) {
	id := hedera.Entity(a.Num)
	h.Preceding = append(h.Preceding, &history.Record{
		Kind: history.KindCryptoCreate, Status: okay, Entity: id, Account: id,
		EVMAddress: a.Address.Bytes(),
	})
}

// Commit brings the overlay into the world. The caller holds both locks.
func (h *Handling) Commit() {
	h.Number()
	h.Net.Store.NextNum += h.State.NewNums
	created := h.State.Creations()
	for _, a := range created {
		h.describe(a)
	}
	for _, a := range h.State.Order {
		if (!a.Exists && a.Base == nil) || a.Override {
			continue
		}
		h.transfer(a)
		h.State.Write(a)
	}
	h.State.Tables.Commit(h.At, &h.Net.Chain.OpenTouched)
	h.deductChildren()
	slices.SortFunc(h.Record.Transfers, func(a, b history.Transfer) int { return int(a.Account.Num - b.Account.Num) })
	for _, f := range h.Files {
		h.Net.Store.World.Files[f.ID.Num] = &f
	}
}

// transfer notes how a balance changed.
func (h *Handling) transfer(a *state.Party) {
	var before hedera.Tinybar
	if a.Base != nil {
		before = a.Base.Balance
	}
	if d := a.Tinybar() - before; d != 0 {
		h.Record.Transfers = append(h.Record.Transfers, history.Transfer{
			Account: hedera.Entity(a.Num), Amount: d, Approval: slices.Contains(h.Approved, a.Num),
		})
	}
}

// describe makes the lasting part of what the overlay created, where no handler did.
func (h *Handling) describe(a *state.Party) {
	switch {
	case a.Fresh:
		a.Meta = h.contractMeta(a)
	case a.Meta == nil:
		a.Meta = h.HollowMeta(a.Address)
	}
}

// HollowMeta describes an account that was made for an address alone.
func (h *Handling) HollowMeta(address common.Address) *state.Description {
	return &state.Description{
		Address: address, Alias: address.Bytes(), Key: hapikey.Hollow(),
		Created: h.Record.Consensus, Expires: h.Expiry(GenesisRenewal), AutoRenewPeriod: GenesisRenewal,
		MaxAutoAssociations: -1, StakedNode: -1,
	}
}

// Expiry is so many seconds after the transaction.
func (h *Handling) Expiry(seconds int64) hedera.Timestamp {
	return hedera.Timestamp{Seconds: h.Record.Consensus.Seconds + seconds, Nanos: h.Record.Consensus.Nanos}
}

// contractMeta is what a contract inherits from its creator, unless a handler has
// described it already.
func (h *Handling) contractMeta(a *state.Party) *state.Description {
	m := state.Description{StakedNode: -1, Created: h.Record.Consensus, Address: a.Address, AutoRenewPeriod: minRenewal}
	switch from := h.State.Get(a.Creator).CurrentMeta(); {
	case a.Meta != nil:
		m = *a.Meta
	case from != nil:
		m.Memo, m.AutoRenewPeriod, m.AutoRenewAccount = from.Memo, from.AutoRenewPeriod, from.AutoRenewAccount
		m.StakedAccount, m.StakedNode, m.DeclineReward = from.StakedAccount, from.StakedNode, from.DeclineReward
		h.BeginPeriod(&m)
		m.MaxAutoAssociations = from.MaxAutoAssociations
	}
	if a.Base != nil { // a hollow account becomes the contract
		m.Created = a.Base.Created
	}
	if _, longZero := hedera.FromLongZero(a.Address); !longZero {
		m.Alias = a.Address.Bytes()
	}
	m.AutoRenewPeriod = cmp.Or(m.AutoRenewPeriod, minRenewal)
	if m.Key == nil {
		m.Key = hapikey.Contract(a.Num)
	}
	m.Expires = hedera.Timestamp{Seconds: m.Created.Seconds + m.AutoRenewPeriod, Nanos: m.Created.Nanos}
	c := state.Contract{Initcode: a.Initcode, Runtime: a.Code, CodeHash: a.CodeHash}
	if m.Contract != nil {
		c.File = m.Contract.File
	} else if r := h.Record.Result; r != nil && r.Create && r.Address == a.Address {
		c.File = h.DataFile
	}
	m.Contract = &c
	return &m
}

// deductChildren leaves to children what they moved of hbar: the record of the parent
// tells the rest.
func (h *Handling) deductChildren() {
	moved := map[int64]hedera.Tinybar{}
	for _, child := range h.State.Children {
		for _, t := range child.Transfers {
			moved[t.Account.Num] += t.Amount
		}
	}
	if len(moved) == 0 {
		return
	}
	var left []history.Transfer
	for _, t := range h.Record.Transfers {
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
	h.Record.Transfers = left
}
