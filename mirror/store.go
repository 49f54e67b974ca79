package mirror

import (
	"context"
	"encoding/hex"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"lockstep/mirror/fetch"
)

// Store keeps what can never change beyond this process, for all relays that share it. It may lose anything, and
// it must fail fast.
type Store interface {
	// Get returns what was put under a key, or nil. What it returns is the caller's.
	Get(ctx context.Context, key string) []byte
	// Put keeps a value, some time later or not at all. It does not wait, and the value
	// must not be changed after it.
	Put(key string, value []byte)
	// Enabled tells whether it keeps anything. If not, nobody needs to encode records for it.
	Enabled() bool
}

// Kinds of what is kept in the store.
const (
	kindBlock   = "b"
	kindHash    = "h" // a block by its hash
	kindResult  = "r"
	kindResults = "l"
	kindLogs    = "g"
	kindAlias   = "a"
)

// stored looks for a record in the store. A record that cannot be read counts as missing.
func stored[T any](ctx context.Context, c *Client, kind, key string) *T {
	if c.store == nil || !c.store.Enabled() {
		return nil
	}
	chain := c.chain(ctx)
	if chain == "" {
		return nil
	}
	raw := c.store.Get(ctx, chain+":"+kind+":"+key)
	if raw == nil {
		return nil
	}
	value := decodeRecord[T](raw)
	if value == nil {
		c.unreadable.Inc()
	}
	return value
}

// store puts a record into the store.
func store(c *Client, kind, key string, value any) {
	if c.store == nil || !c.store.Enabled() {
		return
	}
	if chain := c.chainKey.Load(); chain != nil {
		if record, err := encodeRecord(value); err == nil { // what is read can be written
			c.store.Put(*chain+":"+kind+":"+key, record)
		}
	}
}

// chain names the chain by its oldest block, so that networks that share a store, at the same time or one after
// the other, do not see each other's records. Empty: it is not known yet.
func (c *Client) chain(ctx context.Context) string {
	if key := c.chainKey.Load(); key != nil {
		return *key
	}
	oldest, err := c.EarliestBlock(ctx)
	if err != nil {
		return ""
	}
	key := hex.EncodeToString(oldest.Hash[:8])
	if generation := c.fetch.Generation(); generation != 0 { // the chain may have several histories
		key += "." + decimal(generation)
	}
	c.chainKey.Store(&key)
	return key
}

// cache holds things that never change, bounded by entries and by bytes. The least
// recently used go first. A nil cache holds nothing.
type cache[K comparable, V any] struct {
	mu       sync.Mutex
	lru      *simplelru.LRU[K, weighed[V]] // guarded by mu
	bytes    int64                         // guarded by mu
	maxBytes int64

	gets, puts atomic.Uint64
}

type weighed[V any] struct {
	value V
	bytes int64
}

func newCache[K comparable, V any](entries int, maxBytes int64) *cache[K, V] {
	if entries < 1 || maxBytes < 1 {
		return nil
	}
	c := &cache[K, V]{maxBytes: maxBytes}
	lru, err := simplelru.NewLRU(entries, func(_ K, gone weighed[V]) { c.bytes -= gone.bytes })
	if err != nil {
		return nil // only for entries < 1
	}
	c.lru = lru
	return c
}

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	if c == nil {
		return value, false
	}
	c.gets.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.lru.Get(key)
	return item.value, ok
}

// put keeps a value of about that many bytes, unless it would displace most of the others.
func (c *cache[K, V]) put(key K, value V, bytes int64) {
	if c == nil || bytes > c.maxBytes/4 {
		return
	}
	c.puts.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	c.bytes += bytes
	c.lru.Add(key, weighed[V]{value, bytes})
	for c.bytes > c.maxBytes {
		c.lru.RemoveOldest()
	}
}

func (c *cache[K, V]) purge() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.lru.Purge()
	c.mu.Unlock()
}

// calls returns how often the cache was asked and written to.
func (c *cache[K, V]) calls() (gets, puts uint64) {
	if c == nil {
		return 0, 0
	}
	return c.gets.Load(), c.puts.Load()
}

// size returns how many entries there are.
func (c *cache[K, V]) size() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len()
}

// fresh is a value that is asked for once per interval, not more often.
type fresh[T any] struct {
	interval time.Duration
	flights  *fetch.Flights
	key      string

	mu    sync.Mutex
	value T         // guarded by mu
	until time.Time // guarded by mu; the zero time: nothing is known
	epoch uint64    // guarded by mu; raised by forget
}

// get returns the shared value, or what read returns if there is none. Errors are
// not kept.
func (f *fresh[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	value, until, epoch := f.value, f.until, f.epoch
	f.mu.Unlock()
	if time.Now().Before(until) {
		return value, nil
	}
	// The epoch in the key keeps this caller out of a read that began before forget.
	key := f.key + "#" + strconv.FormatUint(epoch, 10)
	shared, err := f.flights.Do(ctx, key, func(ctx context.Context) (any, error) {
		asked := time.Now()
		value, err := read(ctx)
		if err == nil {
			f.keep(value, asked.Add(f.interval), epoch)
		}
		return value, err
	})
	if err != nil {
		return value, err
	}
	return shared.(T), nil
}

// keep stores a value unless it was asked for before the last forget.
func (f *fresh[T]) keep(value T, until time.Time, epoch uint64) {
	f.mu.Lock()
	if f.epoch == epoch {
		f.value, f.until = value, until
	}
	f.mu.Unlock()
}

func (f *fresh[T]) forget() {
	f.mu.Lock()
	var none T
	f.value, f.until = none, time.Time{}
	f.epoch++
	f.mu.Unlock()
}

// peek returns the shared value while there is one.
func (f *fresh[T]) peek() (value T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, !f.until.IsZero()
}
