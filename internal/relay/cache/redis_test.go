package cache

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
)

const eventually = 2 * time.Minute

var config = Config{
	Enabled: true, TTL: envx.Millis(time.Hour), MaxValue: 1000, MaxBytes: 1 << 30, Timeout: envx.Millis(eventually),
}

// count is how often an operation ended so.
func count(t *testing.T, r *Redis, operation, result string) float64 {
	t.Helper()
	return must.Measure(t, r.Collectors()...)["rpc_relay_cache_redis_operations_total "+operation+" "+result]
}

func start(t *testing.T, url string, c Config) *Redis {
	t.Helper()
	store := New(c, redistest.Dial(t, url), slog.New(slog.DiscardHandler))
	must.Run(t, store.Run)
	return store
}

// What one relay has put another one gets, however the servers are arranged.
func TestShared(t *testing.T) {
	for name, url := range map[string]func() string{
		"one server": func() string { return redistest.Start(t).URL() },
		"cluster":    func() string { return redistest.StartCluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			at := url()
			one, other := start(t, at, config), start(t, at, config)
			values := map[string][]byte{"a": {0}, "b": bytes.Repeat([]byte{0xff}, 1000), "c": []byte("text\x00more")}
			for key, value := range values {
				one.Put(key, value)
			}
			for key, value := range values {
				must.Until(t, key, func() bool { return bytes.Equal(other.Get(t.Context(), key), value) })
			}
			if got := other.Get(t.Context(), "never"); got != nil {
				t.Errorf("%q from nowhere", got)
			}
			clear(other.Get(t.Context(), "b"))
			if got := other.Get(t.Context(), "b"); !bytes.Equal(got, values["b"]) {
				t.Error("what one caller was given, another one has changed")
			}
			one.Put("a", []byte("new"))
			must.Until(t, "a again", func() bool { return string(other.Get(t.Context(), "a")) == "new" })
		})
	}
}

func TestBounds(t *testing.T) {
	server := redistest.Start(t)
	store := start(t, server.URL(), config)
	store.Put("long", make([]byte, 1001))
	if count(t, store, "put", "long") != 1 {
		t.Error("a value that is too long is written")
	}
	client := server.Client()
	must.Do(t, client.Set(t.Context(), "lockstep:cache:giant", make([]byte, 1<<20), 0).Err())
	if got := store.Get(t.Context(), "giant"); got != nil || count(t, store, "get", "long") != 1 {
		t.Errorf("%d bytes of a value that is too long", len(got))
	}
	c := config
	c.MaxBytes = 1
	full := start(t, server.URL(), c)
	full.Put("x", []byte("y"))
	must.Until(t, "the fleet has written all that it may", func() bool { return count(t, full, "put", "full") == 1 })
	store.Put("x", []byte("y"))
	must.Until(t, "the write", func() bool { return count(t, store, "put", "done") == 1 })
	if ttl := client.TTL(t.Context(), "lockstep:cache:x").Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("it expires in %s", ttl)
	}
	must.Do(t, client.LPush(t.Context(), "lockstep:cache:list", 1).Err())
	if got := store.Get(t.Context(), "list"); got != nil {
		t.Errorf("%q from a list", got)
	}
}

// The queue is bounded in entries and in bytes. Nobody writes here.
func TestQueueIsBounded(t *testing.T) {
	for name, size := range map[string]int{"entries": 1, "bytes": 100_000} {
		t.Run(name, func(t *testing.T) {
			c := config
			c.MaxValue = size
			store := New(c, redistest.Dial(t, "redis://127.0.0.1:1"), slog.New(slog.DiscardHandler))
			const puts = 2000
			for range puts {
				store.Put("k", make([]byte, size))
			}
			kept := puts - count(t, store, "put", "dropped")
			if kept > 1024 || kept*float64(size) > 8<<20 || kept < 80 {
				t.Errorf("%v values of %d bytes wait", kept, size)
			}
		})
	}
}

// TestDisabled: a store that is off takes everything and keeps nothing.
func TestDisabled(t *testing.T) {
	off, on := Disabled(), New(config, redistest.Dial(t, "redis://127.0.0.1:1"), slog.New(slog.DiscardHandler))
	off.Put("a", []byte("1"))
	if value := off.Get(t.Context(), "a"); value != nil || off.Enabled() || !on.Enabled() {
		t.Errorf("found %q, enabled %v", value, off.Enabled())
	}
	if err := off.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(off.Collectors()); n != len(on.Collectors()) {
		t.Errorf("%d collectors", n)
	}
}

// The log is told once that the cache is lost and once that it is back, for reads and for writes.
func TestLossOfTheCacheIsLoggedOnceEachWay(t *testing.T) {
	server, log := redistest.Start(t), new(proctest.Tail)
	store := New(config, redistest.Dial(t, server.URL()), slog.New(slog.NewTextHandler(log, nil)))
	must.Run(t, store.Run)
	has(t, store, "k", "v")
	for _, name := range []string{"(reading)", "(writing)"} {
		lines := func(message string) int {
			return strings.Count(log.String(), message+`" upstream=redis name="cache `+name+`"`)
		}
		use := func() {
			if name == "(reading)" {
				store.Get(t.Context(), "k")
			} else {
				store.Put("k", []byte("v"))
			}
		}
		server.Kill()
		must.Until(t, name+" is lost", func() bool { use(); return lines(outage.Lost) == 1 })
		for range 100 {
			use()
		}
		server.Restart()
		must.Until(t, name+" is back", func() bool { use(); return lines(outage.Back) == 1 })
		if lost := lines(outage.Lost); lost != 1 {
			t.Errorf("%d lines about the loss of %s", lost, name)
		}
	}
}

// has waits until what was put can be had. It puts again: a store may lose anything.
func has(t *testing.T, store *Redis, key, value string) {
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
			settled := func() float64 { return count(t, store, "put", "error") + count(t, store, "put", "skipped") }
			for range puts {
				store.Put("late", []byte("w"))
			}
			must.Until(t, "the writes", func() bool { return settled() >= puts })
			if failed := count(t, store, "put", "error"); failed > 10 {
				t.Errorf("%v of %d writes were tried", failed, puts)
			}
			must.Until(t, "a read", func() bool { return string(store.Get(t.Context(), "k")) == "v" })
			if skipped := count(t, store, "get", "skipped"); skipped != 0 {
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

// A poll that does not hear that it moved the cursor, and tries again, has moved it;
// another poll has not.
func TestAdvanceAgain(t *testing.T) {
	client := redistest.Start(t).Client()
	f := NewFilters(client, FilterBounds{Count: 10, Bytes: 1000, TTL: time.Hour, Timeout: 2 * time.Minute})
	must.Do(t, f.Add(t.Context(), "192.0.2.1", "0x1", []byte("f"), 5))
	for i, attempt := range []struct {
		poll string
		want bool
	}{{"one", true}, {"one", true}, {"other", false}} {
		moved, err := f.advance.Run(t.Context(), client, []string{filterKey("0x1")}, "5", "6", attempt.poll).Bool()
		if moved != attempt.want || err != nil {
			t.Errorf("attempt %d: %v %v", i, moved, err)
		}
	}
	if _, next, ok, err := f.Use(t.Context(), "0x1"); next != 6 || !ok || err != nil {
		t.Errorf("%d %v %v", next, ok, err)
	}
}
