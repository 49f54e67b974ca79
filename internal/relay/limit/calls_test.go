package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

func newTestCalls(t *testing.T, url string, window time.Duration) (*Calls, *redistest.Sent) {
	t.Helper()
	client, log := redistest.Dial(t, url), new(redistest.Sent)
	client.AddHook(log)
	return NewCalls(client, patience, window, func(method string) int { return map[string]int{"eth_call": 10, "net_version": 1}[method] }), log
}

// A window begins with the first use, and what is refused does not count. So it is in this process and in Redis.
func TestWindowsOfUse(t *testing.T) {
	redisURL := redistest.Start(t).URL()
	for name, client := range map[string]redis.UniversalClient{"alone": nil, "fleet": redistest.Dial(t, redisURL)} {
		t.Run(name, func(t *testing.T) {
			q := NewQuotas(client, patience)
			for i, step := range []struct {
				holder, what  string
				amount, limit int
				want          bool
			}{
				{"shop", "weight", 8, 10, true},
				{"shop", "weight", 4, 10, false},
				{"shop", "weight", 2, 10, true},
				{"shop", "weight", 1, 10, false},
				{"shop", "weight", 1, 11, true}, // a limit that is raised counts at once
				{"shop", "weight", 1, 0, false}, // and a lower one
				{"shop", "calls", 1, 1, true},
				{"other", "weight", 10, 10, true},
				{"none", "weight", 1, 0, false},
			} {
				if got := q.Spend(t.Context(), step.holder, step.what, step.amount, step.limit); got != step.want {
					t.Errorf("step %d: %v", i, got)
				}
			}
		})
	}
	if left, err := redistest.Dial(t, redisURL).PTTL(t.Context(), "quota:{shop}:weight").Result(); err != nil || left <= 0 || left > quotaWindow {
		t.Errorf("the window ends in %v, %v", left, err)
	}
	synctest.Test(t, func(t *testing.T) {
		q := NewQuotas(nil, 0)
		spend := func() bool { return q.Spend(t.Context(), "shop", "weight", 10, 10) }
		if !spend() || spend() {
			t.Error("want ten, and no more")
		}
		time.Sleep(quotaWindow - time.Millisecond) //nolint:forbidigo // fake time
		if spend() {
			t.Error("the window is over too early")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // fake time
		if !spend() {
			t.Error("the window does not end")
		}
	})
}

// The processes of a fleet count together, and exactly.
func TestCallsAreCountedTogether(t *testing.T) {
	server := redistest.Start(t)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range 2 {
		c, _ := newTestCalls(t, server.URL(), time.Hour)
		for range 16 {
			wait.Go(func() {
				for range 5 {
					if c.Allow(t.Context(), "192.0.2.1", "eth_call") {
						allowed.Add(1)
					}
				}
			})
		}
	}
	wait.Wait()
	if n := allowed.Load(); n != 10 {
		t.Errorf("%d of 160 calls were allowed, want 10", n)
	}
	c, log := newTestCalls(t, server.URL(), time.Hour)
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
	before := log.Load()
	for range 100 {
		c.Allow(t.Context(), "192.0.2.1", "eth_call")
	}
	if n := log.Load() - before; n != 0 {
		t.Errorf("%d commands for somebody who is over the limit", n)
	}
}

// While Redis is away the process decides, nobody waits for more than the first call, and
// Redis is found again.
func TestCallsWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	c, log := newTestCalls(t, server.URL(), time.Hour)
	server.Kill()
	const calls = 1000
	allowed := 0
	for range calls {
		if c.Allow(t.Context(), "192.0.2.1", "eth_call") {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("the process allowed %d calls", allowed)
	}
	if n := log.Load(); n < 1 || n > calls/10 {
		t.Errorf("%d commands were tried for %d calls", n, calls)
	}
	if counted := must.Measure(t, c.Collectors()...)["rpc_relay_rate_limit_store_failures eth_call Redis"]; counted != calls {
		t.Errorf("%v failures are counted", counted)
	}
	server.Restart()
	must.Until(t, "Redis is asked again", func() bool { return c.Allow(t.Context(), "192.0.2.1", "eth_call") })
}

// Whoever deletes the keys lifts the limits: no process remembers them for long. A key that lost its end gets one.
func TestALimitEndsWithItsKey(t *testing.T) {
	server := redistest.Start(t)
	c, _ := newTestCalls(t, server.URL(), time.Hour)
	for range 11 {
		c.Allow(t.Context(), "192.0.2.1", "eth_call")
	}
	look := server.Client()
	must.Do(t, look.FlushAll(t.Context()).Err())
	must.Until(t, "the limit ends, whose key is gone", func() bool { return c.Allow(t.Context(), "192.0.2.1", "eth_call") })
	const key = "ratelimit:192.0.2.3:net_version"
	must.Do(t, look.Set(t.Context(), key, 5, 0).Err())
	if c.Allow(t.Context(), "192.0.2.3", "net_version") {
		t.Error("a sixth call of one was allowed")
	}
	if left, err := look.PTTL(t.Context(), key).Result(); err != nil || left <= 0 {
		t.Errorf("it ends in %v, %v", left, err)
	}
}
