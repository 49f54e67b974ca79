package cache

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// locksCanWrite tells whether Redis still takes what a lock writes. The locks' scripts say
// nothing of memory, and so may use what the others leave.
func locksCanWrite(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for i := range 1000 {
		if err := client.HSet(t.Context(), fmt.Sprintf("lane:%d", i), "beat", i, "text", bytes.Repeat([]byte{'x'}, 1000)).Err(); err != nil {
			t.Fatalf("lane %d: %v", i, err)
		}
	}
}

// Whatever clients have the relays keep, the locks can still write to the same Redis.
func TestClientsCannotFillRedis(t *testing.T) {
	const memory = "24mb"
	t.Run("filters", func(t *testing.T) {
		server := redistest.Start(t, "--maxmemory", memory)
		client := server.Client()
		filters := NewFilters(client, FilterBounds{Count: 10_000, Bytes: 1 << 30, TTL: time.Hour, Timeout: eventually})
		refused := 0
		for i := range 2000 {
			err := filters.Add(t.Context(), "192.0.2.1", fmt.Sprintf("0x%x", i), bytes.Repeat([]byte{'f'}, 74_000), 1)
			switch {
			case redisx.IsShort(err):
				refused++
			case err != nil:
				t.Fatalf("filter %d: %v", i, err)
			}
		}
		if refused == 0 {
			t.Error("148 MB of filters are kept in 24 MB")
		}
		locksCanWrite(t, client)
		// Those that are there go on to work.
		if _, _, ok, err := filters.Use(t.Context(), "0x0"); !ok || err != nil {
			t.Errorf("the first filter: %v %v", ok, err)
		}
		if moved, err := filters.Advance(t.Context(), "0x0", 1, 2); !moved || err != nil {
			t.Errorf("the first filter's cursor: %v %v", moved, err)
		}
	})
	t.Run("cache", func(t *testing.T) {
		server := redistest.Start(t, "--maxmemory", memory)
		c := config
		c.MaxValue = 256 << 10
		store, client := start(t, server.URL(), c), server.Client()
		for i := range 200 {
			store.Put(fmt.Sprint(i), make([]byte, 200_000))
			must.Until(t, "the writes", func() bool {
				return count(t, store, "put", "done")+count(t, store, "put", "error")+count(t, store, "put", "skipped") == float64(i+1)
			})
		}
		if count(t, store, "put", "error") == 0 {
			t.Error("40 MB of values are kept in 24 MB")
		}
		locksCanWrite(t, client)
	})
}

// The filters of a fleet have their bytes, whichever relay takes them; the longest goes.
func TestFilterBytes(t *testing.T) {
	server := redistest.Start(t)
	bounds := FilterBounds{Count: 10_000, Bytes: 100_000, TTL: time.Hour, Timeout: eventually}
	one, other := NewFilters(server.Client(), bounds), NewFilters(server.Client(), bounds)
	must.Do(t, one.Add(t.Context(), "192.0.2.1", "0xa", []byte("small"), 1))
	for i := range 200 {
		store := one
		if i%2 == 1 {
			store = other
		}
		must.Do(t, store.Add(t.Context(), "192.0.2.1", fmt.Sprintf("0xb%x", i), bytes.Repeat([]byte{'f'}, 9000+i), 1))
	}
	if err := one.Add(t.Context(), "192.0.2.1", "0xc", make([]byte, 100_001), 1); err == nil {
		t.Error("a filter that is longer than all may be is kept")
	}
	count, bytes := server.Client().ZCard(t.Context(), "{lockstep:filters}").Val(), 0
	for _, key := range server.Client().Keys(t.Context(), "{lockstep:filters}:0x*").Val() {
		bytes += int(server.Client().HStrLen(t.Context(), key, "filter").Val())
	}
	sum, _ := server.Client().Get(t.Context(), "{lockstep:filters}:bytes").Int()
	if bytes > bounds.Bytes || bytes < bounds.Bytes/2 || sum != bytes {
		t.Errorf("%d filters have %d bytes, and are said to have %d; want at most %d", count, bytes, sum, bounds.Bytes)
	}
	if _, _, ok, err := other.Use(t.Context(), "0xa"); !ok || err != nil {
		t.Errorf("a small filter gave way to large ones: %v %v", ok, err)
	}
}
