package submit

import (
	"context"
	"errors"

	"lockstep/internal/eth"
	"lockstep/internal/telemetry"
	"lockstep/lock"
)

// run is the path from the queue to the verdict. acceptance, if there is one, gets what is
// known at a node's acceptance. In a lane that recovers, the path may lead back to the queue.
func (e *Entry) run(ctx context.Context, acceptance chan<- Result) Result {
	err := e.waitAtGate(ctx)
	for {
		if r, over := e.attempt(ctx, err, acceptance); over {
			return r
		}
		err = nil
	}
}

// attempt is one wait for the turn, unless err says that there is none, and the turn.
func (e *Entry) attempt(ctx context.Context, err error, acceptance chan<- Result) (Result, bool) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	var lease *lock.Lease
	if err == nil {
		lease, err = e.waitTraced(ctx)
	}
	return e.proceed(ctx, lease, err, acceptance)
}

// proceed is what comes after the wait: the turn, or err. It is not over if the transaction waits
// for another turn.
func (e *Entry) proceed(ctx context.Context, lease *lock.Lease, err error, acceptance chan<- Result) (r Result, over bool) {
	s := e.s
	if cause := e.facts.failure(); cause != nil {
		if lease != nil {
			lease.Release()
		}
		return s.finish(e, notSent(factError(cause))), true
	}
	if err != nil {
		if errors.Is(err, lock.ErrLost) && e.goBack(backTurnLost) { // the turn ran out before this goroutine ran
			return Result{}, false
		}
		r := e.notReached(err)
		if e.retries(ctx, r) {
			return Result{}, false
		}
		return s.finish(e, e.safe(ctx, r)), true
	}
	defer lease.Release()
	defer afterPanic(lease)
	e.fence = lease.Turn().Fence

	t := s.inTurn(lease, e)
	if t.end == again {
		return Result{}, false
	}
	if !t.atNode() {
		lease.Release()
		if e.retries(ctx, t.result) {
			return Result{}, false
		}
		return s.finish(e, e.safe(ctx, t.result)), true
	}
	if s.ordering.Release == lock.ReleaseAccepted {
		lease.Release()
	}
	e.become(following)
	if acceptance != nil && e.noteAnswer(answered(t)) {
		acceptance <- t.result
	}
	return s.settle(context.WithoutCancel(ctx), lease, e, t)
}

func answered(t turn) uint32 {
	if t.end == unclear {
		return answerDoubt
	}
	return answerHash
}

// notReached is the result of a transaction whose turn did not come.
func (e *Entry) notReached(err error) Result {
	var cause *eth.Error
	switch {
	case errors.Is(err, lock.ErrLeft) && errors.As(err, &cause): // what it follows was not sent
		return Result{Outcome: NotSent, Err: cause, passing: true}
	case !errors.Is(err, lock.ErrInVain):
		return notSent(lockError(err))
	case e.returned:
		return Result{Outcome: NotSent, Err: eth.ErrPredecessorMissing(e.tx.Nonce()), passing: true}
	default:
		return Result{Outcome: NotSent, Err: eth.ErrTurnTooLate(e.tx.Nonce()), passing: true}
	}
}

// turn is what came of one turn.
type turn struct {
	end     turnEnd
	pending Pending         // of accepted and unclear
	sent    *lock.Submitted // of accepted and unclear
	cause   error           // of failed and hopeless: what those behind it are told; nil: that their nonce is too high
	result  Result          // of all ends but goes and again
}

// turnEnd is how a turn ended.
type turnEnd uint8

const (
	unsent   turnEnd = iota // no node has the transaction, which says nothing of others
	failed                  // no node has it; if it was the next one, what waits behind it need not be tried
	hopeless                // no node has it, and what waits behind it need not be tried
	goes                    // it is to be sent now
	again                   // it waits for another turn
	accepted                // a node has it
	unclear                 // a node may have it
)

// atNode tells whether the transaction is to be followed.
func (t turn) atNode() bool { return t.end == accepted || t.end == unclear }

// inTurn does what only the holder of the sender's turn may do: decide on the nonce and the
// facts, hand the transaction to a node, and tell the lane what came of it.
//
// If it ends without a transaction at any node, those queued behind it may have no better chance, and need not be
// tried. A nonce that the fleet knows to be spent, though the mirror node may not show it yet, blocks nobody
// behind it.
func (s *Submitter) inTurn(lease *lock.Lease, e *Entry) turn {
	e.become(granted)
	ctx := lease.Context()
	_, span := telemetry.Start(ctx, "precheck")
	known, err := e.facts.get(ctx)
	if err != nil {
		span.End(err)
		return unlessLost(lease, e, turn{result: notSent(factError(err))})
	}
	next, t := s.decide(ctx, lease, e, &known)
	span.End(t.result.Err)
	if t.end == goes {
		t = s.handOver(ctx, lease, e, next, known)
	}
	// If no node takes anything, those behind it fail, too, even if it was not known to be next. They end now; each would
	// wait by itself otherwise.
	nobody := t.cause != nil && t.result.passing
	if t.end == failed && (next.Gap == 0 || nobody) {
		t.end = hopeless
	}
	if t.end == hopeless && e.way != unordered {
		lease.Report(lock.Report{Outcome: lock.Failed, Proven: s.pool.Latest(ctx, e.tx.From(), 0), Cause: t.cause})
	}
	return t
}

// afterPanic is for a defer: after a panic nobody knows whether bytes left.
func afterPanic(lease *lock.Lease) {
	if r := recover(); r != nil {
		lease.Report(lock.Report{Outcome: lock.Lost})
		panic(r)
	}
}
