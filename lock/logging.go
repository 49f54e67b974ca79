package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"
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
	lease := t.lease
	l.note(func() {
		l.svc.log.Warn("lock lost", "sender", l.sender, "nonce", t.nonce, "fence", lease.turn.fence,
			"strategy", lease.turn.by.String(), "held", lease.held, "reason", why)
	})
}

// logFailure reports Redis trouble, one line in a while.
func (s *Service) logFailure(consequence, op string, err error) {
	if ok, dropped := s.quiet.pass(time.Now()); ok {
		s.log.Error("redis trouble in the lock", "consequence", consequence, "operation", op, "error", err, "similar", dropped)
	}
}

// logAlone reports that Redis does not answer heartbeats.
func (s *Service) logAlone(err error) {
	s.logFailure("the order is kept inside this process", opHeartbeat, err)
}

// levelTrace is below debug: every step of every ticket. Ask tracing before.
const levelTrace = slog.LevelDebug - 4

// nobody is the context of a line that is about a lane and belongs to no request.
func nobody() context.Context { return context.Background() } //nolint:forbidigo // see above

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

func (l *lane) noteGivenBack(d debt, v view) {
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "place or turn given back to redis", "sender", l.sender, "session", d.session,
			"owner", v.owner.session, "process", v.owner.instance, "fence", v.owner.fence)
	})
}

func (l *lane) noteSteppedBack(t, other *Ticket) {
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "turn handed to the expected nonce", "sender", l.sender, "nonce", t.nonce, "expected", other.nonce)
	})
}

func (l *lane) noteLeft(t *Ticket) {
	err := t.err
	l.note(func() {
		l.svc.log.Log(nobody(), levelTrace, "place left", "sender", l.sender, "nonce", t.nonce, "reason", err)
	})
}
