package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
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

// shortOfMemory lets a Redis have more than three quarters of its memory in use.
func shortOfMemory(t *testing.T, server *redistest.Server) {
	t.Helper()
	client := server.Client()
	// Beside much that stays, what comes and goes is little.
	must.Do(t, client.Set(t.Context(), "ballast", make([]byte, 8<<20), 0).Err())
	var used int64
	for _, line := range client.InfoMap(t.Context(), "memory").Val() {
		must.Get(fmt.Sscan(line["used_memory"], &used))(t)
	}
	must.Do(t, client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used*8/7)).Err())
	if short, err := redis.NewScript(redisx.SpareLua+"return short() and 1 or 0").Run(t.Context(), client, nil).Bool(); err != nil || !short {
		t.Fatalf("Redis is not short of memory: %v", err)
	}
}

// While Redis is short of memory no sender gets risks there that had none. That is no free pass: each relay counts
// the sender for itself. Who has risks there goes on with them.
func TestWrongNoncesWhileRedisIsShortOfMemory(t *testing.T) {
	const budget = 3
	server := redistest.Start(t)
	relays := []*WrongNonces{wrongNonces(budget, server.Client()), wrongNonces(budget, server.Client())}
	known, unknown := common.Address{1}, common.Address{2}
	if _, ok := relays[0].Take(t.Context(), known, 0); !ok {
		t.Fatal("no risk")
	}
	shortOfMemory(t, server)
	given := map[common.Address][2]int{}
	for _, sender := range []common.Address{known, unknown} {
		var n [2]int
		for i, relay := range relays {
			for range 2 * budget {
				if _, ok := relay.Take(t.Context(), sender, 0); ok {
					n[i]++
				}
			}
		}
		given[sender] = n
	}
	want := map[common.Address][2]int{known: {budget - 1, 0}, unknown: {budget, budget}}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("risks by sender and relay (-want +got):\n%s", diff)
	}
	if n := server.Client().Exists(t.Context(), wrongNonceKey(unknown)).Val(); n != 0 {
		t.Error("a new sender takes memory")
	}
}

// While Redis is short of memory nobody opens a book: who has none spends from the one in common, within its limit.
func TestBooksWhileRedisIsShortOfMemory(t *testing.T) {
	server := redistest.Start(t)
	r := far(redistest.Dial(t, server.URL()), "0x12a")
	w := today()
	total := fixed("total", 1000)
	reserve(t, r, w, 5, total, opened("old", 100))
	shortOfMemory(t, server)
	for i, test := range []struct {
		book    string
		amount  int64
		refused int
		sums    map[string]int64
	}{
		{"old", 5, granted, map[string]int64{"total": 10, "old": 10}},
		{"new", 60, granted, map[string]int64{"total": 70, "others": 60}},
		{"newer", 60, 1, map[string]int64{"total": 70, "others": 60}},
	} {
		_, a := reserve(t, r, w, test.amount, total, opened(test.book, 100))
		got := map[string]int64{}
		for _, s := range a.sums {
			got[s.book] = s.spent
		}
		if a.refused != test.refused || !cmp.Equal(got, test.sums) {
			t.Errorf("%d: refused %d, sums %v; want %d, %v", i, a.refused, got, test.refused, test.sums)
		}
	}
}

func wrongNonces(budget int, client redis.UniversalClient) *WrongNonces {
	return NewWrongNonces(Config{WrongNonces: budget, RedisTimeout: envx.Millis(patience)}, client)
}

// However many come at once, and through however many relays, no more than the budget have a
// risk; what is given back can be taken again, and other senders have their own.
func TestWrongNonces(t *testing.T) {
	const budget = 10
	server := redistest.Start(t)
	alone := wrongNonces(budget, nil)
	for name, relays := range map[string][]*WrongNonces{
		"alone": {alone, alone},
		"fleet": {wrongNonces(budget, server.Client()), wrongNonces(budget, server.Client())},
	} {
		t.Run(name, func(t *testing.T) {
			sender := common.Address{1}
			var wg sync.WaitGroup
			var given atomic.Int64
			risks := make([]*NonceRisk, 100)
			for i := range risks {
				wg.Go(func() {
					risk, ok := relays[i%2].Take(t.Context(), sender, 0)
					if ok != (risk != nil) {
						t.Errorf("%v, %v", risk, ok)
					}
					if risks[i] = risk; ok {
						given.Add(1)
					}
				})
			}
			wg.Wait()
			if given.Load() != budget {
				t.Errorf("%d risks are given, want %d", given.Load(), budget)
			}
			if _, ok := relays[0].Take(t.Context(), common.Address{2}, 0); !ok {
				t.Error("another sender has no risk")
			}
			for _, risk := range risks {
				risk.GiveBack()
				risk.GiveBack() // once is enough
			}
			must.Until(t, "what was given back can be taken", func() bool { _, ok := relays[1].Take(t.Context(), sender, 0); return ok })
		})
	}
}

// A risk that was not given back is free again after a minute.
func TestWrongNoncesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wrongNonces(1, nil)
		for range 3 {
			if _, ok := w.Take(t.Context(), common.Address{}, 0); !ok {
				t.Error("a minute is over, and there is no risk")
			}
			if _, ok := w.Take(t.Context(), common.Address{}, 0); ok {
				t.Error("two risks of one")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // fake time
		}
	})
}

// Without a bound nothing is asked, and while Redis is away each process counts for itself.
func TestWrongNoncesWithoutBound(t *testing.T) {
	for _, w := range []*WrongNonces{nil, wrongNonces(0, nil)} {
		for range 100 {
			if risk, ok := w.Take(t.Context(), common.Address{}, 0); !ok || risk != nil {
				t.Errorf("%v, %v", risk, ok)
			}
		}
	}
	server := redistest.Start(t)
	w := wrongNonces(3, server.Client())
	server.Kill()
	given := 0
	for range 20 {
		if _, ok := w.Take(t.Context(), common.Address{}, 0); ok {
			given++
		}
	}
	if given != 3 {
		t.Errorf("without Redis %d risks are given, want 3", given)
	}
}
