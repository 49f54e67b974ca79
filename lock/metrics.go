package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/outage"
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
		Name: "rpc_relay_lock_queue_rejoins_total", Help: "Claims in a queue that were lost and stated again.",
	}, byStrategy)
	m := &metrics{
		zombies: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpc_relay_lock_zombie_cleanups_total", Help: "Locks and claims of dead processes that were removed.",
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

// throttle lets one log line through per interval and counts the others.
type throttle struct {
	mu      sync.Mutex
	last    time.Time
	dropped int
}

const logInterval = 10 * time.Second

// pass returns whether to log now, and how many lines were dropped since the last one.
func (t *throttle) pass(now time.Time) (bool, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < logInterval {
		t.dropped++
		return false, 0
	}
	n := t.dropped
	t.last, t.dropped = now, 0
	return true, n
}

func (s *Service) logAcquired(ctx context.Context, l *Lease, queue int) {
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	t := l.ticket
	s.log.DebugContext(ctx, "lock acquired", "sender", t.lane.sender, "nonce", t.nonce, "fence", l.turn.fence,
		"strategy", l.turn.by.String(), "waited", l.granted-t.entered, "queue", queue)
}

func (s *Service) logReleased(l *Lease, queue int) {
	ctx := l.parent
	if ctx == nil || !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	t := l.ticket
	s.log.DebugContext(ctx, "lock released", "sender", t.lane.sender, "nonce", t.nonce, "fence", l.turn.fence,
		"strategy", l.turn.by.String(), "held", l.held, "queue", queue)
}

func (l *lane) noteLost(t *Ticket, why string) {
	lease, ctx := *t.lease, t.request()
	l.note(func() {
		l.svc.log.WarnContext(ctx, "lock lost", "sender", l.sender, "nonce", t.nonce, "fence", lease.turn.fence,
			"strategy", lease.turn.by.String(), "held", lease.held, "reason", why)
	})
}

// logFailure reports Redis trouble, one line in a while.
func (s *Service) logFailure(consequence, op string, err error) {
	if ok, dropped := s.quiet.pass(time.Now()); ok {
		s.log.Error("redis trouble in the lock", "consequence", consequence, "operation", op, "error", err, "similar", dropped)
	}
}

// newOutage logs the loss of Redis as a whole, which heartbeats detect.
func newOutage(log *slog.Logger) outage.Log {
	return outage.Log{
		Logger: log, Upstream: "redis", Name: "locks", Level: slog.LevelError,
		Consequence: "each relay keeps the order of the transactions that it gets itself, and no relay knows the transactions of the others",
	}
}

// levelTrace is below debug: every step of every ticket. Ask tracing before.
const levelTrace = slog.LevelDebug - 4

// tracing tells whether log lines of level trace are wanted now.
func (s *Service) tracing() bool { return s.log.Enabled(nobody(), levelTrace) }

// nobody is the context of a line that is about a lane and belongs to no request.
func nobody() context.Context { return context.Background() } //nolint:forbidigo // see above

// request returns the context of the request that waits for the ticket or has its turn: the logger
// may find the name of the request in it. lane.mu must be held.
func (t *Ticket) request() context.Context {
	if t.parent == nil {
		return nobody()
	}
	return t.parent
}

func (l *lane) noteDrawn(t *Ticket) {
	length := l.length
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "ticket drawn", "sender", l.sender, "nonce", t.nonce, "queue", length)
	})
}

func (l *lane) noteStated(s statement, v view) {
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "told redis", "sender", l.sender, "claim", s.claim.session, "lowest", s.claim.nonce, "turn", s.turn, "ended", s.ended,
			"owner", v.owner.session, "process", v.owner.instance, "fence", v.owner.fence)
	})
}

func (l *lane) notePutBack(t *Ticket) {
	expected, ctx := l.chain.expected, t.request()
	l.note(func() {
		l.svc.log.Log(ctx, levelTrace, "put back in line", "sender", l.sender, "nonce", t.nonce, "expected", expected)
	})
}

func (l *lane) noteLeft(t *Ticket) {
	err, ctx := t.err, t.request()
	l.note(func() {
		l.svc.log.Log(ctx, levelTrace, "place left", "sender", l.sender, "nonce", t.nonce, "reason", err)
	})
}
