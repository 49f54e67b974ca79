package lock

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/telemetry"
)

// strategy says what decided the order of an acquisition.
type strategy uint8

const (
	local strategy = iota
	redisStrategy
	strategies // how many there are
)

func (s strategy) String() string {
	if s == redisStrategy {
		return "redis"
	}
	return "local"
}

// The operations of rpc_relay_lock_redis_errors_total.
const (
	opAcquire   = "acquire"
	opRelease   = "release"
	opHeartbeat = "heartbeat"
)

// metrics belongs to one Service. Dashboards of the TypeScript relay rely on names, labels and buckets, so these
// never change.
type metrics struct {
	wait, hold        [strategies]prometheus.Observer
	waiting, active   [strategies]prometheus.Gauge
	success, fail     [strategies]prometheus.Counter
	timeouts, rejoins [strategies]prometheus.Counter
	zombies           prometheus.Counter
	redisErrors       *prometheus.CounterVec
	redisUp, differ   prometheus.Gauge
	lost, failedOpen  prometheus.Counter
	holes, evicted    prometheus.Counter

	collectors []prometheus.Collector
}

func newMetrics() *metrics {
	buckets := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	byStrategy := []string{"strategy"}
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rpc_relay_lock_wait_time_seconds", Help: "Time from arrival to the sender's lock.", Buckets: buckets,
	}, byStrategy)
	hold := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rpc_relay_lock_hold_duration_seconds", Help: "Time the sender's lock was held.", Buckets: buckets,
	}, byStrategy)
	waiting := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rpc_relay_lock_waiting_txns", Help: "Transactions waiting for their sender's lock.",
	}, byStrategy)
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rpc_relay_lock_active_count", Help: "Locks held by this process.",
	}, byStrategy)
	acquisitions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpc_relay_lock_acquisitions_total", Help: "Locks acquired, or not acquired because Redis failed.",
	}, []string{"strategy", "status"})
	timeouts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpc_relay_lock_timeout_releases_total", Help: "Locks that were taken from their holder at the hold limit.",
	}, byStrategy)
	rejoins := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpc_relay_lock_queue_rejoins_total", Help: "Places in a queue that were lost and taken again.",
	}, byStrategy)
	m := &metrics{
		zombies: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpc_relay_lock_zombie_cleanups_total", Help: "Locks and places of dead processes that were removed.",
		}),
		redisErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_lock_redis_errors_total", Help: "Redis calls of the lock that failed.",
		}, []string{"operation"}),
		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_lock_redis_up", Help: "1 while the order is shared through Redis, 0 while it is kept inside the process.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_lock_lost_total", Help: "Locks lost by a live holder for any reason.",
		}),
		failedOpen: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_lock_fail_open_total", Help: "Transactions ordered inside the process because Redis did not answer.",
		}),
	}
	m.differ = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockstep_ordering_settings_differ",
		Help: "Other processes on the same Redis that order transactions by different settings (which senders, window, release, hold limit): the order does not hold between them and this one. 0 while ordering is off.",
	})
	m.holes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockstep_lane_holes_total", Help: "Times that a sender's lane began to recover, because a transaction was missing.",
	})
	m.evicted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockstep_lane_evicted_total", Help: "Queued transactions that gave their place in a full queue to a lower nonce.",
	})
	for s := local; s < strategies; s++ {
		name := s.String()
		m.wait[s], m.hold[s] = wait.WithLabelValues(name), hold.WithLabelValues(name)
		m.waiting[s], m.active[s] = waiting.WithLabelValues(name), active.WithLabelValues(name)
		m.success[s], m.fail[s] = acquisitions.WithLabelValues(name, "success"), acquisitions.WithLabelValues(name, "fail")
		m.timeouts[s], m.rejoins[s] = timeouts.WithLabelValues(name), rejoins.WithLabelValues(name)
	}
	for _, op := range []string{opAcquire, opRelease, opHeartbeat} {
		m.redisErrors.WithLabelValues(op)
	}
	m.collectors = []prometheus.Collector{
		wait, hold, waiting, active, acquisitions, timeouts, rejoins,
		m.zombies, m.redisErrors, m.redisUp, m.differ, m.lost, m.failedOpen, m.holes, m.evicted,
	}
	return m
}

// watch adds the metrics that are read from the service at each scrape.
func (m *metrics) watch(s *Service) {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
	}
	gauge("lockstep_ordering_enabled", "1 while nonce ordering is switched on.", nil, func() float64 {
		if s.On() {
			return 1
		}
		return 0
	})
	gauge("lockstep_ordering_window_seconds", "How long a transaction is held back for its predecessors (NONCE_GAP_HOLD_MS).", nil, func() float64 {
		return s.cfg.Window.Duration().Seconds()
	})
	const help = "Lanes of this process: busy ones have transactions, idle ones remember the nonce that their sender uses next."
	gauge("lockstep_lanes", help, prometheus.Labels{"state": "busy"}, func() float64 { busy, _ := s.reg.sizes(); return float64(busy) })
	gauge("lockstep_lanes", help, prometheus.Labels{"state": "idle"}, func() float64 { _, idle := s.reg.sizes(); return float64(idle) })
}

// waited counts a wait that ended with a turn.
func (m *metrics) waited(ctx context.Context, s strategy, waited time.Duration) {
	telemetry.Observe(ctx, m.wait[s], waited.Seconds())
}

// granted counts an acquisition. ended counts its end, exactly once.
func (m *metrics) granted(s strategy) {
	m.success[s].Inc()
	m.active[s].Inc()
}

func (m *metrics) ended(ctx context.Context, s strategy, held time.Duration) {
	telemetry.Observe(ctx, m.hold[s], held.Seconds())
	m.active[s].Dec()
}
