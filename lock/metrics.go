package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/metric"
	"lockstep/internal/outage"
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
	metric.Set
	wait, hold        [strategies]prometheus.Observer
	success, fail     [strategies]prometheus.Counter
	timeouts, rejoins [strategies]prometheus.Counter
	zombies           prometheus.Counter
	redisErrors       *prometheus.CounterVec
	lost, failedOpen  prometheus.Counter
	holes, evicted    prometheus.Counter
}

func newMetrics(s *Service) *metrics {
	m := &metrics{}
	seconds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	wait := m.Histograms("rpc_relay_lock_wait_time_seconds", "Time from arrival to the sender's lock.", seconds, "strategy")
	hold := m.Histograms("rpc_relay_lock_hold_duration_seconds", "Time the sender's lock was held.", seconds, "strategy")
	acquisitions := m.Counters("rpc_relay_lock_acquisitions_total", "Locks acquired, or not acquired because Redis failed.", "strategy", "status")
	timeouts := m.Counters("rpc_relay_lock_timeout_releases_total", "Locks that were taken from their holder at the hold limit.", "strategy")
	rejoins := m.Counters("rpc_relay_lock_queue_rejoins_total", "Claims in a queue that were lost and stated again.", "strategy")
	for by := local; by < strategies; by++ {
		name := by.String()
		m.wait[by], m.hold[by] = wait.WithLabelValues(name), hold.WithLabelValues(name)
		m.success[by], m.fail[by] = acquisitions.WithLabelValues(name, "success"), acquisitions.WithLabelValues(name, "fail")
		m.timeouts[by], m.rejoins[by] = timeouts.WithLabelValues(name), rejoins.WithLabelValues(name)
	}
	m.redisErrors = m.Counters("rpc_relay_lock_redis_errors_total", "Redis calls of the lock that failed.", "operation")
	for _, op := range []string{opAcquire, opRelease, opHeartbeat} {
		m.redisErrors.WithLabelValues(op)
	}
	m.zombies = m.Counter("rpc_relay_lock_zombie_cleanups_total", "Locks and claims of dead processes that were removed.")
	m.lost = m.Counter("lockstep_lock_lost_total", "Locks lost by a live holder for any reason.")
	m.failedOpen = m.Counter("lockstep_lock_fail_open_total", "Transactions ordered inside the process because Redis did not answer.")
	m.holes = m.Counter("lockstep_lane_holes_total", "Times that a sender's lane began to recover, because a transaction was missing.")
	m.evicted = m.Counter("lockstep_lane_evicted_total", "Queued transactions that gave their place in a full queue to a lower nonce.")
	// The rest is read from the service at each scrape.
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	m.Asked("lockstep_ordering_enabled", "1 while nonce ordering is switched on.", func() float64 { return truth(s.On()) })
	m.Asked("lockstep_lock_redis_up", "1 while the order is shared through Redis, 0 while it is kept inside the process.", func() float64 {
		return truth(s.remote != nil && s.remote.up.Load())
	})
	m.Asked("lockstep_ordering_settings_differ",
		"Other processes on the same Redis that order transactions by different settings (which senders, window, release, hold limit): the order does not hold between them and this one. 0 while ordering is off.",
		func() float64 {
			if s.remote == nil {
				return 0
			}
			return float64(s.remote.differing())
		})
	m.Asked("lockstep_ordering_window_seconds", "How long a transaction is held back for its predecessors (NONCE_GAP_HOLD_MS).", func() float64 {
		return s.cfg.Window.Duration().Seconds()
	})
	return m
}

// laneGauges counts the lanes, who waits and who holds, at each scrape: so it cannot drift.
type laneGauges struct{ svc *Service }

var (
	lanesDesc   = prometheus.NewDesc("lockstep_lanes", "Lanes of this process: busy ones have transactions, idle ones remember the nonce that their sender uses next.", []string{"state"}, nil)
	waitingDesc = prometheus.NewDesc("rpc_relay_lock_waiting_txns", "Transactions waiting for their sender's lock.", []string{"strategy"}, nil)
	activeDesc  = prometheus.NewDesc("rpc_relay_lock_active_count", "Locks held by this process.", []string{"strategy"}, nil)
)

// Describe implements prometheus.Collector.
func (c laneGauges) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c laneGauges) Collect(out chan<- prometheus.Metric) {
	var waiting, active [strategies]float64
	c.svc.each(false, func(l *lane) {
		waiting[l.strategy()] += float64(len(l.queue))
		if l.holder != nil {
			active[l.holder.lease.turn.by]++
		}
	})
	gauge := func(d *prometheus.Desc, value float64, label string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, label)
	}
	for s := local; s < strategies; s++ {
		gauge(waitingDesc, waiting[s], s.String())
		gauge(activeDesc, active[s], s.String())
	}
	busy, idle := c.svc.reg.sizes()
	gauge(lanesDesc, float64(busy), "busy")
	gauge(lanesDesc, float64(idle), "idle")
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

// logFailure reports Redis trouble of single lanes, one line in a while however many there are.
func (s *Service) logFailure(consequence, op string, err error) {
	now, last := s.now(), s.toldAt.Load()
	if (last == 0 || now-time.Duration(last) >= outage.Interval) && s.toldAt.CompareAndSwap(last, int64(max(now, 1))) {
		s.log.Error("redis trouble in the lock", "consequence", consequence, "operation", op, "error", err)
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

// trace logs a step of a ticket, or of a lane.
func (l *lane) trace(ctx context.Context, step string, args ...any) {
	l.note(func() {
		l.svc.log.Log(ctx, levelTrace, step, append(args, "sender", l.sender)...) //nolint:sloglint // each caller has its own
	})
}
