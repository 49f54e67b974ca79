package submit

import (
	"cmp"
	"context"
	"time"

	"lockstep/internal/sleep"
	"lockstep/lock"
)

// How long a transaction waits, when its client has its answer at the latest, and what comes back to its line.

// bounded is ctx for one turn and the wait for it. When its client goes away, a queued transaction is given up
// only if the operator wants that.
func (e *Entry) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.way == unordered || !e.s.Ordering.CancelOnDisconnect || e.promised() {
		ctx = context.WithoutCancel(ctx)
	}
	at, ok := e.answerBy()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at)
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
	return max(cmp.Or(s.Ordering.Recovery.Duration(), unless), s.Ordering.Window.Duration())
}

// lastWord is how long after the longest wait a client is answered at the latest, whatever the turn does.
const lastWord = 9 * time.Second

// answerBy is when the client must have its answer, if it has got none yet. From then on the client waits for
// nothing of the turn, and what a node may have is followed without it.
func (e *Entry) answerBy() (at time.Time, ok bool) {
	return e.inLineSince.Add(max(e.s.longestWait()+lastWord, e.s.WaitTime)), e.answer.Load() == answerNone
}

// awaitLimit is half of the time that the turn, and a submission, may last. The submission itself needs the other
// half.
func (s *Submitter) awaitLimit() time.Duration {
	return min(s.Ordering.MaxHold.Duration(), s.WaitTime) / 2
}

// ahead is a transaction that was sent before the ones that it follows had come, and that the network refused.
type ahead struct {
	until time.Time // when it waits no longer
	then  Result    // what it ends with then
}

// patience is how much longer the transaction may wait for its predecessor.
func (e *Entry) patience() time.Duration {
	left := e.remaining()
	if e.ahead != nil {
		left = min(left, time.Until(e.ahead.until))
	}
	return left
}

// remaining is how much longer the transaction may be kept for its predecessor.
func (e *Entry) remaining() time.Duration {
	limit := e.s.Ordering.Recovery.Duration()
	if e.promised() {
		limit = max(limit, e.s.Ordering.Promise.Duration())
	}
	return limit - time.Since(e.arrived)
}

// putBack passes the turn on, if the transaction may wait for another one.
func (e *Entry) putBack(next lock.Next) bool {
	if !next.Step.Stays() && !e.keeps() {
		return false
	}
	wait := e.patience()
	if next.Within > 0 {
		wait = min(wait, next.Within)
	}
	if !e.lease.PutBack(wait) {
		return false
	}
	e.returned = e.returned || !next.Step.Stays()
	return true
}

// keeps tells whether the transaction may wait for its predecessor in a recovering lane.
func (e *Entry) keeps() bool {
	return e.way != unordered && e.patience() > 0 && e.returns < maxReturns && e.answer.Load() != answerDoubt
}

// maxReturns bounds how often a transaction goes back to its line after it was sent, or after it lost its turn. This
// bounds the cost of what the network refuses.
const maxReturns = 4

// Why a transaction goes back to its line.
const (
	backTooHigh  = "nonce_too_high" // the network refused it: the one before it was not executed
	backAhead    = "ahead"          // the same, and no lane had led to it: those that it follows may be late
	backVanished = "vanished"       // its node took it, and consensus never saw it
	backTurnLost = "turn_lost"      // nothing of it was sent
	backNotTaken = "not_taken"      // its hash was promised, and no node takes it at the moment
)

// goBack gives a transaction that was sent, or lost its turn just before, a new place in its line. It returns
// false if the line is closed, or if its look-ups failed.
func (e *Entry) goBack(reason string) bool {
	// The first look-ups use the old place. The wait for them has no context: a lost turn has ended the one that there is. Each
	// call to the mirror node has a time limit, and persistence bounds the repetitions.
	<-e.facts.done
	if e.facts.err != nil || !e.keeps() || !e.rejoin(reason) {
		return false
	}
	e.returns++
	return true
}

// rejoin takes a new place in the line. It returns false if the line is closed.
func (e *Entry) rejoin(reason string) bool {
	ticket, err := e.s.Locks.EnterFor(e.tx.From(), e.tx.Nonce(), lock.Stay{Window: e.patience(), OutlastsGap: true, Promised: e.promised(), Admitted: true})
	if err != nil {
		return false
	}
	e.ticket, e.returned = ticket, true
	e.s.metrics.recovered.WithLabelValues(reason).Inc()
	return true
}

// retryPace is how long a promised transaction waits after it could not be sent.
const retryPace = time.Second

// retries waits and returns true if a promised transaction is to be tried again, because it could not be sent for
// a reason that passes. It then has a new place in its line.
func (e *Entry) retries(ctx context.Context, r Result) bool {
	s := e.s
	if !r.passing || !e.promised() || e.way == unordered || e.remaining() <= retryPace || s.tasks.closing() {
		return false
	}
	if !sleep.For(context.WithoutCancel(ctx), retryPace) || !e.rejoin(backNotTaken) {
		return false
	}
	e.giveBack()
	return true
}
