package cache_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/cache"
)

// text is a log that may be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) count(words string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Count(x.b.String(), words)
}

// The log is told once that the cache is lost and once that it is back, for reads and for writes.
func TestLossOfTheCacheIsLoggedOnceEachWay(t *testing.T) {
	server, log := redistest.Start(t), new(text)
	store := cache.New(config, redistest.Dial(t, server.URL()), slog.New(slog.NewTextHandler(log, nil)))
	must.Run(t, store.Run)
	has(t, store, "k", "v")
	for _, name := range []string{"(reading)", "(writing)"} {
		line := func(message string) string { return message + `" upstream=redis name="cache ` + name + `"` }
		use := func() {
			if name == "(reading)" {
				store.Get(t.Context(), "k")
			} else {
				store.Put("k", []byte("v"))
			}
		}
		server.Kill()
		must.Until(t, name+" is lost", func() bool { use(); return log.count(line(outage.Lost)) == 1 })
		for range 100 {
			use()
		}
		server.Restart()
		must.Until(t, name+" is back", func() bool { use(); return log.count(line(outage.Back)) == 1 })
		if lost := log.count(line(outage.Lost)); lost != 1 {
			t.Errorf("%d lines about the loss of %s", lost, name)
		}
	}
}
