package ledger

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/versions"
	"lockstep/internal/hedera"
)

// world is all that exists, with history. The ledger's lock guards it.
type world struct {
	files map[int64]*File // as they are now: nothing shows old contents
	tables
}

func newWorld(f *fork) world {
	w := world{files: map[int64]*File{}, tables: newTables()}
	f.attach(&w.tables)
	return w
}

// entity is an account or a contract.
type entity struct {
	Balance hedera.Tinybar
	Nonce   int64
	*Description

	upstream bool // of a fork's upstream: so are slots that are not here
}

// account assembles the public form of an entity as it was from a time on.
func (e *entity) account(num, since int64) Account {
	return Account{ID: hedera.Entity(num), Balance: e.Balance, Nonce: e.Nonce, Modified: hedera.FromNanos(since), Description: *e.Description}
}

// Keys of the tables.
type (
	slotKey struct {
		Contract int64
		Slot     common.Hash
	}
	relationKey  struct{ Account, Token int64 }
	nftKey       struct{ Token, Serial int64 }
	allowanceKey struct{ Owner, Token, Spender int64 }
	expiryKey    struct{ At, Schedule int64 } // ns
	// airdropKey orders pending airdrops by who sends them, or with sender and receiver in each
	// other's place by who gets them.
	airdropKey struct{ Sender, Receiver, Token, Serial int64 }
)

func compareSlots(a, b slotKey) int {
	return cmp.Or(cmp.Compare(a.Contract, b.Contract), a.Slot.Cmp(b.Slot))
}

func compareRelations(a, b relationKey) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Token, b.Token))
}

func compareNFTs(a, b nftKey) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Serial, b.Serial))
}

func compareAllowances(a, b allowanceKey) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Spender, b.Spender), cmp.Compare(a.Token, b.Token))
}

func compareExpiries(a, b expiryKey) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Schedule, b.Schedule))
}

func compareAirdrops(a, b airdropKey) int {
	return cmp.Or(cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Receiver, b.Receiver),
		cmp.Compare(a.Token, b.Token), cmp.Compare(a.Serial, b.Serial))
}

func (k airdropKey) turned() airdropKey { return airdropKey{k.Receiver, k.Sender, k.Token, k.Serial} }

// every is the highest number of an entity or serial.
const every = math.MaxInt64

// tables have all that exists but files. An overlay has a copy, with what it changes in each.
type tables struct {
	entities      table[int64, entity]
	addresses     table[common.Address, int64] // of entities, but for long-zero ones
	keyAliases    table[string, int64]         // serialised keys
	slots         table[slotKey, common.Hash]
	tokens        table[int64, Token]
	relations     table[relationKey, Relation]
	holders       table[relationKey, struct{}] // the same pairs, by token: account and token change places
	nfts          table[nftKey, NFT]
	allowances    table[allowanceKey, Allowance]
	nftAllowances table[allowanceKey, NFTAllowance]
	topics        table[int64, Topic]
	schedules     table[int64, Schedule]
	expiries      table[expiryKey, struct{}] // of schedules, by time
	identical     table[Hash48, int64]       // schedules by what they are made of
	airdrops      table[airdropKey, Airdrop]
	claimable     table[airdropKey, struct{}] // the same by receiver: sender and receiver change places
}

func newTables() tables {
	return tables{
		entities:      newTable[int64, entity](cmp.Compare[int64]),
		addresses:     newTable[common.Address, int64](common.Address.Cmp),
		keyAliases:    newTable[string, int64](cmp.Compare[string]),
		slots:         newTable[slotKey, common.Hash](compareSlots),
		tokens:        newTable[int64, Token](cmp.Compare[int64]),
		relations:     newTable[relationKey, Relation](compareRelations),
		holders:       newTable[relationKey, struct{}](compareRelations),
		nfts:          newTable[nftKey, NFT](compareNFTs),
		allowances:    newTable[allowanceKey, Allowance](compareAllowances),
		nftAllowances: newTable[allowanceKey, NFTAllowance](compareAllowances),
		topics:        newTable[int64, Topic](cmp.Compare[int64]),
		schedules:     newTable[int64, Schedule](cmp.Compare[int64]),
		expiries:      newTable[expiryKey, struct{}](compareExpiries),
		identical:     newTable[Hash48, int64](func(a, b Hash48) int { return bytes.Compare(a[:], b[:]) }),
		airdrops:      newTable[airdropKey, Airdrop](compareAirdrops),
		claimable:     newTable[airdropKey, struct{}](compareAirdrops),
	}
}

// rows are a table of any kind.
type rows interface {
	begin(o *overlay)
	commit(at int64, touched *[]versions.Ref)
	touch(c *chain)
	saved() reflect.Type // of a row
	save(s *saving) error
	load(s *loading)
}

