package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lockstep/internal/outage"
)

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

func (l *lane) notePlaced(batch []*Ticket, v view) {
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "places taken in redis", "sender", l.sender, "first", batch[0].nonce, "count", len(batch),
			"owner", v.owner.session, "process", v.owner.instance, "fence", v.owner.fence)
	})
}

func (l *lane) noteGivenBack(d handback, v view) {
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "place or turn given back to redis", "sender", l.sender, "session", d.session,
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
