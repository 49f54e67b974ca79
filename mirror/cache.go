package mirror

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

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
