package ledger

import (
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// overlay is what one transaction or simulation changes, on top of the world at
// one consensus time. It is the EVM's state database (overlay_evm.go): balances
// are tinybar, and a long-zero address leads to the same account as its alias.
// Nothing reaches the world before the ledger commits it.
//
// It belongs to one goroutine.
type overlay struct {
	reader

	accounts map[common.Address]*ovAccount
	order    []*ovAccount // by first access
	created  []*ovAccount // by creation; a revert marks them as not existing
	aliases  map[common.Address]common.Address

	tables
	id       hedera.TransactionID // of the transaction; zero in a simulation
	ready    []int64              // schedules that may have all their signatures now
	newNums  int64                // entity numbers given out
	children []*Record            // of what contracts asked for, reverted ones included

	journal   []func() // undo one step each
	logs      []*types.Log
	refund    uint64
	warm      map[common.Address]struct{}
	warmSlots map[addressSlot]struct{}
	transient map[addressSlot]common.Hash
}

type addressSlot struct {
	address common.Address
	slot    common.Hash
}

// ovAccount is an account as the overlay sees it.
type ovAccount struct {
	address common.Address
	num     int64   // 0 until commit for what the overlay created
	base    *entity // nil for what the overlay created

	exists    bool
	hollow    bool // created by a transfer of value
	balance   uint256.Int
	nonce     uint64
	code      []byte
	codeHash  common.Hash
	contract  bool // has or gets code
	fresh     bool // became a contract in this overlay
	destroyed bool
	obtainer  common.Address // of a destroyed contract

	creator  common.Address // of a fresh contract
	initcode []byte         // of a fresh contract

	meta *Description // replaces that of base at commit when not nil

	committed map[common.Hash]common.Hash // slots as they were before
	storage   map[common.Hash]common.Hash // slots written
	override  bool                        // storage is all there is
}

func newOverlay(l *Ledger, asOf int64, shared bool) *overlay {
	o := &overlay{
		reader:    reader{l: l, asOf: asOf, shared: shared},
		accounts:  make(map[common.Address]*ovAccount, 8),
		warm:      make(map[common.Address]struct{}, 16),
		warmSlots: map[addressSlot]struct{}{},
	}
	o.lock()
	o.tables = l.world.tables
	o.unlock()
	for _, t := range o.all() {
		t.begin(o)
	}
	return o
}

// canonical maps a long-zero address to the alias that the EVM knows the entity
// by, where it has one.
func (o *overlay) canonical(a common.Address) common.Address {
	id, ok := hedera.FromLongZero(a)
	if !ok || id.Num <= lastSystemNumber {
		return a
	}
	if alias, ok := o.aliases[a]; ok {
		return alias
	}
	alias := a
	if _, row := o.find(a); row.Value != nil {
		alias = row.Value.Address
	}
	if o.aliases == nil {
		o.aliases = map[common.Address]common.Address{}
	}
	o.aliases[a] = alias
	return alias
}

// get returns the overlay's account behind an address. It may not exist.
func (o *overlay) get(a common.Address) *ovAccount {
	if acct, ok := o.accounts[a]; ok {
		return acct
	}
	canonical := o.canonical(a)
	if canonical != a {
		acct := o.get(canonical)
		o.accounts[a] = acct
		return acct
	}
	acct := o.load(a)
	o.accounts[a] = acct
	o.order = append(o.order, acct)
	return acct
}

// entityAccount returns the overlay's account of an entity number.
func (o *overlay) entityAccount(num int64) *ovAccount {
	return o.get(hedera.Entity(num).LongZero())
}

func (o *overlay) load(a common.Address) *ovAccount {
	acct := &ovAccount{address: a, codeHash: types.EmptyCodeHash}
	num, row := o.find(a)
	e := row.Value
	if e == nil {
		return acct
	}
	acct.num, acct.base = num, e
	acct.address = e.Address
	acct.exists = !e.Deleted
	acct.balance.SetUint64(uint64(e.Balance))
	acct.nonce = uint64(e.Nonce)
	switch {
	case e.Deleted:
	case e.Contract != nil:
		acct.contract = true
		acct.code, acct.codeHash = e.Contract.Runtime, e.Contract.CodeHash
	case e.Delegation != common.Address{}:
		acct.code = types.AddressToDelegation(e.Delegation)
		acct.codeHash = crypto.Keccak256Hash(acct.code)
	}
	return acct
}

// deleted tells whether the address belongs to an entity that was deleted before.
func (a *ovAccount) deleted() bool { return a.base != nil && a.base.Deleted }

// committedState returns a slot as it was before the overlay.
func (o *overlay) committedState(a *ovAccount, key common.Hash) common.Hash {
	if value, ok := a.committed[key]; ok {
		return value
	}
	var value common.Hash
	if a.base != nil && !a.override && !a.fresh {
		value, _ = o.slot(a.num, a.base, key)
	}
	if a.committed == nil {
		a.committed = map[common.Hash]common.Hash{}
	}
	a.committed[key] = value
	return value
}

func (o *overlay) state(a *ovAccount, key common.Hash) common.Hash {
	if value, ok := a.storage[key]; ok {
		return value
	}
	return o.committedState(a, key)
}

// tinybar returns the balance of an account. It always fits: the supply does.
func (a *ovAccount) tinybar() hedera.Tinybar { return hedera.Tinybar(a.balance.Uint64()) }

// move takes an amount from one account to another. The caller has checked that
// it is there.
func (o *overlay) move(from, to *ovAccount, amount hedera.Tinybar) {
	if amount == 0 || from == to {
		return
	}
	value := uint256.NewInt(uint64(amount))
	o.setBalance(from, new(uint256.Int).Sub(&from.balance, value))
	o.setBalance(to, new(uint256.Int).Add(&to.balance, value))
}

func (o *overlay) setBalance(a *ovAccount, value *uint256.Int) {
	old := a.balance
	o.note(func() { a.balance = old })
	a.balance = *value
}

func (o *overlay) setNonce(a *ovAccount, nonce uint64) {
	old := a.nonce
	o.note(func() { a.nonce = old })
	a.nonce = nonce
}

// create makes an account exist.
func (o *overlay) create(a *ovAccount, hollow bool) {
	old := a.hollow
	o.note(func() {
		a.exists, a.hollow = false, old
		o.created = o.created[:len(o.created)-1]
	})
	a.exists, a.hollow = true, hollow
	o.created = append(o.created, a)
}

// setMeta replaces what rarely changes.
func (o *overlay) setMeta(a *ovAccount, m *Description) {
	old := a.meta
	o.note(func() { a.meta = old })
	a.meta = m
}

// currentMeta is nil for what the EVM created in this overlay.
func (a *ovAccount) currentMeta() *Description {
	if a.meta != nil || a.base == nil {
		return a.meta
	}
	return a.base.Description
}

// key is nil for what has none, and for what the EVM created in this overlay.
func (a *ovAccount) key() *hapi.Key {
	if m := a.currentMeta(); m != nil {
		return m.Key
	}
	return nil
}

// wantsSignature tells whether the account must sign to receive.
func (a *ovAccount) wantsSignature() bool {
	m := a.currentMeta()
	return m != nil && m.ReceiverSigRequired
}

func (o *overlay) setCode(a *ovAccount, code []byte) {
	old, oldHash := a.code, a.codeHash
	o.note(func() { a.code, a.codeHash = old, oldHash })
	a.code, a.codeHash = code, crypto.Keccak256Hash(code)
}

func (o *overlay) setState(a *ovAccount, key, value common.Hash) common.Hash {
	prev := o.state(a, key)
	if prev == value {
		return prev
	}
	_, written := a.storage[key]
	o.note(func() {
		if written {
			a.storage[key] = prev
		} else {
			delete(a.storage, key)
		}
	})
	if a.storage == nil {
		a.storage = map[common.Hash]common.Hash{}
	}
	a.storage[key] = value
	return prev
}

// note takes in how to undo the step that is about to be done.
func (o *overlay) note(undo func()) { o.journal = append(o.journal, undo) }

// revertTo undoes every step after a snapshot.
func (o *overlay) revertTo(snapshot int) {
	for _, undo := range slices.Backward(o.journal[snapshot:]) {
		undo()
	}
	o.journal = o.journal[:snapshot]
}

// creations returns what the overlay created and did not take back, each once, in
// the order of creation.
func (o *overlay) creations() []*ovAccount {
	var list []*ovAccount
	for i, a := range o.created {
		if !slices.Contains(o.created[:i], a) {
			list = append(list, a)
		}
	}
	return list
}

// setTinybar sets a balance, which the caller knows not to be negative.
func (o *overlay) setTinybar(a *ovAccount, balance hedera.Tinybar) {
	o.setBalance(a, uint256.NewInt(uint64(balance)))
}

// newNum gives out the next entity number. A revert takes it back.
func (o *overlay) newNum() int64 {
	o.lock()
	next := o.l.nextNum
	o.unlock()
	o.newNums++
	o.note(func() { o.newNums-- })
	return next + o.newNums - 1
}

// byAlias finds the number of the account with a serialised key as its alias.
func (o *overlay) byAlias(alias []byte) (int64, bool) {
	num, row := o.findAlias(alias)
	return num, row.Value != nil
}

// number gives an account that the overlay created its number, by which it can be named
// from then on.
func (o *overlay) number(a *ovAccount) int64 {
	if a.num != 0 {
		return a.num
	}
	a.num = o.newNum()
	named := hedera.Entity(a.num).LongZero()
	if o.aliases == nil {
		o.aliases = map[common.Address]common.Address{}
	}
	o.aliases[named], o.accounts[named] = a.address, a
	o.note(func() {
		a.num = 0
		delete(o.aliases, named)
		delete(o.accounts, named)
	})
	return a.num
}

// isToken tells whether an address is a token's.
func (o *overlay) isToken(a common.Address) bool {
	id, longZero := hedera.FromLongZero(a)
	return longZero && id.Num > lastSystemCode && o.tokens.get(id.Num) != nil
}

// isSchedule tells whether an address is a schedule's.
func (o *overlay) isSchedule(a common.Address) bool {
	id, longZero := hedera.FromLongZero(a)
	return longZero && id.Num > lastSystemCode && o.schedules.get(id.Num) != nil
}

// proxyCode is what EXTCODE shows of a token or a schedule: that its code is the service's. It
// is nil for any other address.
func (o *overlay) proxyCode(a common.Address) []byte {
	switch {
	case o.isToken(a):
		return types.AddressToDelegation(hedera.Entity(numTokenService).LongZero())
	case o.isSchedule(a):
		return types.AddressToDelegation(hedera.Entity(numScheduleService).LongZero())
	default:
		return nil
	}
}

// entityAt is the number of the account, contract, token or schedule at an address.
func (o *overlay) entityAt(a common.Address) int64 {
	if num := o.get(a).num; num != 0 {
		return num
	}
	if o.isToken(a) || o.isSchedule(a) {
		id, _ := hedera.FromLongZero(a)
		return id.Num
	}
	return 0
}
