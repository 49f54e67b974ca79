package submit

import (
	"context"
	"time"

	"lockstep/internal/telemetry"
	"lockstep/lock"
)

// bounded is ctx for one turn and the wait for it. When its client goes away, a queued transaction is given up
// only if the operator wants that.
func (e *Entry) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.way == unordered || !e.s.ordering.CancelOnDisconnect || e.promised() {
		ctx = context.WithoutCancel(ctx)
	}
	at, ok := e.answerBy()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at)
}

// waitTraced is wait with a span, which begins when the transaction took its place.
func (e *Entry) waitTraced(ctx context.Context) (*lock.Lease, error) {
	began := e.inLineSince
	if e.fence != 0 { // it had a turn before
		began = time.Now()
	}
	_, span := telemetry.StartAt(ctx, "lock wait", began)
	lease, err := e.wait(ctx)
	if err == nil {
		turn := lease.Turn()
		span.Text("lockstep.strategy", turn.Strategy)
		span.Number("lockstep.fence", int64(turn.Fence))
	}
	span.End(err)
	return lease, err
}

// wait waits for the sender's turn.
func (e *Entry) wait(ctx context.Context) (*lock.Lease, error) {
	e.become(waiting)
	if e.way == unordered {
		return lock.Unordered(ctx, e.tx.Nonce()), nil
	}
	if e.learns() {
		e.s.learner.add(context.WithoutCancel(ctx), e)
		defer e.s.learner.remove(e)
	}
	if e.returned || !e.promised() {
		return e.ticket.WaitWithin(ctx, e.mayWait())
	}
	return e.ticket.Wait(ctx) // its client has the hash, and waits for nothing
}

// mayWait is how much longer the transaction may wait for its turn. Its client waits for an answer, and the turn
// may never come, or come after thousands of others.
func (e *Entry) mayWait() time.Duration {
	left := e.remaining()
	if !e.returned {
		left = time.Until(e.inLineSince.Add(e.s.longestWait()))
	}
	return max(left, 0) + time.Second
}

// longestWait is how long a client waits for its transaction's turn, without the second that mayWait adds.
func (s *Submitter) longestWait() time.Duration {
	const unless = 50 * time.Second // the settings say nothing of it
	longest := s.ordering.Recovery.Duration()
	if longest == 0 {
		longest = unless
	}
	return max(longest, s.ordering.Window.Duration())
}

// lastWord is how long after the longest wait a client is answered at the latest, whatever the turn does.
const lastWord = 9 * time.Second

// answerBy is when the client must have its answer, if it has got none yet. From then on the client waits for
// nothing of the turn, and what a node may have is followed without it.
func (e *Entry) answerBy() (at time.Time, ok bool) {
	if e.answer.Load() != answerNone {
		return time.Time{}, false
	}
	return e.inLineSince.Add(max(e.s.longestWait()+lastWord, e.s.waitTime)), true
}

// awaitLimit is half of the time that the turn, and a submission, may last. The submission itself needs the other
// half.
func (s *Submitter) awaitLimit() time.Duration {
	return min(s.ordering.MaxHold.Duration(), s.waitTime) / 2
}
