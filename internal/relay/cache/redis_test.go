package cache_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/cache"
)

const eventually = 2 * time.Minute

var config = cache.Config{
	Enabled: true, TTL: envx.Millis(time.Hour), MaxValue: 1000, MaxBytes: 1 << 30, Timeout: envx.Millis(eventually),
}

func start(t *testing.T, url string, c cache.Config) *cache.Redis {
	t.Helper()
	store := cache.New(c, redistest.Dial(t, url), slog.New(slog.DiscardHandler))
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
	if store.Count("put", "long") != 1 {
		t.Error("a value that is too long is written")
	}
	client := server.Client()
	must.Do(t, client.Set(t.Context(), "lockstep:cache:giant", make([]byte, 1<<20), 0).Err())
	if got := store.Get(t.Context(), "giant"); got != nil || store.Count("get", "long") != 1 {
		t.Errorf("%d bytes of a value that is too long", len(got))
	}
	store.Put("x", []byte("y"))
	must.Until(t, "the write", func() bool { return store.Count("put", "done") == 1 })
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
			store := cache.New(c, redistest.Dial(t, "redis://127.0.0.1:1"), slog.New(slog.DiscardHandler))
			const puts = 2000
			for range puts {
				store.Put("k", make([]byte, size))
			}
			kept := puts - store.Count("put", "dropped")
			if kept > 1024 || kept*float64(size) > 8<<20 || kept < 80 {
				t.Errorf("%v values of %d bytes wait", kept, size)
			}
		})
	}
}

// A Redis that is dead is asked some times and then left alone; when it is back it is
// used again.
func TestDeadRedisCostsNothing(t *testing.T) {
	server := redistest.Start(t)
	store := start(t, server.URL(), config)
	store.Put("k", []byte("v"))
	must.Until(t, "the value", func() bool { return store.Get(t.Context(), "k") != nil })
	server.Kill()
	const gets = 1000
	for range gets {
		if got := store.Get(t.Context(), "k"); got != nil {
			t.Fatalf("%q from a dead Redis", got)
		}
	}
	// At least two seconds lie between two looks: 100 of them are more than any machine needs for the rest.
	if failed := store.Count("get", "error"); failed > 100 {
		t.Errorf("a dead Redis was asked %v times of %d", failed, gets)
	}
	server.Restart()
	must.Until(t, "it is used again", func() bool {
		store.Put("k", []byte("v"))
		return store.Get(t.Context(), "k") != nil
	})
}

// One that hangs takes the deadline of a few looks, not of all. What the caller's own
// end cuts short is no failure.
func TestHangingRedis(t *testing.T) {
	t.Run("process", func(t *testing.T) {
		server := redistest.Start(t)
		hanging(t, server, server.Pause, server.Resume)
	})
	t.Run("commands", func(t *testing.T) {
		server := redistest.Start(t)
		pause := func() {
			must.Do(t, server.Client().ClientPause(t.Context(), 2*time.Second).Err())
		}
		hanging(t, server, pause, func() {}) // it ends by itself, and no command ends it earlier
	})
}

func hanging(t *testing.T, server *redistest.Server, pause, resume func()) {
	c := config
	c.Timeout = envx.Millis(100 * time.Millisecond)
	store := start(t, server.URL(), c)
	pause()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		store.Get(gone, "k")
	}
	if skipped := store.Count("get", "skipped"); skipped != 0 {
		t.Errorf("callers that gave up made Redis look dead: %v", skipped)
	}
	for range 500 {
		if got := store.Get(t.Context(), "k"); got != nil {
			t.Fatal("an answer from a Redis that hangs")
		}
	}
	if failed := store.Count("get", "error"); failed > 10+100 {
		t.Errorf("%v looks waited", failed)
	}
	resume()
	must.Until(t, "it is used again", func() bool {
		store.Get(t.Context(), "k")
		return store.Count("get", "miss") > 0
	})
}