// all lists the tables, in the order in which they are saved.
func (t *tables) all() []rows {
	return []rows{
		&t.entities, &t.addresses, &t.keyAliases, &t.slots, &t.tokens, &t.relations, &t.holders, &t.nfts, &t.allowances, &t.nftAllowances,
		&t.topics, &t.schedules, &t.expiries, &t.identical, &t.airdrops, &t.claimable,
	}
}

func (t *tables) commit(at int64, touched *[]versions.Ref) {
	for _, one := range t.all() {
		one.commit(at, touched)
	}
}

// setEntity writes an entity, and has it found by the address and the key that it goes by.
func (t *tables) setEntity(num int64, e *entity) {
	t.entities.set(num, e)
	if _, longZero := hedera.FromLongZero(e.Address); !longZero && !isNumber(t.addresses.get(e.Address), num) {
		t.addresses.set(e.Address, &num)
	}
	if alias := string(e.Alias); len(alias) > 0 && len(alias) != common.AddressLength && !isNumber(t.keyAliases.get(alias), num) {
		t.keyAliases.set(alias, &num)
	}
}

func isNumber(is *int64, num int64) bool { return is != nil && *is == num }

// setRelation writes a relation and keeps the list of a token's holders.
func (t *tables) setRelation(account, token int64, r *Relation) {
	had := t.relations.get(relationKey{account, token}) != nil
	t.relations.set(relationKey{account, token}, r)
	switch {
	case r == nil:
		t.holders.set(relationKey{token, account}, nil)
	case !had || t.relations.upstream != nil: // the list has no holders of the upstream's
		t.holders.set(relationKey{token, account}, &struct{}{})
	}
}

// setAirdrop writes a pending airdrop, nil for one that has ended, and keeps the list of
// what receivers may claim.
func (t *tables) setAirdrop(key airdropKey, a *Airdrop) {
	t.airdrops.set(key, a)
	if a == nil {
		t.claimable.set(key.turned(), nil)
		return
	}
	t.claimable.set(key.turned(), &struct{}{})
}

// reader reads tables at a consensus time.
type reader struct {
	l    *Ledger
	asOf int64 // ns; nothing later is visible
	// shared makes it take the ledger's lock. The handler of transactions needs none: it is the only writer.
	shared bool
	// rehearsal makes it throw what is missing of a fork's upstream rather than ask for it; nil: it asks.
	rehearsal *facts.Rehearsal[factKey]
}

func (r *reader) lock() {
	if r.shared {
		r.l.mu.RLock()
	}
}

func (r *reader) unlock() {
	if r.shared {
		r.l.mu.RUnlock()
	}
}

// find returns the number behind an EVM address, long-zero or alias, and the entity; its value is nil where there is none.
func (r *reader) find(a common.Address) (int64, versions.Row[entity]) {
	id, longZero := hedera.FromLongZero(a)
	if !longZero {
		num := r.l.world.addresses.read(r, a).Value
		if num == nil {
			return r.ofUpstream(r.l.fork.addressed(r.rehearsal, a))
		}
		id.Num = *num
	}
	return id.Num, r.l.world.entities.read(r, id.Num)
}

// findAlias finds an account by a serialised key.
func (r *reader) findAlias(alias []byte) (int64, versions.Row[entity]) {
	num := r.l.world.keyAliases.read(r, string(alias)).Value
	if num == nil {
		return r.ofUpstream(r.l.fork.aliased(r.rehearsal, alias))
	}
	return *num, r.l.world.entities.read(r, *num)
}

// ofUpstream is an entity of a fork's upstream, unless the fork has one of its own in its place.
func (r *reader) ofUpstream(num int64) (int64, versions.Row[entity]) {
	if num == 0 {
		return 0, versions.Row[entity]{}
	}
	row := r.l.world.entities.read(r, num)
	if row.Value == nil || !row.Value.upstream {
		return 0, versions.Row[entity]{}
	}
	return num, row
}

// slot is a storage word of a contract, and since when; zero for one that was never written.
func (r *reader) slot(num int64, e *entity, key common.Hash) (common.Hash, int64) {
	if row := r.l.world.slots.read(r, slotKey{num, key}); row.Value != nil {
		return *row.Value, row.At
	}
	if e != nil && e.upstream {
		if value := r.l.fork.slot(r.rehearsal, num, key); value != (common.Hash{}) {
			return value, r.l.fork.at
		}
	}
	return common.Hash{}, 0
}

