package state

import (
	"reflect"
	"slices"

	"lockstep/devnet/ledger/codec"
	"lockstep/devnet/ledger/versions"
)

// SavedRow is a row of a table with its history.
type SavedRow[K any, V any] struct {
	Key  K
	At   []int64
	Rows []*V
}

// SavedTypes are what saved rows are made of.
func SavedTypes() (types []reflect.Type) {
	for _, t := range new(Tables).All() {
		types = append(types, t.saved())
	}
	return types
}

// Save writes all rows as they were at a time, some of them at a time: flush is called without the lock.
func (s *Store) Save(asOf int64, to *codec.Encoder, flush func() error) error {
	for _, t := range s.World.All() {
		if err := t.save(s, asOf, to, flush); err != nil {
			return err
		}
	}
	return nil
}

// Load reads what save wrote.
func (w *World) Load(from *codec.Decoder) {
	for _, t := range w.All() {
		t.load(from)
	}
	if from.Err() != nil {
		return
	}
	for num := range w.Entities.Keys() {
		for _, v := range w.Entities.Versions(num) {
			if v.Value == nil || v.Value.Description == nil {
				from.Fail(codec.ErrMalformed)
			}
		}
	}
	if w.Entities.Now(Treasury) == nil {
		from.Fail(codec.ErrMalformed)
	}
}

// Touch lists the versions of all rows where a time has its list.
func (w *World) Touch(at func(ns int64) *[]versions.Ref) {
	for _, t := range w.All() {
		t.touch(at)
	}
}

func (t *table[K, V]) saved() reflect.Type { return reflect.TypeFor[SavedRow[K, V]]() }

// someAtOnce is how many rows are encoded while the ledger's lock is held.
const someAtOnce = 256

func (t *table[K, V]) save(s *Store, asOf int64, to *codec.Encoder, flush func() error) error {
	s.RLock()
	keys := slices.Collect(t.Keys())
	s.RUnlock()
	to.Put(len(keys))
	for some := range slices.Chunk(keys, someAtOnce) {
		s.RLock()
		for _, key := range some {
			row := SavedRow[K, V]{Key: key}
			for _, v := range t.Versions(key) {
				if v.At <= asOf {
					row.At, row.Rows = append(row.At, v.At), append(row.Rows, v.Value)
				}
			}
			to.Put(row)
		}
		s.RUnlock()
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

func (t *table[K, V]) load(s *codec.Decoder) {
	rows := 0
	s.Get(&rows)
	for range rows {
		var row SavedRow[K, V]
		if s.Get(&row); s.Err() != nil || len(row.At) != len(row.Rows) {
			s.Fail(codec.ErrMalformed)
			return
		}
		for i, at := range row.At {
			t.Put(row.Key, at, row.Rows[i])
		}
	}
}
