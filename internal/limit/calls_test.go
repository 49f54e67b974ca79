package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/redistest"
)

// refusing is what decides without Redis; it counts how often it had to.
type refusing struct{ asked atomic.Int64 }

func (r *refusing) Allow(context.Context, string, string) bool {
	r.asked.Add(1)
	return false
}

func newTestCalls(t *testing.T, url string, window, timeout time.Duration) (*Calls, *refusing, *commands) {
	t.Helper()
	client, instead, log := connect(t, url), &refusing{}, &commands{}
	client.AddHook(log)
	return NewCalls(CallsConfig{
		Redis: client, Window: window, Timeout: timeout, Instead: instead,
		Limit: func(method string) int { return map[string]int{"eth_call": 10, "net_version": 1}[method] },
	}), instead, log
}

// The processes of a fleet count together, and exactly.
func TestCallsAreCountedTogether(t *testing.T) {
	server := redistest.Start(t)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range 2 {
		c, instead, _ := newTestCalls(t, server.URL(), time.Hour, patience)
		for range 16 {
			wait.Go(func() {
				for range 5 {
					if c.Allow(t.Context(), "192.0.2.1", "eth_call") {
						allowed.Add(1)
					}
				}
			})
		}
		defer func() {
			if n := instead.asked.Load(); n != 0 {
				t.Errorf("%d calls were decided without Redis", n)
			}
		}()
	}
	wait.Wait()
	if n := allowed.Load(); n != 10 {
		t.Errorf("%d of 160 calls were allowed, want 10", n)
	}
	c, _, log := newTestCalls(t, server.URL(), time.Hour, patience)
	for name, test := range map[string]struct {
		ip, method string
		want       bool
	}{
		"another method":  {"192.0.2.1", "net_version", true},
		"another address": {"192.0.2.2", "eth_call", true},
		"the same":        {"192.0.2.1", "eth_call", false},
	} {
		if got := c.Allow(t.Context(), test.ip, test.method); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// Who is known to be over the limit costs Redis nothing.
	before := log.count()
	for range 100 {
		c.Allow(t.Context(), "192.0.2.1", "eth_call")
	}
	if n := log.count() - before; n != 0 {
		t.Errorf("%d commands for somebody who is over the limit", n)
	}
}

// A limit that is raised counts at once, also for a caller that was over the old one; so does a lower one.
func TestCallsWithAnotherLimit(t *testing.T) {
	server := redistest.Start(t)
	limit := 1
	c := NewCalls(CallsConfig{
		Redis: connect(t, server.URL()), Window: time.Hour, Timeout: patience, Instead: &refusing{}, Limit: func(string) int { return limit },
	})
	for i, step := range []struct {
		limit int
		want  bool
	}{{1, true}, {1, false}, {1, false}, {4, true}, {4, true}, {4, false}, {0, false}, {8, true}} {
		limit = step.limit
		if got := c.Allow(t.Context(), "192.0.2.1", "eth_call"); got != step.want {
			t.Errorf("call %d, limit %d: %v", i, limit, got)
		}
	}
}

func TestCallWindows(t *testing.T) {
	server := redistest.Start(t)
	c, _, _ := newTestCalls(t, server.URL(), 500*time.Millisecond, patience)
	allowed, refused := 0, 0
	for end := time.Now().Add(patience); allowed < 3 || refused == 0; {
		if c.Allow(t.Context(), "192.0.2.1", "net_version") {
			allowed++
		} else {
			refused++
		}
		if time.Now().After(end) {
			t.Fatalf("%d were allowed, in as many windows, and %d refused", allowed, refused)
		}
	}
	// A key that lost its end gets one.
	look := server.Client()
	const key = "ratelimit:192.0.2.3:net_version"
	if err := look.Set(t.Context(), key, 5, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if c.Allow(t.Context(), "192.0.2.3", "net_version") {
		t.Error("a sixth call of one was allowed")
	}
	if left, err := look.PTTL(t.Context(), key).Result(); err != nil || left < 0 && look.Exists(t.Context(), key).Val() == 1 {
		t.Errorf("it ends in %v, %v", left, err)
	}
}

// While Redis is away the process decides, nobody waits for more than the first call, and
// Redis is found again.
func TestCallsWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	c, instead, log := newTestCalls(t, server.URL(), time.Hour, patience)
	server.Kill()
	const calls = 1000
	for range calls {
		if c.Allow(t.Context(), "192.0.2.1", "eth_call") {
			t.Fatal("somebody else decided")
		}
	}
	if n := instead.asked.Load(); n != calls {
		t.Errorf("the process decided %d times", n)
	}
	if n := log.count(); n < 1 || n > calls/10 {
		t.Errorf("%d commands were tried for %d calls", n, calls)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c.Collectors()...)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "rpc_relay_rate_limit_store_failures" {
		t.Fatalf("%v, %v", families, err)
	}
	m := families[0].GetMetric()[0]
	if m.GetCounter().GetValue() != calls || m.GetLabel()[0].GetValue() != "eth_call" || m.GetLabel()[1].GetValue() != "Redis" {
		t.Errorf("counted %v", m)
	}
	server.Restart()
	for end := time.Now().Add(patience); !c.Allow(t.Context(), "192.0.2.1", "eth_call"); {
		if time.Now().After(end) {
			t.Fatal("Redis is never asked again")
		}
	}
}

// Whoever deletes the keys lifts the limits: no process remembers them for long.
func TestALimitEndsWithItsKey(t *testing.T) {
	server := redistest.Start(t)
	c, _, _ := newTestCalls(t, server.URL(), time.Hour, patience)
	for range 11 {
		c.Allow(t.Context(), "192.0.2.1", "eth_call")
	}
	if err := connect(t, server.URL()).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !c.Allow(t.Context(), "192.0.2.1", "eth_call") {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("its key is gone, and the limit stays")
		}
	}
}
