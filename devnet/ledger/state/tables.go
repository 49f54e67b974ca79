package state

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/codec"
	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hedera"
)

// World is all that exists, with history.
type World struct {
	Files map[int64]*File // as they are now: nothing shows old contents
	Tables
}

// Store is the world, with the lock that guards it.
type Store struct {
	sync.RWMutex
	World   World
	Fork    *fork // nil: no upstream
	NextNum int64 // number of the next entity
}

// NewStore makes one in which nothing is yet, but what the origin of a fork has.
func NewStore(from *Origin) *Store {
	f := newFork(from)
	return &Store{World: NewWorld(f), Fork: f}
}

// NewWorld makes a world in which nothing is yet.
func NewWorld(f *fork) World {
	w := World{Files: map[int64]*File{}, Tables: newTables()}
	f.attach(&w.Tables)
	return w
}

// Entity is an account or a contract.
type Entity struct {
	Balance hedera.Tinybar
	Nonce   int64
	*Description

	upstream bool // of a fork's upstream: so are slots that are not here
}

// Account assembles the public form of an entity as it was from a time on.
func (e *Entity) Account(num, since int64) Account {
	return Account{ID: hedera.Entity(num), Balance: e.Balance, Nonce: e.Nonce, Modified: hedera.FromNanos(since), Description: *e.Description}
}

// Keys of the tables.
type (
	SlotKey struct {
		Contract int64
		Slot     common.Hash
	}
	RelationKey  struct{ Account, Token int64 }
	NFTKey       struct{ Token, Serial int64 }
	AllowanceKey struct{ Owner, Token, Spender int64 }
	ExpiryKey    struct{ At, Schedule int64 } // ns
	// AirdropKey orders pending airdrops by who sends them, or with sender and receiver in each
	// other's place by who gets them.
	AirdropKey struct{ Sender, Receiver, Token, Serial int64 }
)

func compareSlots(a, b SlotKey) int {
	return cmp.Or(cmp.Compare(a.Contract, b.Contract), a.Slot.Cmp(b.Slot))
}

func compareRelations(a, b RelationKey) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Token, b.Token))
}

func compareNFTs(a, b NFTKey) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Serial, b.Serial))
}

func compareAllowances(a, b AllowanceKey) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Spender, b.Spender), cmp.Compare(a.Token, b.Token))
}

func compareExpiries(a, b ExpiryKey) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Schedule, b.Schedule))
}

func compareAirdrops(a, b AirdropKey) int {
	return cmp.Or(cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Receiver, b.Receiver),
		cmp.Compare(a.Token, b.Token), cmp.Compare(a.Serial, b.Serial))
}

// Turned has sender and receiver change places.
func (k AirdropKey) Turned() AirdropKey { return AirdropKey{k.Receiver, k.Sender, k.Token, k.Serial} }

// Last is the highest number of an entity or serial.
const Last = math.MaxInt64

// Tables have all that exists but files. An overlay has a copy, with what it changes in each.
type Tables struct {
	Entities      table[int64, Entity]
	addresses     table[common.Address, int64] // of entities, but for long-zero ones
	keyAliases    table[common.Hash, int64]    // hashes of serialised keys
	Slots         table[SlotKey, common.Hash]
	Tokens        table[int64, Token]
	Relations     table[RelationKey, Relation]
	Holders       table[RelationKey, struct{}] // the same pairs, by token: account and token change places
	NFTs          table[NFTKey, NFT]
	Allowances    table[AllowanceKey, Allowance]
	NFTAllowances table[AllowanceKey, NFTAllowance]
	Topics        table[int64, Topic]
	Schedules     table[int64, Schedule]
	Expiries      table[ExpiryKey, struct{}] // of schedules, by time
	Identical     table[Hash48, int64]       // schedules by what they are made of
	Airdrops      table[AirdropKey, Airdrop]
	Claimable     table[AirdropKey, struct{}] // the same by receiver: sender and receiver change places
}

func newTables() Tables {
	return Tables{
		Entities:      newTable[int64, Entity](cmp.Compare[int64]),
		addresses:     newTable[common.Address, int64](common.Address.Cmp),
		keyAliases:    newTable[common.Hash, int64](common.Hash.Cmp),
		Slots:         newTable[SlotKey, common.Hash](compareSlots),
		Tokens:        newTable[int64, Token](cmp.Compare[int64]),
		Relations:     newTable[RelationKey, Relation](compareRelations),
		Holders:       newTable[RelationKey, struct{}](compareRelations),
		NFTs:          newTable[NFTKey, NFT](compareNFTs),
		Allowances:    newTable[AllowanceKey, Allowance](compareAllowances),
		NFTAllowances: newTable[AllowanceKey, NFTAllowance](compareAllowances),
		Topics:        newTable[int64, Topic](cmp.Compare[int64]),
		Schedules:     newTable[int64, Schedule](cmp.Compare[int64]),
		Expiries:      newTable[ExpiryKey, struct{}](compareExpiries),
		Identical:     newTable[Hash48, int64](func(a, b Hash48) int { return bytes.Compare(a[:], b[:]) }),
		Airdrops:      newTable[AirdropKey, Airdrop](compareAirdrops),
		Claimable:     newTable[AirdropKey, struct{}](compareAirdrops),
	}
}

