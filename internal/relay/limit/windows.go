package limit

import (
	"context"
	_ "embed" // the script
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

//go:embed lua/window.lua
var windowLua string

const (
	// askAgain is how long Redis is not asked for who has reached a limit. It is short: an operator may lift a limit by deleting
	// its key.
	askAgain = time.Second
	// knownWindows and knownFull bound the memory. Beyond that the ones used least recently are forgotten, which favours only them.
	knownWindows = 100_000
	knownFull    = 10_000
)

// windows count what callers use, in windows that begin with the first use: in Redis, for all processes on it, and without one, or
// while it is away, in this process.
type windows struct {
	length time.Duration
	redis  *redisx.Asker // nil: this process is alone
	count  *redis.Script

	mu   sync.Mutex
	used *simplelru.LRU[string, usage]  // guarded by mu; in this process, by key
	full *simplelru.LRU[string, excess] // guarded by mu; as Redis said, by key
}

type usage struct {
	amount int
	ends   time.Time
}

// excess is that Redis had no room for an amount within a limit.
type excess struct {
	until         time.Time
	amount, limit int
}

func newWindows(client redis.UniversalClient, timeout, length time.Duration) *windows {
	used, err := simplelru.NewLRU[string, usage](knownWindows, nil)
	if err != nil {
		panic(err) // only a size below 1 fails, as below
	}
	full, err := simplelru.NewLRU[string, excess](knownFull, nil)
	if err != nil {
		panic(err)
	}
	return &windows{
		length: length, redis: redisx.NewAsker(client, redisx.AskerOptions{Timeout: timeout}),
		count: redis.NewScript(redisx.SpareLua + windowLua), used: used, full: full,
	}
}

// take adds an amount to what was used under a key. If that would be more than the limit, it adds nothing and returns
// false. failed counts that Redis could not be asked.
func (w *windows) take(ctx context.Context, key string, amount, limit int, failed func()) bool {
	if w.isFull(key, amount, limit) {
		return false
	}
	return redisx.Else(ctx, w.redis, func(ctx context.Context, c redis.UniversalClient) (bool, error) {
		left, err := w.count.Run(ctx, c, []string{key}, w.length.Milliseconds(), limit, amount).Int64()
		if left > 0 {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.full.Add(key, excess{time.Now().Add(min(time.Duration(left)*time.Millisecond, askAgain)), amount, limit})
		}
		return left == 0, err
	}, func() bool {
		if w.redis != nil {
			failed()
		}
		return w.takeHere(key, amount, limit)
	})
}

// isFull tells whether Redis has just had no room for as much. That ends with a higher limit.
func (w *windows) isFull(key string, amount, limit int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.full.Get(key)
	return ok && time.Now().Before(known.until) && amount >= known.amount && limit <= known.limit
}

func (w *windows) takeHere(key string, amount, limit int) bool {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	u, ok := w.used.Get(key)
	if !ok || !now.Before(u.ends) {
		u = usage{ends: now.Add(w.length)}
	}
	if u.amount+amount > limit {
		return false
	}
	u.amount += amount
	w.used.Add(key, u)
	return true
}

// Calls limits how often an address may call a method in a window.
//
//	ratelimit:<address>:<method>   number: calls; expires
type Calls struct {
	windows  *windows
	limit    func(method string) int
	failures *prometheus.CounterVec
}

// NewCalls makes a limiter that asks limit how many calls of a method there may be; the client is nil without Redis.
func NewCalls(client redis.UniversalClient, timeout, window time.Duration, limit func(method string) int) *Calls {
	return &Calls{
		windows: newWindows(client, timeout, window), limit: limit,
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_rate_limit_store_failures", Help: "Calls that could not be counted in Redis, by method; the process counted them for itself.",
		}, []string{"storeType", "operation"}),
	}
}

// Collectors returns the metrics for registration.
func (c *Calls) Collectors() []prometheus.Collector { return []prometheus.Collector{c.failures} }

// StoreType names the store in metrics.
func (c *Calls) StoreType() string {
	if c.windows.redis == nil {
		return "LruRateLimit"
	}
	return "RedisRateLimit"
}

// Allow counts a call and reports whether it is within the limit.
func (c *Calls) Allow(ctx context.Context, ip, method string) bool {
	return c.windows.take(ctx, "ratelimit:"+ip+":"+method, 1, c.limit(method), func() { c.failures.WithLabelValues("Redis", method).Inc() })
}

// quotaWindow is the time that the limits of a holder are for.
const quotaWindow = time.Minute

// Quotas counts what the holders of API keys use in a minute.
//
//	quota:{<holder>}:<what>   number: what was used; expires
type Quotas struct {
	windows  *windows
	failures prometheus.Counter
}

// NewQuotas makes them; the client is nil without Redis.
func NewQuotas(client redis.UniversalClient, timeout time.Duration) *Quotas {
	return &Quotas{windows: newWindows(client, timeout, quotaWindow), failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockstep_api_key_store_failures_total", Help: "Uses of API keys that could not be counted in Redis; the process counted them for itself.",
	})}
}

// Collectors returns the metrics for registration.
func (q *Quotas) Collectors() []prometheus.Collector { return []prometheus.Collector{q.failures} }

// Spend adds an amount to what a holder has used of something in this minute. If that would be more than the limit, it
// adds nothing and returns false.
func (q *Quotas) Spend(ctx context.Context, holder, what string, amount, limit int) bool {
	return q.windows.take(ctx, "quota:{"+holder+"}:"+what, amount, limit, q.failures.Inc)
}
