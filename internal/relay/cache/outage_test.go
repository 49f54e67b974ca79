package cache_test

import (
	"log/slog"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/cache"
)

// The log is told once that the cache is lost and once that it is back, for reads and for writes.
func TestLossOfTheCacheIsLoggedOnceEachWay(t *testing.T) {
	server, log := redistest.Start(t), new(proctest.Tail)
	store := cache.New(config, redistest.Dial(t, server.URL()), slog.New(slog.NewTextHandler(log, nil)))
	must.Run(t, store.Run)
	has(t, store, "k", "v")
	for _, name := range []string{"(reading)", "(writing)"} {
		count := func(message string) int {
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
		must.Until(t, name+" is lost", func() bool { use(); return count(outage.Lost) == 1 })
		for range 100 {
			use()
		}
		server.Restart()
		must.Until(t, name+" is back", func() bool { use(); return count(outage.Back) == 1 })
		if lost := count(outage.Lost); lost != 1 {
			t.Errorf("%d lines about the loss of %s", lost, name)
		}
	}
}
