package submit

import (
	"context"
	"sync"
	"time"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
	"lockstep/lock"
	"lockstep/precheck"
)

// decide asks the lane whether the holder of the turn is to send now, and runs the prechecks. If it is to send,
// the turn that decide returns ends with goes; otherwise the turn says what becomes of the transaction.
func (s *Submitter) decide(ctx context.Context, lease *lock.Lease, e *Entry, known *known) (lock.Next, turn) {
	mine := e.tx.Nonce()
	next, err := s.next(ctx, lease, e, known)
	if err == nil && next.Step == lock.Go && !next.Recovering {
		switch waited, ok := s.waitForRoom(ctx, lease, e, known); {
		case !ok:
			next.Step = lock.PutBack
		case waited:
			next, err = s.next(ctx, lease, e, known)
		}
	}
	if e.ahead != nil && (next.Step == lock.Go || next.Step == lock.Refuse) && next.Gap > 0 {
		next.Step = lock.PutBack // the network has said what would come of it
	}
	e.facts.value = *known
	if err != nil {
		return next, unlessLost(lease, e, turn{end: failed, result: notSent(factError(err))})
	}
	if next.Step.Waits() || next.Step == lock.Await {
		if s.putBack(lease, e, next) {
			return next, turn{end: again}
		}
		if e.ahead != nil {
			return next, unlessLost(lease, e, turn{result: e.ahead.then})
		}
		if next.Gap >= 0 && s.ordering.Recovery > 0 {
			return next, unlessLost(lease, e, turn{result: notSent(eth.ErrPredecessorMissing(mine))})
		}
	}
	if next.Cause != nil {
		return next, turn{result: Result{Outcome: NotSent, Err: next.Cause, passing: true}}
	}
	if err := s.check(e, *known, next.Nonce, next.Step != lock.Go); err != nil {
		return next, turn{end: failed, result: e.failedCheck(err, next.Nonce)}
	}
	return next, turn{end: goes}
}

// check runs the prechecks that need facts.
func (s *Submitter) check(e *Entry, known known, expected uint64, gapIsWrong bool) error {
	if err := precheck.Nonce(e.tx, expected, gapIsWrong); err != nil || s.cfg.SkipLookUps {
		return err
	}
	_, known.GasPriceSubsidised = s.subsidy(e.tx.To())
	return precheck.Stateful(e.tx, s.rules, known.Facts)
}

// next asks the lane, with fresh facts, unless the lane is sure that the transaction is next, or must wait in a
// lane that recovers. The error says why there are no facts.
func (s *Submitter) next(ctx context.Context, lease *lock.Lease, e *Entry, known *known) (lock.Next, error) {
	for {
		next := s.ask(ctx, lease, e, known)
		waits := next.Recovering && next.Step.Waits()
		if known.stale == nil || waits || s.goesOnStale(e, known, next) {
			return next, nil
		}
		if err := s.refresh(ctx, e, known); err != nil {
			return next, err
		}
	}
}

// ask asks the lane what is next, with what the mirror node shows and receipts prove, until the lane needs to know no more.
func (s *Submitter) ask(ctx context.Context, lease *lock.Lease, e *Entry, known *known) lock.Next {
	fleet := false // what other relays know is proven was asked for
	for rounds := 0; ; rounds++ {
		old, last := time.Since(known.at) >= freshness, rounds == 3
		next := lease.Next(lock.Known{
			Shown: known.nonce, Looked: !s.cfg.SkipLookUps, Fresh: !old || last,
			Proven: max(known.proven, s.pool.Proven(e.tx.From())), Fleet: fleet || last,
		})
		switch {
		case last:
			return next
		case next.Step == lock.Look && next.Recovering && !fleet:
			known.proven, fleet = s.pool.Latest(ctx, e.tx.From(), 0), true
			rounds-- // nothing was awaited or looked up
			continue
		case next.Step == lock.Await:
			if !s.await(ctx, lease, next) {
				return next
			}
			fleet = false
		case next.Step != lock.Look:
			return next
		}
		if old {
			s.look(ctx, e, known)
		}
	}
}

// await waits for the verdict on the transaction before this one, or until its node denies that it has that
// transaction. It tells whether the holder may go on.
func (s *Submitter) await(ctx context.Context, lease *lock.Lease, next lock.Next) bool {
	id, node, open := predecessor(next)
	if !open {
		lease.Report(lock.Report{Outcome: lock.NotAwaited, Submission: next.Predecessor})
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
	answers := make(chan bool, 2)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() {
		if next.Decided == nil {
			answers <- s.nodes.Await(ctx, id, node) == nil
			return
		}
		select {
		case <-next.Decided:
			answers <- true
		case <-ctx.Done():
			answers <- false
		}
	})
	helpers.Go(func() { answers <- s.absent(ctx, id, node) })
	over := <-answers
	if !over {
		over = <-answers
	}
	if over {
		lease.Report(lock.Report{Outcome: lock.NotAwaited, Submission: next.Predecessor})
	}
	return over
}

// absent waits until a node says several times that it does not know a transaction, whose bytes left too long ago
// for the node to be at work on them still. This does not prove that the transaction will never be executed. But
// it is enough for a holder with the next nonce to go: if the nonce is spent after all, the network refuses the
// holder's transaction. It is not enough for a later nonce.
func (s *Submitter) absent(ctx context.Context, id hedera.TransactionID, node hedera.ID) bool {
	for denials := 0; denials < minDenials; {
		if !sleep.For(ctx, askPace) {
			return false
		}
		known, err := s.nodes.Knows(ctx, id, node)
		switch {
		case err == nil && known:
			return false // its verdict is on its way
		case err != nil, time.Since(id.ValidStart.Time()) < atWork:
			denials = 0
		default:
			denials++
		}
	}
	return true
}

const (
	// atWork is how long a node may be at work on bytes that it has received, before it knows their id.
	atWork = 10 * time.Second
	// minDenials is how often a node has to deny that it knows an id. The goroutine that follows that transaction
	// here sees the first denial and offers the transaction again meanwhile.
	minDenials = 3
)

// putBack passes the turn on, if the transaction may wait for another one.
func (s *Submitter) putBack(lease *lock.Lease, e *Entry, next lock.Next) bool {
	if !next.Step.Stays() && !e.keeps() {
		return false
	}
	wait := e.patience()
	if next.Within > 0 {
		wait = min(wait, next.Within)
	}
	if !lease.PutBack(wait) {
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
	ticket, err := e.s.locks.EnterFor(e.tx.From(), e.tx.Nonce(), lock.Stay{Window: e.patience(), Kept: true, Promised: e.promised(), Admitted: true})
	if err != nil {
		return false
	}
	e.ticket, e.returned = ticket, true
	e.s.metrics.recovered.WithLabelValues(reason).Inc()
	return true
}

// Why a transaction goes back to its line.
const (
	backTooHigh  = "nonce_too_high" // the network refused it: the one before it was not executed
	backAhead    = "ahead"          // the same, and no lane had led to it: those that it follows may be late
	backVanished = "vanished"       // its node took it, and consensus never saw it
	backTurnLost = "turn_lost"      // nothing of it was sent
	backNotTaken = "not_taken"      // its hash was promised, and no node takes it at the moment
)