// table is what there is of one kind (entities, tokens, relations and so on) by key.
type table[K comparable, V any] struct {
	*versions.Table[K, V]

	// Of a fork: the rows that its upstream has, of those that are not here, and the keys of some.
	// They are nil where the upstream's are not asked for.
	upstream     func(to *facts.Rehearsal[factKey], key K) *V
	upstreamKeys func(to *facts.Rehearsal[factKey], low, high K) []K

	// Of an overlay: what it changes.
	o       *overlay
	written map[K]*V // nil rows are gone
	order   []K      // of written, by first change
}

func newTable[K comparable, V any](compare func(a, b K) int) table[K, V] {
	return table[K, V]{Table: versions.NewTable[K, V](compare)}
}

// ask has the table ask an upstream, which may have still what is gone here.
func (t *table[K, V]) ask(upstream func(to *facts.Rehearsal[factKey], key K) *V) {
	t.upstream, t.KeepGone = upstream, true
}

// read returns a row as it was at the reader's time; its value is nil where there was none.
func (t *table[K, V]) read(r *reader, key K) versions.Row[V] {
	r.lock()
	at, ask := t.At(key, r.asOf), t.upstream
	var row versions.Row[V]
	if at != nil {
		row = *at
	}
	r.unlock()
	if at == nil && ask != nil {
		row = versions.Row[V]{At: r.l.fork.at, Value: ask(r.rehearsal, key)}
	}
	return row
}

// now is a row as it is in the world; nil for none. The caller may read it.
func (t *table[K, V]) now(key K) *V {
	if row := t.At(key, math.MaxInt64); row != nil {
		return row.Value
	}
	return nil
}

// readKeys returns the keys low ≤ key ≤ high, ascending, and others.
func (t *table[K, V]) readKeys(r *reader, low, high K, others ...K) []K {
	r.lock()
	keys, ask := slices.AppendSeq(others, t.Between(low, high)), t.upstreamKeys
	r.unlock()
	if ask != nil {
		keys = append(keys, ask(r.rehearsal, low, high)...)
	}
	if ask != nil || len(others) > 0 {
		slices.SortFunc(keys, t.Compare)
		keys = slices.Compact(keys)
	}
	return keys
}

// begin makes the table an overlay's.
func (t *table[K, V]) begin(o *overlay) { t.o = o }

// get returns a row as the overlay sees it, nil where there is none.
func (t *table[K, V]) get(key K) *V {
	if row, ok := t.written[key]; ok {
		return row
	}
	return t.read(&t.o.reader, key).Value
}

// set replaces a row; nil removes it.
func (t *table[K, V]) set(key K, row *V) {
	if t.written == nil {
		t.written = map[K]*V{}
	}
	old, had := t.written[key]
	t.written[key] = row
	if !had {
		t.order = append(t.order, key)
	}
	t.o.note(func() {
		if had {
			t.written[key] = old
			return
		}
		delete(t.written, key)
		t.order = t.order[:len(t.order)-1]
	})
}

// between yields the rows that the overlay sees with low ≤ key ≤ high, ascending. The
// rows may be changed meanwhile.
func (t *table[K, V]) between(low, high K) iter.Seq2[K, *V] {
	var own []K
	for _, key := range t.order {
		if t.Compare(low, key) <= 0 && t.Compare(key, high) <= 0 {
			own = append(own, key)
		}
	}
	keys := t.readKeys(&t.o.reader, low, high, own...)
	return func(yield func(K, *V) bool) {
		for _, key := range keys {
			if row := t.get(key); row != nil && !yield(key, row) {
				return
			}
		}
	}
}

// commit brings the changes into the world. The caller holds both locks of the ledger.
func (t *table[K, V]) commit(at int64, touched *[]versions.Ref) {
	for _, key := range t.order {
		t.Put(key, at, t.written[key])
		*touched = append(*touched, t.Ref(key))
	}
}

// touch lists the versions of all rows where the blocks have them.
func (t *table[K, V]) touch(c *chain) {
	for key := range t.Keys() {
		for _, v := range t.Versions(key) {
			touched := c.touchedAt(v.At)
			*touched = append(*touched, t.Ref(key))
		}
	}
}

// rowsAt yields the rows of a view with low ≤ key ≤ high.
func rowsAt[K comparable, V any](v *View, t *table[K, V], low, high K, descending bool) iter.Seq[*V] {
	keys := t.readKeys(&v.reader, low, high)
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*V) bool) {
		for _, key := range keys {
			if row := t.read(&v.reader, key).Value; row != nil && !yield(row) {
				return
			}
		}
	}
}

// rowAt returns one row of a view.
func rowAt[K comparable, V any](v *View, t *table[K, V], key K) (row V, ok bool) {
	if is := t.read(&v.reader, key).Value; is != nil {
		return *is, true
	}
	return row, false
}
