package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/cache"
)

// has waits until what was put can be had. It puts again: a store may lose anything.
func has(t *testing.T, store *cache.Redis, key, value string) {
	t.Helper()
	must.Until(t, key, func() bool {
		store.Put(key, []byte(value))
		return string(store.Get(t.Context(), key)) == value
	})
}

// A Redis that takes no writes, because it is full or because they are held up, is left
// alone with them, and read all the same.
func TestReadsWithoutWrites(t *testing.T) {
	type state func(context.Context, *redis.Client) error
	for name, trouble := range map[string]struct {
		timeout    time.Duration
		begin, end state
	}{
		"full": {
			eventually,
			func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, "maxmemory", "1").Err() },
			func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, "maxmemory", "0").Err() },
		},
		"held up": {
			3 * time.Second, // a write that is held up takes as long
			func(ctx context.Context, c *redis.Client) error {
				return c.Do(ctx, "CLIENT", "PAUSE", 600_000, "WRITE").Err()
			},
			func(ctx context.Context, c *redis.Client) error { return c.ClientUnpause(ctx).Err() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--maxmemory-policy", "noeviction")
			c := config
			c.Timeout = envx.Millis(trouble.timeout)
			store, client := start(t, server.URL(), c), server.Client()
			has(t, store, "k", "v")
			must.Do(t, trouble.begin(t.Context(), client))
			const puts = 20
			settled := func() float64 { return store.Count("put", "error") + store.Count("put", "skipped") }
			for range puts {
				store.Put("late", []byte("w"))
			}
			must.Until(t, "the writes", func() bool { return settled() >= puts })
			if failed := store.Count("put", "error"); failed > 10 {
				t.Errorf("%v of %d writes were tried", failed, puts)
			}
			must.Until(t, "a read", func() bool { return string(store.Get(t.Context(), "k")) == "v" })
			if skipped := store.Count("get", "skipped"); skipped != 0 {
				t.Errorf("%v reads were not tried", skipped)
			}
			if got := store.Get(t.Context(), "late"); got != nil {
				t.Errorf("%q was written", got)
			}
			must.Do(t, trouble.end(t.Context(), client))
			has(t, store, "late", "w")
		})
	}
}

// What Redis throws out to make room is not there; what is there is right.
func TestEviction(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
	store, client := start(t, server.URL(), config), server.Client()
	const values, atOnce = 5000, 500
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, config.MaxValue/2) }
	for i := range values {
		store.Put(fmt.Sprint(i), value(i))
		if i%atOnce == atOnce-1 {
			must.Until(t, "the writes", func() bool {
				return store.Count("put", "done")+store.Count("put", "error")+store.Count("put", "skipped") == float64(i+1)
			})
		}
	}
	// The store leaves a part of the memory alone; others may not. A part of the values has to go.
	for i := 0; ; i++ {
		must.Do(t, client.Set(t.Context(), fmt.Sprint("other", i), make([]byte, 1000), 0).Err())
		if i%50 != 49 {
			continue
		}
		left := must.Get(client.Keys(t.Context(), "lockstep:cache:*").Result())(t)
		if float64(len(left)) < store.Count("put", "done")*9/10 {
			break
		}
		if i > 10_000 {
			t.Fatalf("nothing had to go: %d values are left", len(left))
		}
	}
	found := 0
	for i := range values {
		switch got := store.Get(t.Context(), fmt.Sprint(i)); {
		case got == nil:
		case bytes.Equal(got, value(i)):
			found++
		default:
			t.Fatalf("%d: what was put under another key", i)
		}
	}
	if found == 0 || found >= int(store.Count("put", "done")) || store.Count("get", "error") != 0 {
		t.Errorf("%d of %d values are there; %v errors", found, values, store.Count("get", "error"))
	}
}

// Everything may vanish at any time.
func TestFlush(t *testing.T) {
	server := redistest.Start(t)
	store, client := start(t, server.URL(), config), server.Client()
	for round := range 3 {
		store.Put("k", []byte("v"))
		must.Until(t, "the write", func() bool { return store.Count("put", "done") == float64(round+1) })
		if got := store.Get(t.Context(), "k"); string(got) != "v" {
			t.Errorf("%q", got)
		}
		must.Do(t, client.FlushAll(t.Context()).Err())
		if got := store.Get(t.Context(), "k"); got != nil {
			t.Errorf("%q after all was deleted", got)
		}
	}
}
