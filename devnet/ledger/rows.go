package ledger

import (
	"iter"
	"slices"

	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/versions"
)

// table is what there is of one kind (tokens, relations, allowances and so on) by key. The
// ledger's lock guards it.
type table[K comparable, V any] struct {
	*versions.Table[K, V]

	// Of a fork: the rows that its upstream has, of those that are not here, and the keys of some.
	// They are nil where the upstream's are not asked for.
	upstream     func(to *facts.Rehearsal[factKey], key K) *V
	upstreamKeys func(to *facts.Rehearsal[factKey], low, high K) []K
}

func newTable[K comparable, V any](compare func(a, b K) int) *table[K, V] {
	return &table[K, V]{Table: versions.NewTable[K, V](compare)}
}

// ask has the table ask an upstream, which may have still what is gone here.
func (t *table[K, V]) ask(upstream func(to *facts.Rehearsal[factKey], key K) *V) {
	t.upstream, t.KeepGone = upstream, true
}

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
	row, known := y.table.Known(key, y.o.asOf)
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
	keys := slices.Clone(y.table.Between(low, high))
	y.o.unlock()
	if y.table.upstreamKeys != nil {
		keys = append(keys, y.table.upstreamKeys(y.o.rehearsal, low, high)...)
	}
	for _, key := range y.order {
		if y.table.Compare(low, key) <= 0 && y.table.Compare(key, high) <= 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, y.table.Compare)
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
		y.table.Put(key, at, y.written[key])
		touched.rows = append(touched.rows, y.table.Ref(key))
	}
}

// rowsAt yields the rows of a view with low ≤ key ≤ high that are as wanted.
func rowsAt[K comparable, V any](v *View, t *table[K, V], low, high K, descending bool) iter.Seq[*V] {
	v.l.mu.RLock()
	keys := slices.Clone(t.Between(low, high))
	v.l.mu.RUnlock()
	if t.upstreamKeys != nil {
		keys = append(keys, t.upstreamKeys(nil, low, high)...)
		slices.SortFunc(keys, t.Compare)
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
	row, known := t.Known(key, v.asOf)
	v.l.mu.RUnlock()
	if !known && t.upstream != nil {
		return t.upstream(nil, key)
	}
	return row
}
