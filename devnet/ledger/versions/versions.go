// Package versions keeps what things were from one consensus time on, until the next version: in a [List] of
// one thing, and in a [Table] of things by key. Times are nanoseconds since the Unix epoch. Nothing here is safe
// for concurrent use, but what a List's At has returned stays what it was: versions are neither moved
// nor cleared, only one of the same time is replaced.
package versions

import (
	"iter"
	"slices"
	"sort"

	"github.com/RaduBerinde/btreemap"
)

// Row is a version of a table's row. A nil Value says that there is no such row from then on.
type Row[V any] struct {
	At    int64 // the time from which on it is in force
	Value *V
}

// List is the history of one row, oldest version first.
type List[V any] []Row[V]

// after is the index of the first version after a time.
func (l List[V]) after(ns int64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].At > ns })
}

// At returns the version in force at a time, nil before the first one.
func (l List[V]) At(ns int64) *Row[V] {
	last := len(l) - 1
	if last >= 0 && l[last].At <= ns { // by far the most frequent question
		return &l[last]
	}
	i := l.after(ns)
	if i == 0 {
		return nil
	}
	return &l[i-1]
}

// put adds a version, or replaces the newest when it has the same time.
func (l *List[V]) put(v Row[V]) {
	if n := len(*l); n > 0 && (*l)[n-1].At == v.At {
		(*l)[n-1] = v
		return
	}
	*l = append(*l, v)
}

// Table holds rows by key, each with its history. A row is immutable: a change is a new row with a later time.
type Table[K any, V any] struct {
	// KeepGone keeps that a row is gone, where pruning would forget it: something else has it still.
	KeepGone bool

	compare func(a, b K) int
	rows    *btreemap.BTreeMap[K, *List[V]]
}

// degree is of the tree: a node has up to twice as many rows.
const degree = 32

// NewTable makes a table with its order of keys.
func NewTable[K any, V any](compare func(a, b K) int) *Table[K, V] {
	return &Table[K, V]{compare: compare, rows: btreemap.New[K, *List[V]](degree, compare)}
}

// Compare is the order of keys.
func (t *Table[K, V]) Compare(a, b K) int { return t.compare(a, b) }

// At returns the version of a row that is in force at a time, nil where the table has not heard of the row by then.
func (t *Table[K, V]) At(key K, ns int64) *Row[V] { return t.Versions(key).At(ns) }

// Versions is the history of a row.
func (t *Table[K, V]) Versions(key K) List[V] {
	if _, l, ok := t.rows.Get(key); ok {
		return *l
	}
	return nil
}

// Keys are those of all rows that are or were, ascending.
func (t *Table[K, V]) Keys() iter.Seq[K] {
	return keysOf(t.rows.Ascend(btreemap.Min[K](), btreemap.Max[K]()))
}

// Between are the keys low ≤ key ≤ high, ascending.
func (t *Table[K, V]) Between(low, high K) iter.Seq[K] {
	return keysOf(t.rows.Ascend(btreemap.GE(low), btreemap.LE(high)))
}

func keysOf[K, V any](rows iter.Seq2[K, V]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range rows {
			if !yield(key) {
				return
			}
		}
	}
}

// Put enters a version of a row.
func (t *Table[K, V]) Put(key K, ns int64, value *V) {
	_, l, ok := t.rows.Get(key)
	if !ok {
		l = new(List[V])
		t.rows.ReplaceOrInsert(key, l)
	}
	l.put(Row[V]{At: ns, Value: value})
}

// Ref is one row of some table.
type Ref interface {
	// Prune forgets the versions of the row that ended before the horizon, and the row with
	// its last version where that says that it is gone. At least one version stays of others. Nothing
	// is copied or cleared: simulations may still look at old versions, and the next
	// growth of the list leaves them to the collector.
	Prune(horizon int64)

	// Rewind forgets the versions after a time, and the row where none is left. What comes then is not written
	// over them.
	Rewind(ns int64)
}

// Ref names a row of the table.
func (t *Table[K, V]) Ref(key K) Ref { return ref[K, V]{t, key} }

type ref[K any, V any] struct {
	table *Table[K, V]
	key   K
}

func (r ref[K, V]) Prune(horizon int64) {
	_, l, ok := r.table.rows.Get(r.key)
	if !ok {
		return
	}
	if keep := l.after(horizon) - 1; keep > 0 {
		*l = (*l)[keep:]
	}
	if first := (*l)[0]; len(*l) == 1 && first.Value == nil && first.At <= horizon && !r.table.KeepGone {
		r.table.rows.Delete(r.key)
	}
}

func (r ref[K, V]) Rewind(ns int64) {
	_, l, ok := r.table.rows.Get(r.key)
	if !ok {
		return
	}
	if *l = slices.Clip((*l)[:l.after(ns)]); len(*l) == 0 {
		r.table.rows.Delete(r.key)
	}
}
