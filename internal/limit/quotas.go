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

//go:embed lua/quota.lua
var quotaLua string

const (
	// quotaWindow is the time that the limits of a holder are for.
	quotaWindow = time.Minute
	// knownQuotas bounds the memory: two for each of a thousand holders, and some that were renamed.
	knownQuotas = 4096
)

// Quotas counts what the holders of API keys use, in windows of a minute that begin with the first use: in Redis, for
// all processes on it. While Redis is away each process counts for itself.
//
//	quota:{<holder>}:<what>   number: what was used; expires
type Quotas struct {
	redis    *redisx.Asker // nil: this process is alone
	add      *redis.Script
	failures prometheus.Counter

	mu   sync.Mutex
	used *simplelru.LRU[quota, usage] // guarded by mu
}

type quota struct{ holder, what string }

type usage struct {
	amount int
	ends   time.Time
}

// NewQuotas makes them; the client is nil without Redis.
func NewQuotas(client redis.UniversalClient, timeout time.Duration) *Quotas {
	used, err := simplelru.NewLRU[quota, usage](knownQuotas, nil)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	q := &Quotas{add: redis.NewScript(quotaLua), used: used, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockstep_api_key_store_failures_total", Help: "Uses of API keys that could not be counted in Redis; the process counted them for itself.",
	})}
	if client != nil {
		q.redis = redisx.NewAsker(client, timeout, time.Second)
	}
	return q
}

// Collectors returns the metrics for registration.
func (q *Quotas) Collectors() []prometheus.Collector { return []prometheus.Collector{q.failures} }

// Spend adds an amount to what a holder has used of something in this minute. If that would be more than the limit, it
// adds nothing and returns false.
func (q *Quotas) Spend(ctx context.Context, holder, what string, amount, limit int) bool {
	if q.redis == nil {
		return q.spendHere(holder, what, amount, limit)
	}
	var added bool
	// A caller that goes away must not look like a Redis that does.
	err := q.redis.Ask(context.WithoutCancel(ctx), func(ctx context.Context, c redis.UniversalClient) (err error) {
		key := "quota:{" + holder + "}:" + what
		added, err = q.add.Run(ctx, c, []string{key}, quotaWindow.Milliseconds(), limit, amount).Bool()
		return err
	})
	if err != nil {
		q.failures.Inc()
		return q.spendHere(holder, what, amount, limit)
	}
	return added
}

func (q *Quotas) spendHere(holder, what string, amount, limit int) bool {
	now, key := time.Now(), quota{holder, what}
	q.mu.Lock()
	defer q.mu.Unlock()
	u, ok := q.used.Get(key)
	if !ok || !now.Before(u.ends) {
		u = usage{ends: now.Add(quotaWindow)}
	}
	if u.amount+amount > limit {
		return false
	}
	u.amount += amount
	q.used.Add(key, u)
	return true
}
