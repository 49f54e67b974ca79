package cache

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
	"lockstep/internal/redisx"
)

const (
	prefix    = "lockstep:cache:"
	queueSize = 1024    // values that wait to be written
	queueMax  = 8 << 20 // bytes of them
)

// Redis is a store in Redis. It is safe for concurrent use.
type Redis struct {
	off    bool
	config Config
	queue  chan entry
	queued atomic.Int64 // bytes in the queue
	count  *prometheus.CounterVec
	gets   prometheus.Counter
	puts   prometheus.Counter
	quota  *redisx.Quota // of the fleet

	// Reads and writes rest apart after a failure: a Redis that holds writes up, or a replica, can be read all the same.
	reads, writes *redisx.Asker
}

// errShort is no answer of Redis to its caller, so that a Redis without memory rests, too.
var errShort = errors.New("redis is short of memory")

// failure names how a question failed in the metric; "" if it did not.
func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, redisx.ErrResting):
		return "skipped"
	}
	return "error"
}

type entry struct {
	key   string
	value []byte
}

// New makes a store. It starts nothing; without Run nothing is written. The client
// stays the caller's.
func New(config Config, client redis.UniversalClient, log *slog.Logger) *Redis {
	asker := func(name, consequence string) *redisx.Asker {
		return redisx.NewAsker(client, redisx.AskerOptions{Timeout: config.Timeout.Duration(), Outage: &outage.Log{
			Logger: log, Upstream: "redis", Name: name, Level: slog.LevelWarn, Consequence: consequence,
		}})
	}
	return &Redis{
		config: config, queue: make(chan entry, queueSize),
		quota:  redisx.NewQuota("cache", config.MaxBytes, config.TTL.Duration()),
		reads:  asker("cache (reading)", "every relay reads from the mirror node what another one has read"),
		writes: asker("cache (writing)", "other relays read from the mirror node what this one has read"),
		gets:   calls("get"), puts: calls("set"),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_cache_redis_operations_total",
			Help: "Looks into the shared cache (get: hit, miss, long, error, or skipped while Redis fails) and writes to it (put: done, long, error, skipped, dropped because too many waited, or full because the fleet has written all that it may).",
		}, []string{"operation", "result"}),
	}
}

// Disabled makes a store that keeps nothing. It has all metrics, so that a fleet's relays show the same ones.
func Disabled() *Redis {
	r := New(Config{}, nil, slog.New(slog.DiscardHandler))
	r.off = true
	return r
}

// Enabled tells whether the store keeps anything.
func (r *Redis) Enabled() bool { return !r.off }

// Collectors returns the store's metrics, for registration.
func (r *Redis) Collectors() []prometheus.Collector {
	return []prometheus.Collector{r.count, r.gets, r.puts}
}

// calls counts under the name that the TypeScript relay gives it; package mirror counts the calls
// of the caches in the process under the same name.
func calls(method string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "rpc_cache_service_methods_counter",
		Help:        "Calls of the caches, by the kind of the entries (callingMethod), where (cacheType: lru, redis) and what was done (method: get, set).",
		ConstLabels: prometheus.Labels{"callingMethod": "any", "cacheType": "redis", "method": method},
	})
}

// Get returns what was put under a key, or nil.
func (r *Redis) Get(ctx context.Context, key string) []byte {
	if r.off {
		return nil
	}
	r.gets.Inc()
	value, result := r.get(ctx, key)
	r.count.WithLabelValues("get", result).Inc()
	return value
}

func (r *Redis) get(ctx context.Context, key string) (value []byte, result string) {
	err := r.reads.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		// A range, so that somebody else's giant under our key is not read.
		value, err = c.GetRange(ctx, prefix+key, 0, int64(r.config.MaxValue)).Bytes()
		return err
	})
	switch failed := failure(err); {
	case failed != "":
		return nil, failed
	case len(value) == 0:
		return nil, "miss"
	case len(value) > r.config.MaxValue:
		return nil, "long"
	}
	return value, "hit"
}

// Put keeps a value. It does not wait.
func (r *Redis) Put(key string, value []byte) {
	if r.off {
		return
	}
	r.puts.Inc()
	size := int64(len(value))
	switch {
	case len(value) > r.config.MaxValue:
		r.count.WithLabelValues("put", "long").Inc()
		return
	case r.queued.Add(size) > queueMax:
	default:
		select {
		case r.queue <- entry{key, value}:
			return
		default:
		}
	}
	r.queued.Add(-size)
	r.count.WithLabelValues("put", "dropped").Inc()
}

// Run writes what was put until the context ends.
func (r *Redis) Run(ctx context.Context) error {
	if r.off {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-r.queue:
			r.queued.Add(-int64(len(e.value)))
			r.count.WithLabelValues("put", r.put(ctx, e)).Inc()
		}
	}
}

func (r *Redis) put(ctx context.Context, e entry) (result string) {
	full := false
	err := r.writes.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		if full = !r.quota.Take(len(prefix) + len(e.key) + len(e.value)); full {
			return nil
		}
		if err := redisx.SetForAWhile.Run(ctx, c, []string{prefix + e.key}, e.value, r.config.TTL.Duration().Milliseconds()).Err(); redisx.IsShort(err) {
			return errShort
		} else if err != nil {
			return err
		}
		return r.quota.Settle(ctx, c)
	})
	switch failed := failure(err); {
	case failed != "":
		return failed
	case full:
		return "full"
	}
	return "done"
}