// rows are a table of any kind.
type rows interface {
	begin(o *Overlay)
	commit(at int64, touched *[]versions.Ref)
	touch(at func(ns int64) *[]versions.Ref)
	saved() reflect.Type // of a row
	save(s *Store, asOf int64, to *codec.Encoder, flush func() error) error
	load(from *codec.Decoder)
}

// All lists the tables, in the order in which they are saved.
func (t *Tables) All() []rows {
	return []rows{
		&t.Entities, &t.addresses, &t.keyAliases, &t.Slots, &t.Tokens, &t.Relations, &t.Holders, &t.NFTs, &t.Allowances, &t.NFTAllowances,
		&t.Topics, &t.Schedules, &t.Expiries, &t.Identical, &t.Airdrops, &t.Claimable,
	}
}

// Commit brings an overlay's changes into the world, and lists them. The caller holds the lock.
func (t *Tables) Commit(at int64, touched *[]versions.Ref) {
	for _, one := range t.All() {
		one.commit(at, touched)
	}
}

// SetEntity writes an entity, and has it found by the address and the key that it goes by.
func (t *Tables) SetEntity(num int64, e *Entity) {
	t.Entities.Set(num, e)
	if _, longZero := hedera.FromLongZero(e.Address); !longZero && !isNumber(t.addresses.Get(e.Address), num) {
		t.addresses.Set(e.Address, &num)
	}
	if len(e.Alias) > 0 && len(e.Alias) != common.AddressLength {
		if key := crypto.Keccak256Hash(e.Alias); !isNumber(t.keyAliases.Get(key), num) {
			t.keyAliases.Set(key, &num)
		}
	}
}

func isNumber(is *int64, num int64) bool { return is != nil && *is == num }

// SetRelation writes a relation and keeps the list of a token's holders.
func (t *Tables) SetRelation(account, token int64, r *Relation) {
	had := t.Relations.Get(RelationKey{account, token}) != nil
	t.Relations.Set(RelationKey{account, token}, r)
	switch {
	case r == nil:
		t.Holders.Set(RelationKey{token, account}, nil)
	case !had || t.Relations.upstream != nil: // the list has no holders of the upstream's
		t.Holders.Set(RelationKey{token, account}, &struct{}{})
	}
}

// SetAirdrop writes a pending airdrop, nil for one that has ended, and keeps the list of
// what receivers may claim.
func (t *Tables) SetAirdrop(key AirdropKey, a *Airdrop) {
	t.Airdrops.Set(key, a)
	if a == nil {
		t.Claimable.Set(key.Turned(), nil)
		return
	}
	t.Claimable.Set(key.Turned(), &struct{}{})
}

// Reader reads tables at a consensus time.
type Reader struct {
	Store *Store
	AsOf  int64 // ns; nothing later is visible
	// shared makes it take the store's lock. The handler of transactions needs none: it is the only writer.
	Shared bool
	// rehearsal makes it throw what is missing of a fork's upstream rather than ask for it; nil: it asks.
	Rehearsal *facts.Rehearsal[FactKey]
}

func (r *Reader) lock() {
	if r.Shared {
		r.Store.RLock()
	}
}

func (r *Reader) unlock() {
	if r.Shared {
		r.Store.RUnlock()
	}
}

// Find returns the number behind an EVM address, long-zero or alias, and the entity; its value is nil where there is none.
func (r *Reader) Find(a common.Address) (int64, versions.Row[Entity]) {
	id, longZero := hedera.FromLongZero(a)
	if !longZero {
		num := r.Store.World.addresses.Read(r, a).Value
		if num == nil {
			return r.ofUpstream(r.Store.Fork.addressed(r.Rehearsal, a))
		}
		id.Num = *num
	}
	return id.Num, r.Store.World.Entities.Read(r, id.Num)
}

// FindAlias finds an account by a serialised key.
func (r *Reader) FindAlias(alias []byte) (int64, versions.Row[Entity]) {
	num := r.Store.World.keyAliases.Read(r, crypto.Keccak256Hash(alias)).Value
	if num == nil {
		return r.ofUpstream(r.Store.Fork.aliased(r.Rehearsal, alias))
	}
	return *num, r.Store.World.Entities.Read(r, *num)
}

// ofUpstream is an entity of a fork's upstream, unless the fork has one of its own in its place.
func (r *Reader) ofUpstream(num int64) (int64, versions.Row[Entity]) {
	if num == 0 {
		return 0, versions.Row[Entity]{}
	}
	row := r.Store.World.Entities.Read(r, num)
	if row.Value == nil || !row.Value.upstream {
		return 0, versions.Row[Entity]{}
	}
	return num, row
}

// Slot is a storage word of a contract, and since when; zero for one that was never written.
func (r *Reader) Slot(num int64, e *Entity, key common.Hash) (common.Hash, int64) {
	if row := r.Store.World.Slots.Read(r, SlotKey{num, key}); row.Value != nil {
		return *row.Value, row.At
	}
	if e != nil && e.upstream {
		if value := r.Store.Fork.slot(r.Rehearsal, num, key); value != (common.Hash{}) {
			return value, r.Store.Fork.At
		}
	}
	return common.Hash{}, 0
}

