package limit

import (
	"context"
	_ "embed" // the script
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

//go:embed lua/count.lua
var countLua string

// Limiter decides whether an address may call a method now.
type Limiter interface {
	Allow(ctx context.Context, ip, method string) bool
}

// CallsConfig is how calls are counted.
type CallsConfig struct {
	Redis   redis.UniversalClient
	Window  time.Duration           // begins with an address's first call of a method
	Limit   func(method string) int // maximum number of calls per window
	Timeout time.Duration           // of one call of Redis
	Instead Limiter                 // decides while Redis does not answer
}

// Calls counts the calls that addresses make, in Redis, for all instances on it. Redis is
// asked once for a call, and once a second for an address that is known to be over its limit.
// While Redis is away every process counts for itself, and one call at a time finds out
// whether it is back.
type Calls struct {
	cfg      CallsConfig
	count    *redis.Script
	redis    *redisx.Asker
	over     *lru.Cache[caller, excess]
	failures *prometheus.CounterVec
}

type caller struct{ ip, method string }

// excess is that a caller has reached a limit; it ends with the window, with a higher limit, and soon: an operator may
// lift a limit by deleting its key.
type excess struct {
	until time.Time
	limit int
}

// askAgain is how long Redis is not asked for an address that is over its limit.
const askAgain = time.Second

// knownOver bounds the memory for addresses that are over their limit.
const knownOver = 10_000

// NewCalls makes a limiter. It does not connect.
func NewCalls(cfg CallsConfig) *Calls {
	over, err := lru.New[caller, excess](knownOver)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return &Calls{
		cfg: cfg, redis: redisx.NewAsker(cfg.Redis, cfg.Timeout, time.Second), count: redis.NewScript(redisx.SpareLua + countLua), over: over,
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_rate_limit_store_failures", Help: "Calls that could not be counted in Redis, by method; the process counted them for itself.",
		}, []string{"storeType", "operation"}),
	}
}

// Collectors returns the metrics for registration.
func (c *Calls) Collectors() []prometheus.Collector { return []prometheus.Collector{c.failures} }

// StoreType names the store in metrics.
func (c *Calls) StoreType() string { return "RedisRateLimit" }

// Allow counts a call and reports whether it is within the limit.
func (c *Calls) Allow(ctx context.Context, ip, method string) bool {
	now := time.Now()
	who, limit := caller{ip, method}, c.cfg.Limit(method)
	if known, ok := c.over.Get(who); ok && now.Before(known.until) && limit <= known.limit {
		return false
	}
	if count, left, err := c.ask(ctx, who, limit); err == nil {
		if left > 0 {
			c.over.Add(who, excess{now.Add(min(left, askAgain)), limit})
		}
		return count <= int64(limit)
	}
	c.failures.WithLabelValues("Redis", method).Inc()
	return c.cfg.Instead.Allow(ctx, ip, method)
}

func (c *Calls) ask(ctx context.Context, who caller, limit int) (count int64, left time.Duration, err error) {
	key := "ratelimit:" + who.ip + ":" + who.method
	var reply []int64
	err = c.redis.Ask(context.WithoutCancel(ctx), func(ctx context.Context, client redis.UniversalClient) (err error) {
		reply, err = c.count.Run(ctx, client, []string{key}, c.cfg.Window.Milliseconds(), limit).Int64Slice()
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if len(reply) != 2 {
		return 0, 0, errReply
	}
	return reply[0], time.Duration(reply[1]) * time.Millisecond, nil
}
