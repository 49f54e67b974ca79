package ledger

import (
	"iter"
	"slices"
	"sort"
)

// table holds the rows of one kind (tokens, relations, allowances and so on) by key, each
// with its history. A row is immutable: a change is a new row with a later time. The
// ledger's lock guards a table.
type table[K comparable, V any] struct {
	compare func(a, b K) int
	rows    map[K]*history[V]
	keys    []K // ascending

	// Of a fork: the rows that its upstream has, of those that are not here, and the keys of some.
	// They are nil where the upstream's are not asked for.
	upstream     func(to *rehearsal, key K) *V
	upstreamKeys func(to *rehearsal, low, high K) []K
}

// history is what became of one row, oldest version first.
type history[V any] struct{ versions []dated[V] }

// dated is a row from one consensus time on. A nil row does not exist from then on.
type dated[V any] struct {
	at  int64
	row *V
}

func newTable[K comparable, V any](compare func(a, b K) int) *table[K, V] {
	return &table[K, V]{compare: compare, rows: map[K]*history[V]{}}
}

// at returns a row as it was at a time, nil where it did not exist.
func (t *table[K, V]) at(key K, ns int64) *V {
	row, _ := t.known(key, ns)
	return row
}

// known is at, and tells whether the table says so: what it does not know of, a fork's upstream may.
func (t *table[K, V]) known(key K, ns int64) (*V, bool) {
	h := t.rows[key]
	if h == nil {
		return nil, false
	}
	i := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].at > ns })
	if i == 0 {
		return nil, false
	}
	return h.versions[i-1].row, true
}

// put enters a version of a row.
func (t *table[K, V]) put(key K, ns int64, row *V) {
	h := t.rows[key]
	if h == nil {
		h = &history[V]{}
		t.rows[key] = h
		i, _ := slices.BinarySearchFunc(t.keys, key, t.compare)
		t.keys = slices.Insert(t.keys, i, key)
	}
	if n := len(h.versions); n > 0 && h.versions[n-1].at == ns {
		h.versions[n-1].row = row
		return
	}
	h.versions = append(h.versions, dated[V]{at: ns, row: row})
}

// prune forgets the versions of a row that ended before the horizon, and the row with
// its last version where that says that it is gone, unless an upstream has it still.
func (t *table[K, V]) prune(key K, horizon int64) {
	h := t.rows[key]
	if h == nil {
		return
	}
	keep := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].at > horizon }) - 1
	if keep > 0 {
		h.versions = slices.Clone(h.versions[keep:])
	}
	if len(h.versions) == 1 && h.versions[0].row == nil && h.versions[0].at <= horizon && t.upstream == nil {
		t.remove(key)
	}
}

// rewind forgets the versions of a row after a time.
func (t *table[K, V]) rewind(key K, ns int64) {
	h := t.rows[key]
	if h == nil {
		return
	}
	i := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].at > ns })
	h.versions = slices.Clone(h.versions[:i])
	if i == 0 {
		t.remove(key)
	}
}

func (t *table[K, V]) remove(key K) {
	delete(t.rows, key)
	if i, found := slices.BinarySearchFunc(t.keys, key, t.compare); found {
		t.keys = slices.Delete(t.keys, i, i+1)
	}
}

// between returns the keys low ≤ key ≤ high, ascending.
func (t *table[K, V]) between(low, high K) []K {
	first, _ := slices.BinarySearchFunc(t.keys, low, t.compare)
	end := first + sort.Search(len(t.keys)-first, func(i int) bool { return t.compare(t.keys[first+i], high) > 0 })
	return t.keys[first:end]
}

// rowRef is one row of some table.
type rowRef interface {
	prune(horizon int64)
	rewind(ns int64)
}

type rowOf[K comparable, V any] struct {
	table *table[K, V]
	key   K
}

func (r rowOf[K, V]) prune(horizon int64) { r.table.prune(r.key, horizon) }
func (r rowOf[K, V]) rewind(ns int64)     { r.table.rewind(r.key, ns) }

// layer is what an overlay changes in one table.
type layer[K comparable, V any] struct {
	o       *overlay
	table   *table[K, V]
	written map[K]*V // nil rows are gone
	order   []K      // of written, by first change
}

// get returns a row as the overlay sees it, nil where there is none.
func (y *layer[K, V]) get(key K) *V {
	if row, ok := y.written[key]; ok {
		return row
	}
	y.o.lock()
	row, known := y.table.known(key, y.o.asOf)
	y.o.unlock()
	if !known && y.table.upstream != nil {
		return y.table.upstream(y.o.rehearsal, key)
	}
	return row
}

// set replaces a row; nil removes it.
func (y *layer[K, V]) set(key K, row *V) {
	if y.written == nil {
		y.written = map[K]*V{}
	}
	old, had := y.written[key]
	y.written[key] = row
	if !had {
		y.order = append(y.order, key)
	}
	y.o.journal = append(y.o.journal, change{kind: changeRow, undo: func() {
		if had {
			y.written[key] = old
			return
		}
		delete(y.written, key)
		y.order = y.order[:len(y.order)-1]
	}})
}

// between yields the rows that the overlay sees with low ≤ key ≤ high, ascending. The
// rows may be changed meanwhile.
func (y *layer[K, V]) between(low, high K) iter.Seq2[K, *V] {
	y.o.lock()
	keys := slices.Clone(y.table.between(low, high))
	y.o.unlock()
	if y.table.upstreamKeys != nil {
		keys = append(keys, y.table.upstreamKeys(y.o.rehearsal, low, high)...)
	}
	for _, key := range y.order {
		if y.table.compare(low, key) <= 0 && y.table.compare(key, high) <= 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, y.table.compare)
	keys = slices.Compact(keys)
	return func(yield func(K, *V) bool) {
		for _, key := range keys {
			if row := y.get(key); row != nil && !yield(key, row) {
				return
			}
		}
	}
}

// commit brings the changes into the table. The caller holds both locks of the ledger.
func (y *layer[K, V]) commit(at int64, touched *touchedSet) {
	for _, key := range y.order {
		y.table.put(key, at, y.written[key])
		touched.rows = append(touched.rows, rowOf[K, V]{y.table, key})
	}
}

// rowsAt yields the rows of a view with low ≤ key ≤ high that are as wanted.
func rowsAt[K comparable, V any](v *View, t *table[K, V], low, high K, descending bool) iter.Seq[*V] {
	v.l.mu.RLock()
	keys := slices.Clone(t.between(low, high))
	v.l.mu.RUnlock()
	if t.upstreamKeys != nil {
		keys = append(keys, t.upstreamKeys(nil, low, high)...)
		slices.SortFunc(keys, t.compare)
		keys = slices.Compact(keys)
	}
	if descending {
		slices.Reverse(keys)
	}
	return func(yield func(*V) bool) {
		for _, key := range keys {
			if row := rowOfView(v, t, key); row != nil && !yield(row) {
				return
			}
		}
	}
}

// rowAt returns one row of a view.
func rowAt[K comparable, V any](v *View, t *table[K, V], key K) (V, bool) {
	row := rowOfView(v, t, key)
	if row == nil {
		var none V
		return none, false
	}
	return *row, true
}

func rowOfView[K comparable, V any](v *View, t *table[K, V], key K) *V {
	v.l.mu.RLock()
	row, known := t.known(key, v.asOf)
	v.l.mu.RUnlock()
	if !known && t.upstream != nil {
		return t.upstream(nil, key)
	}
	return row
}