// table is what there is of one kind (entities, tokens, relations and so on) by key.
type table[K comparable, V any] struct {
	*versions.Table[K, V]

	// Of a fork: the rows that its upstream has, of those that are not here, and the keys of some.
	// They are nil where the upstream's are not asked for.
	upstream     func(to *facts.Rehearsal[FactKey], key K) *V
	upstreamKeys func(to *facts.Rehearsal[FactKey], low, high K) []K

	// Of an overlay: what it changes.
	o       *Overlay
	written map[K]*V // nil rows are gone
	order   []K      // of written, by first change
}

func newTable[K comparable, V any](compare func(a, b K) int) table[K, V] {
	return table[K, V]{Table: versions.NewTable[K, V](compare)}
}

// ask has the table ask an upstream, which may have still what is gone here.
func (t *table[K, V]) ask(upstream func(to *facts.Rehearsal[FactKey], key K) *V) {
	t.upstream, t.KeepGone = upstream, true
}

// Read returns a row as it was at the reader's time; its value is nil where there was none.
func (t *table[K, V]) Read(r *Reader, key K) versions.Row[V] {
	r.lock()
	at, ask := t.At(key, r.AsOf), t.upstream
	var row versions.Row[V]
	if at != nil {
		row = *at
	}
	r.unlock()
	if at == nil && ask != nil {
		row = versions.Row[V]{At: r.Store.Fork.At, Value: ask(r.Rehearsal, key)}
	}
	return row
}

// Now is a row as it is in the world; nil for none. The caller may read it.
func (t *table[K, V]) Now(key K) *V {
	if row := t.At(key, math.MaxInt64); row != nil {
		return row.Value
	}
	return nil
}

// ReadKeys returns the keys low ≤ key ≤ high, ascending, and others.
func (t *table[K, V]) ReadKeys(r *Reader, low, high K, others ...K) []K {
	r.lock()
	keys, ask := slices.AppendSeq(others, t.Between(low, high)), t.upstreamKeys
	r.unlock()
	if ask != nil {
		keys = append(keys, ask(r.Rehearsal, low, high)...)
	}
	if ask != nil || len(others) > 0 {
		slices.SortFunc(keys, t.Compare)
		keys = slices.Compact(keys)
	}
	return keys
}

// begin makes the table an overlay's.
func (t *table[K, V]) begin(o *Overlay) { t.o = o }

// Get returns a row as the overlay sees it, nil where there is none.
func (t *table[K, V]) Get(key K) *V {
	if row, ok := t.written[key]; ok {
		return row
	}
	return t.Read(&t.o.Reader, key).Value
}

// Set replaces a row; nil removes it.
func (t *table[K, V]) Set(key K, row *V) {
	if t.written == nil {
		t.written = map[K]*V{}
	}
	old, had := t.written[key]
	t.written[key] = row
	if !had {
		t.order = append(t.order, key)
	}
	t.o.Note(func() {
		if had {
			t.written[key] = old
			return
		}
		delete(t.written, key)
		t.order = t.order[:len(t.order)-1]
	})
}

// Rows yields the rows that the overlay sees with low ≤ key ≤ high, ascending. The
// rows may be changed meanwhile.
func (t *table[K, V]) Rows(low, high K) iter.Seq2[K, *V] {
	var own []K
	for _, key := range t.order {
		if t.Compare(low, key) <= 0 && t.Compare(key, high) <= 0 {
			own = append(own, key)
		}
	}
	keys := t.ReadKeys(&t.o.Reader, low, high, own...)
	return func(yield func(K, *V) bool) {
		for _, key := range keys {
			if row := t.Get(key); row != nil && !yield(key, row) {
				return
			}
		}
	}
}

// commit brings the changes into the world. The caller holds the lock.
func (t *table[K, V]) commit(at int64, touched *[]versions.Ref) {
	for _, key := range t.order {
		t.Put(key, at, t.written[key])
		*touched = append(*touched, t.Ref(key))
	}
}

// touch lists the versions of all rows where a time has its list.
func (t *table[K, V]) touch(at func(ns int64) *[]versions.Ref) {
	for key := range t.Keys() {
		for _, v := range t.Versions(key) {
			touched := at(v.At)
			*touched = append(*touched, t.Ref(key))
		}
	}
}

// RowsAt yields the rows that a reader sees with low ≤ key ≤ high.
func RowsAt[K comparable, V any](r *Reader, t *table[K, V], low, high K, descending bool) iter.Seq[*V] {
	keys := t.ReadKeys(r, low, high)
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*V) bool) {
		for _, key := range keys {
			if row := t.Read(r, key).Value; row != nil && !yield(row) {
				return
			}
		}
	}
}

// RowAt returns one row that a reader sees.
func RowAt[K comparable, V any](r *Reader, t *table[K, V], key K) (row V, ok bool) {
	if is := t.Read(r, key).Value; is != nil {
		return *is, true
	}
	return row, false
}
