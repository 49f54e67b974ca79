// Package versions keeps what things were from one consensus time on, until the next version: in a [List] of
// one thing, and in a [Table] of things by key. Times are nanoseconds since the Unix epoch. Nothing here is safe
// for concurrent use, but what a List's At has returned stays what it was: versions are neither moved
// nor cleared, only one of the same time is replaced.
package versions

import (
	"slices"
	"sort"
)

// Dated is a version. Since is the time from which on it is in force.
type Dated interface{ Since() int64 }

// List is the history of one thing, oldest version first.
type List[T Dated] []T

// after is the index of the first version after a time.
func (l List[T]) after(ns int64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].Since() > ns })
}

// At returns the version in force at a time, nil before the first one.
func (l List[T]) At(ns int64) *T {
	last := len(l) - 1
	if last >= 0 && l[last].Since() <= ns { // by far the most frequent question
		return &l[last]
	}
	i := l.after(ns)
	if i == 0 {
		return nil
	}
	return &l[i-1]
}

// Put adds a version, or replaces the newest when it has the same time.
func (l *List[T]) Put(v T) {
	if n := len(*l); n > 0 && (*l)[n-1].Since() == v.Since() {
		(*l)[n-1] = v
		return
	}
	*l = append(*l, v)
}

// Prune forgets versions that ended before the horizon. At least one stays. Nothing
// is copied or cleared: simulations may still look at old versions, and the next
// growth of the list leaves them to the collector.
func (l *List[T]) Prune(horizon int64) {
	if keep := l.after(horizon) - 1; keep > 0 {
		*l = (*l)[keep:]
	}
}

// Rewind forgets the versions after a time. What comes then is not written over them.
func (l *List[T]) Rewind(ns int64) { *l = slices.Clip((*l)[:l.after(ns)]) }

// Row is a version of a table's row. A nil Value says that there is no such row from then on.
type Row[V any] struct {
	At    int64
	Value *V
}

// Since is the time from which on it is in force.
func (r Row[V]) Since() int64 { return r.At }

// Table holds rows by key, each with its history. A row is immutable: a change is a new row with a later time.
type Table[K comparable, V any] struct {
	// KeepGone keeps that a row is gone, where pruning would forget it: something else has it still.
	KeepGone bool

	compare func(a, b K) int
	rows    map[K]*List[Row[V]]
	keys    []K // ascending
}

// NewTable makes a table with its order of keys.
func NewTable[K comparable, V any](compare func(a, b K) int) *Table[K, V] {
	return &Table[K, V]{compare: compare, rows: map[K]*List[Row[V]]{}}
}

// Compare is the order of keys.
func (t *Table[K, V]) Compare(a, b K) int { return t.compare(a, b) }

// At returns a row as it was at a time, nil where it did not exist.
func (t *Table[K, V]) At(key K, ns int64) *V {
	row, _ := t.Known(key, ns)
	return row
}

// Known is At, and tells whether the table says so, or never heard of such a row by that time.
func (t *Table[K, V]) Known(key K, ns int64) (*V, bool) {
	if l := t.rows[key]; l != nil {
		if row := l.At(ns); row != nil {
			return row.Value, true
		}
	}
	return nil, false
}

// Versions is the history of a row.
func (t *Table[K, V]) Versions(key K) List[Row[V]] {
	if l := t.rows[key]; l != nil {
		return *l
	}
	return nil
}

// Keys are those of all rows that are or were, ascending. They are the table's own.
func (t *Table[K, V]) Keys() []K { return t.keys }

// Between returns the keys low ≤ key ≤ high, ascending. They are the table's own.
func (t *Table[K, V]) Between(low, high K) []K {
	first, _ := slices.BinarySearchFunc(t.keys, low, t.compare)
	end := first + sort.Search(len(t.keys)-first, func(i int) bool { return t.compare(t.keys[first+i], high) > 0 })
	return t.keys[first:end]
}

// Put enters a version of a row.
func (t *Table[K, V]) Put(key K, ns int64, value *V) {
	l := t.rows[key]
	if l == nil {
		l = new(List[Row[V]])
		t.rows[key] = l
		i, _ := slices.BinarySearchFunc(t.keys, key, t.compare)
		t.keys = slices.Insert(t.keys, i, key)
	}
	l.Put(Row[V]{At: ns, Value: value})
}

// Ref is one row of some table.
type Ref interface {
	// Prune forgets the versions of the row that ended before the horizon, and the row with
	// its last version where that says that it is gone.
	Prune(horizon int64)

	// Rewind forgets the versions after a time, and the row where none is left.
	Rewind(ns int64)
}

// Ref names a row of the table.
func (t *Table[K, V]) Ref(key K) Ref { return ref[K, V]{t, key} }

type ref[K comparable, V any] struct {
	table *Table[K, V]
	key   K
}

func (r ref[K, V]) Prune(horizon int64) {
	l := r.table.rows[r.key]
	if l == nil {
		return
	}
	l.Prune(horizon)
	if first := (*l)[0]; len(*l) == 1 && first.Value == nil && first.At <= horizon && !r.table.KeepGone {
		r.table.remove(r.key)
	}
}

func (r ref[K, V]) Rewind(ns int64) {
	l := r.table.rows[r.key]
	if l == nil {
		return
	}
	if l.Rewind(ns); len(*l) == 0 {
		r.table.remove(r.key)
	}
}

func (t *Table[K, V]) remove(key K) {
	delete(t.rows, key)
	if i, found := slices.BinarySearchFunc(t.keys, key, t.compare); found {
		t.keys = slices.Delete(t.keys, i, i+1)
	}
}
