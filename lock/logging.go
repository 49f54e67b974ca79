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

func (s *Service) logLost(t *Ticket, why string) {
	l := &t.lease
	s.log.Warn("lock lost", "sender", t.lane.sender, "nonce", t.nonce, "fence", l.turn.fence,
		"strategy", l.turn.by.String(), "held", l.held, "reason", why)
}

// logFailure reports Redis trouble, one line in a while.
func (s *Service) logFailure(consequence, op string, err error) {
	if ok, dropped := s.quiet.pass(time.Now()); ok {
		s.log.Error("redis trouble in the lock", "consequence", consequence, "operation", op, "error", err, "similar", dropped)
	}
}
