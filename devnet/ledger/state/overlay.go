package state

import (
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Overlay is what one transaction or simulation changes, on top of the world at
// one consensus time. Balances are tinybar, and a long-zero address leads to the same account as its alias.
// Nothing reaches the world before the ledger commits it.
//
// It belongs to one goroutine.
type Overlay struct {
	Reader

	accounts map[common.Address]*Party
	Order    []*Party // by first access
	created  []*Party // by creation; a revert marks them as not existing
	aliases  map[common.Address]common.Address

	Tables
	NewNums int64    // entity numbers given out
	journal []func() // undo one step each
}

// Party is an account as the overlay sees it.
type Party struct {
	Address common.Address
	Num     int64   // 0 until commit for what the overlay created
	Base    *Entity // nil for what the overlay created

	Exists    bool
	hollow    bool // created by a transfer of value
	Balance   uint256.Int
	Nonce     uint64
	Code      []byte
	CodeHash  common.Hash
	Contract  bool // has or gets code
	Fresh     bool // became a contract in this overlay
	Destroyed bool
	Obtainer  common.Address // of a destroyed contract

	Creator  common.Address // of a fresh contract
	Initcode []byte         // of a fresh contract

	Meta *Description // replaces that of base at commit when not nil

	Committed map[common.Hash]common.Hash // slots as they were before
	Storage   map[common.Hash]common.Hash // slots written
	Override  bool                        // storage is all there is
}

// NewOverlay begins changes on top of the world at a time; shared has it take the store's lock to read.
func NewOverlay(store *Store, asOf int64, shared bool) *Overlay {
	o := &Overlay{
		Reader:   Reader{Store: store, AsOf: asOf, Shared: shared},
		accounts: make(map[common.Address]*Party, 8),
	}
	o.lock()
	o.Tables = store.World.Tables
	o.unlock()
	for _, t := range o.All() {
		t.begin(o)
	}
	return o
}

// Canonical maps a long-zero address to the alias that the EVM knows the entity
// by, where it has one.
func (o *Overlay) Canonical(a common.Address) common.Address {
	id, ok := hedera.FromLongZero(a)
	if !ok || id.Num <= LastSystemNumber {
		return a
	}
	if alias, ok := o.aliases[a]; ok {
		return alias
	}
	alias := a
	if _, row := o.Find(a); row.Value != nil {
		alias = row.Value.Address
	}
	if o.aliases == nil {
		o.aliases = map[common.Address]common.Address{}
	}
	o.aliases[a] = alias
	return alias
}

// Get returns the overlay's account behind an address. It may not exist.
func (o *Overlay) Get(a common.Address) *Party {
	if acct, ok := o.accounts[a]; ok {
		return acct
	}
	canonical := o.Canonical(a)
	if canonical != a {
		acct := o.Get(canonical)
		o.accounts[a] = acct
		return acct
	}
	acct := o.load(a)
	o.accounts[a] = acct
	o.Order = append(o.Order, acct)
	return acct
}

// EntityAccount returns the overlay's account of an entity number.
func (o *Overlay) EntityAccount(num int64) *Party {
	return o.Get(hedera.Entity(num).LongZero())
}

func (o *Overlay) load(a common.Address) *Party {
	acct := &Party{Address: a, CodeHash: types.EmptyCodeHash}
	num, row := o.Find(a)
	e := row.Value
	if e == nil {
		return acct
	}
	acct.Num, acct.Base = num, e
	acct.Address = e.Address
	acct.Exists = !e.Deleted
	acct.Balance.SetUint64(uint64(e.Balance))
	acct.Nonce = uint64(e.Nonce)
	switch {
	case e.Deleted:
	case e.Contract != nil:
		acct.Contract = true
		acct.Code, acct.CodeHash = e.Contract.Runtime, e.Contract.CodeHash
	case e.Delegation != common.Address{}:
		acct.Code = types.AddressToDelegation(e.Delegation)
		acct.CodeHash = crypto.Keccak256Hash(acct.Code)
	}
	return acct
}

// Write puts an account and its slots into their tables, where something changed.
func (o *Overlay) Write(a *Party) {
	if a.Destroyed {
		m := *a.CurrentMeta()
		m.Deleted, m.Obtainer = true, hedera.Entity(o.Get(a.Obtainer).Num)
		a.Meta = &m
	}
	if m := a.CurrentMeta(); !m.Deleted && m.Delegation != a.Delegation() {
		changed := *m
		changed.Delegation = a.Delegation()
		a.Meta = &changed
	}
	e := Entity{Balance: a.Tinybar(), Nonce: int64(a.Nonce), Description: a.CurrentMeta()}
	if a.Base != nil {
		e.upstream = a.Base.upstream
	}
	if a.Base == nil || e != *a.Base {
		o.SetEntity(a.Num, &e)
	}
	for key, value := range a.Storage {
		if value != a.Committed[key] {
			o.Slots.Set(SlotKey{a.Num, key}, &value)
		}
	}
}

// Deleted tells whether the address belongs to an entity that was deleted before.
func (a *Party) Deleted() bool { return a.Base != nil && a.Base.Deleted }

// CommittedState returns a slot as it was before the overlay.
func (o *Overlay) CommittedState(a *Party, key common.Hash) common.Hash {
	if value, ok := a.Committed[key]; ok {
		return value
	}
	var value common.Hash
	if a.Base != nil && !a.Override && !a.Fresh {
		value, _ = o.Slot(a.Num, a.Base, key)
	}
	if a.Committed == nil {
		a.Committed = map[common.Hash]common.Hash{}
	}
	a.Committed[key] = value
	return value
}

// State is a slot as the overlay sees it.
func (o *Overlay) State(a *Party, key common.Hash) common.Hash {
	if value, ok := a.Storage[key]; ok {
		return value
	}
	return o.CommittedState(a, key)
}

// Tinybar returns the balance of an account. It always fits: the supply does.
func (a *Party) Tinybar() hedera.Tinybar { return hedera.Tinybar(a.Balance.Uint64()) }

// Move takes an amount from one account to another. The caller has checked that
// it is there.
func (o *Overlay) Move(from, to *Party, amount hedera.Tinybar) {
	if amount == 0 || from == to {
		return
	}
	value := uint256.NewInt(uint64(amount))
	o.PutBalance(from, new(uint256.Int).Sub(&from.Balance, value))
	o.PutBalance(to, new(uint256.Int).Add(&to.Balance, value))
}

// PutBalance replaces a balance.
func (o *Overlay) PutBalance(a *Party, value *uint256.Int) {
	old := a.Balance
	o.Note(func() { a.Balance = old })
	a.Balance = *value
}

// PutNonce replaces a nonce.
func (o *Overlay) PutNonce(a *Party, nonce uint64) {
	old := a.Nonce
	o.Note(func() { a.Nonce = old })
	a.Nonce = nonce
}

// Create makes an account exist.
func (o *Overlay) Create(a *Party, hollow bool) {
	old := a.hollow
	o.Note(func() {
		a.Exists, a.hollow = false, old
		o.created = o.created[:len(o.created)-1]
	})
	a.Exists, a.hollow = true, hollow
	o.created = append(o.created, a)
}

// BecomeContract has an account get code.
func (o *Overlay) BecomeContract(a *Party) {
	if a.Fresh {
		return
	}
	o.Note(func() {
		a.Fresh, a.Contract = false, false
		a.Committed, a.Storage = nil, nil
		o.created = o.created[:len(o.created)-1]
	})
	a.Fresh, a.Contract, a.Committed = true, true, nil
	o.created = append(o.created, a)
}

// Lend has an address that nothing is at run a code.
func (o *Overlay) Lend(a common.Address, code []byte) {
	o.accounts[a] = &Party{Address: a, Code: code}
}

// PutMeta replaces what rarely changes.
func (o *Overlay) PutMeta(a *Party, m *Description) {
	old := a.Meta
	o.Note(func() { a.Meta = old })
	a.Meta = m
}

// CurrentMeta is nil for what the EVM created in this overlay.
func (a *Party) CurrentMeta() *Description {
	if a.Meta != nil || a.Base == nil {
		return a.Meta
	}
	return a.Base.Description
}

// Key is nil for what has none, and for what the EVM created in this overlay.
func (a *Party) Key() *hapi.Key {
	if m := a.CurrentMeta(); m != nil {
		return m.Key
	}
	return nil
}

// WantsSignature tells whether the account must sign to receive.
func (a *Party) WantsSignature() bool {
	m := a.CurrentMeta()
	return m != nil && m.ReceiverSigRequired
}

// PutCode replaces a code.
func (o *Overlay) PutCode(a *Party, code []byte) {
	old, oldHash := a.Code, a.CodeHash
	o.Note(func() { a.Code, a.CodeHash = old, oldHash })
	a.Code, a.CodeHash = code, crypto.Keccak256Hash(code)
}

// PutState writes a slot and returns what was there.
func (o *Overlay) PutState(a *Party, key, value common.Hash) common.Hash {
	prev := o.State(a, key)
	if prev == value {
		return prev
	}
	_, written := a.Storage[key]
	o.Note(func() {
		if written {
			a.Storage[key] = prev
		} else {
			delete(a.Storage, key)
		}
	})
	if a.Storage == nil {
		a.Storage = map[common.Hash]common.Hash{}
	}
	a.Storage[key] = value
	return prev
}

// Note takes in how to undo the step that is about to be done.
func (o *Overlay) Note(undo func()) { o.journal = append(o.journal, undo) }

// Snapshot is what revertTo goes back to.
func (o *Overlay) Snapshot() int { return len(o.journal) }

// RevertTo undoes every step after a snapshot.
func (o *Overlay) RevertTo(snapshot int) {
	for _, undo := range slices.Backward(o.journal[snapshot:]) {
		undo()
	}
	o.journal = o.journal[:snapshot]
}

// Creations returns what the overlay created and did not take back, each once, in
// the order of creation.
func (o *Overlay) Creations() []*Party {
	var list []*Party
	for i, a := range o.created {
		if !slices.Contains(o.created[:i], a) {
			list = append(list, a)
		}
	}
	return list
}

// PutTinybar sets a balance, which the caller knows not to be negative.
func (o *Overlay) PutTinybar(a *Party, balance hedera.Tinybar) {
	o.PutBalance(a, uint256.NewInt(uint64(balance)))
}

// NewNum gives out the next entity number. A revert takes it back.
func (o *Overlay) NewNum() int64 {
	o.lock()
	next := o.Store.NextNum
	o.unlock()
	o.NewNums++
	o.Note(func() { o.NewNums-- })
	return next + o.NewNums - 1
}

// ByAlias finds the number of the account with a serialised key as its alias.
func (o *Overlay) ByAlias(alias []byte) (int64, bool) {
	num, row := o.FindAlias(alias)
	return num, row.Value != nil
}

// Number gives an account that the overlay created its number, by which it can be named
// from then on.
func (o *Overlay) Number(a *Party) int64 {
	if a.Num != 0 {
		return a.Num
	}
	a.Num = o.NewNum()
	named := hedera.Entity(a.Num).LongZero()
	if o.aliases == nil {
		o.aliases = map[common.Address]common.Address{}
	}
	o.aliases[named], o.accounts[named] = a.Address, a
	o.Note(func() {
		a.Num = 0
		delete(o.aliases, named)
		delete(o.accounts, named)
	})
	return a.Num
}

// IsToken tells whether an address is a token's.
func (o *Overlay) IsToken(a common.Address) bool {
	id, longZero := hedera.FromLongZero(a)
	return longZero && id.Num > LastSystemCode && o.Tokens.Get(id.Num) != nil
}

// IsSchedule tells whether an address is a schedule's.
func (o *Overlay) IsSchedule(a common.Address) bool {
	id, longZero := hedera.FromLongZero(a)
	return longZero && id.Num > LastSystemCode && o.Schedules.Get(id.Num) != nil
}

// EntityAt is the number of the account, contract, token or schedule at an address.
func (o *Overlay) EntityAt(a common.Address) int64 {
	if num := o.Get(a).Num; num != 0 {
		return num
	}
	if o.IsToken(a) || o.IsSchedule(a) {
		id, _ := hedera.FromLongZero(a)
		return id.Num
	}
	return 0
}

// IsSystem tells whether an address belongs to the system: it takes no value and
// shows no balance.
func IsSystem(a common.Address) bool {
	id, ok := hedera.FromLongZero(a)
	return ok && id.Num <= LastSystemNumber
}

// Override replaces parts of accounts for a simulation. Nothing of it can be
// committed.
func (o *Overlay) Override(accounts map[common.Address]Override) {
	for address, with := range accounts {
		a := o.Get(address)
		a.Exists = true
		if with.Balance != nil {
			a.Balance = *uint256.NewInt(uint64(max(*with.Balance, 0)))
		}
		if with.Nonce != nil {
			a.Nonce = *with.Nonce
		}
		if with.Code != nil {
			o.PutCode(a, with.Code)
			a.Contract = true
		}
		if with.State != nil {
			a.Override = true
			a.Committed = map[common.Hash]common.Hash{}
		}
		maps.Copy(a.Committed, with.State)
		for key, value := range with.StateDiff {
			o.CommittedState(a, key)
			a.Committed[key] = value
		}
	}
}

// Delegation is the address whose code runs as the account's, or zero.
func (a *Party) Delegation() common.Address {
	if a.Contract {
		return common.Address{}
	}
	to, _ := types.ParseDelegation(a.Code)
	return to
}

// TokenHasFees tells whether transfers of a token cost more than others.
func (o *Overlay) TokenHasFees(num int64) bool {
	t := o.Tokens.Get(num)
	return t != nil && len(t.Fees) > 0
}

// TopicHasFees tells whether messages to a topic cost more than others.
func (o *Overlay) TopicHasFees(num int64) bool {
	t := o.Topics.Get(num)
	return t != nil && len(t.Fees) > 0
}
