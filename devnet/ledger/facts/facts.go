// Package facts is what a fork learns of its upstream. A fact never changes, so that it is fetched when it is needed,
// kept while there is room, and forgotten. State has no errors: a failing upstream is a panic with an
// [UpstreamError], which [Catch] makes an error of again.
//
// A [Rehearsal] finds out which facts something needs, without waiting for any while it runs: what it has not been told
// ends it with a panic, is fetched, and the next attempt comes further.
package facts

import (
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// UpstreamError is what a fork could not learn from its upstream. It travels as a panic, from below
// any lock but that of those who handle transactions, to those who answer.
type UpstreamError struct{ Err error }

func (e *UpstreamError) Error() string { return "the fork's upstream failed: " + e.Err.Error() }
func (e *UpstreamError) Unwrap() error { return e.Err }

// Catch is for defer. It makes an error of what the upstream of a fork failed with.
func Catch(err *error) {
	if p := recover(); p != nil {
		failed, ok := p.(*UpstreamError)
		if !ok {
			panic(p)
		}
		*err = failed
	}
}

// Cache has the facts that are known, by what names them. It is safe for concurrent use.
type Cache[K comparable] struct {
	limit   int64
	looking singleflight.Group

	mu     sync.Mutex
	known  *simplelru.LRU[K, fact]
	weight int64
}

type fact struct {
	value  any
	weight int64
}

// New makes a cache that keeps facts of so many bytes, roughly.
func New[K comparable](limit int64) *Cache[K] {
	c := &Cache[K]{limit: limit}
	const plenty = 1 << 30 // the weight bounds it
	c.known, _ = simplelru.NewLRU[K, fact](plenty, func(_ K, gone fact) { c.weight -= gone.weight })
	return c
}

// Keep enters a fact that came with another one.
func (c *Cache[K]) Keep(key K, value any, weight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Remove(key)
	c.known.Add(key, fact{value, weight})
	for c.weight += weight; c.weight > c.limit && c.known.Len() > 1; {
		c.known.RemoveOldest()
	}
}

// Rehearsal is told what it needs to know. It asks nobody, and has what it was told, however small the cache is.
type Rehearsal[K comparable] struct{ told map[K]any }

// NewRehearsal makes one that knows nothing.
func NewRehearsal[K comparable]() *Rehearsal[K] { return &Rehearsal[K]{map[K]any{}} }

// Missing is a fact that a rehearsal has not been told. It is a panic as long as Attempt has not caught it.
type Missing[K comparable] struct {
	key   K
	fetch func() (any, error)
}

// Attempt does something that learns for the rehearsal. Where it ends for a missing fact, Attempt fetches that, and
// done is false: another attempt may succeed.
func (r *Rehearsal[K]) Attempt(do func()) (done bool, err error) {
	missing := r.missing(do)
	if missing == nil {
		return true, nil
	}
	v, err := missing.fetch()
	if err != nil {
		return false, &UpstreamError{err}
	}
	r.told[missing.key] = v
	return false, nil
}

func (r *Rehearsal[K]) missing(do func()) (missing *Missing[K]) {
	defer func() {
		if p := recover(); p != nil {
			var ok bool
			if missing, ok = p.(*Missing[K]); !ok {
				panic(p)
			}
		}
	}()
	do()
	return nil
}

// Learn returns a fact, which it fetches if it is not known; several who need it at a time fetch it once. For a rehearsal it asks nobody.
func Learn[K comparable, V any](c *Cache[K], to *Rehearsal[K], key K, weigh func(V) int64, fetch func() (V, error)) V {
	if to != nil {
		if v, ok := to.told[key]; ok {
			return v.(V)
		}
	}
	c.mu.Lock()
	known, ok := c.known.Get(key)
	c.mu.Unlock()
	if ok {
		if to != nil {
			to.told[key] = known.value
		}
		return known.value.(V)
	}
	look := func() (any, error) {
		v, err := fetch()
		if err != nil {
			return v, err
		}
		c.Keep(key, v, weigh(v))
		return v, nil
	}
	fetched := func() (any, error) {
		v, err, _ := c.looking.Do(fmt.Sprint(key), look)
		return v, err
	}
	if to != nil {
		panic(&Missing[K]{key, fetched})
	}
	v, err := fetched()
	if err != nil {
		panic(&UpstreamError{err})
	}
	return v.(V)
}
