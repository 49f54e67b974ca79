package submit

import (
	"cmp"
	"context"
	"errors"
	"math/big"
	"sync"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
	"lockstep/lock"
	"lockstep/precheck"
)

// run is the path from the line to the Result: the steps 5 to 10 of ARCHITECTURE.md. A transaction of which certainly
// nothing was executed may go back to the line, and take them again.
func (e *Entry) run(ctx context.Context) {
	defer e.afterPanic()
	err := e.waitAtGate(ctx)
	for {
		r, again := e.attempt(ctx, err)
		if e.lease != nil {
			e.lease.Release()
		}
		if !again {
			e.finish(r)
			return
		}
		err = nil
	}
}

// attempt is one wait for the turn, unless err says that there is none, the turn, and what follows it. again: the
// transaction waits for another turn.
func (e *Entry) attempt(ctx context.Context, err error) (r Result, again bool) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	if err == nil {
		err = e.wait(ctx)
	}
	if cause := e.facts.failure(); cause != nil {
		return notSent(cause), false
	}
	var t turn
	switch {
	case err == nil:
		t = e.inTurn()
	case errors.Is(err, lock.ErrLost): // the turn ran out before this goroutine ran
		t.again = e.goBack(backTurnLost)
	}
	if err != nil {
		t.result = e.notReached(err)
	}
	if t.pending == nil {
		if e.lease != nil {
			e.lease.Release()
		}
		if t.again || e.retries(ctx, t.result) {
			return Result{}, true
		}
		return e.lastLook(ctx, t.result), false
	}
	if e.s.Ordering.Release == lock.ReleaseAccepted {
		e.lease.Release()
	}
	switch {
	case e.s.cfg.Returns != ReturnsAccepted:
	case t.unclear:
		e.reply(answerDoubt, t.result)
	default:
		e.reply(answerHash, t.result)
	}
	return e.settle(context.WithoutCancel(ctx), t)
}

// notReached is the result of a transaction whose turn did not come.
func (e *Entry) notReached(err error) Result {
	var cause *eth.Error
	switch {
	case errors.Is(err, lock.ErrLeft) && errors.As(err, &cause): // what it follows was not sent
		return Result{Outcome: NotSent, Err: cause, passing: true}
	case !errors.Is(err, lock.ErrInVain):
		return notSent(err)
	case e.returned:
		return Result{Outcome: NotSent, Err: eth.ErrPredecessorMissing(e.tx.Nonce()), passing: true}
	default:
		return Result{Outcome: NotSent, Err: eth.ErrTurnTooLate(e.tx.Nonce()), passing: true}
	}
}

// wait waits for the sender's turn. Its span begins when the transaction took its place.
func (e *Entry) wait(ctx context.Context) error {
	began := e.inLineSince
	if e.fence != 0 { // it had a turn before
		began = time.Now()
	}
	_, span := telemetry.StartAt(ctx, "lock wait", began)
	lease, err := e.turnComes(ctx)
	if err == nil {
		turn := lease.Turn()
		e.lease, e.fence = lease, turn.Fence
		span.Text("lockstep.strategy", turn.Strategy)
		span.Number("lockstep.fence", int64(turn.Fence))
	}
	span.End(err)
	return err
}

func (e *Entry) turnComes(ctx context.Context) (*lock.Lease, error) {
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

// How long a transaction waits, and when its client has its answer at the latest.

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

// turn is what came of one turn.
type turn struct {
	again   bool            // nothing was sent, and the transaction waits for another turn
	result  Result          // else what it ends with, as far as that is known
	failed  bool            // no node has it; if it was the next one, what waits behind it need not be tried
	cause   error           // what those behind it are told then; nil: that their nonce is too high
	pending Pending         // a node has it, or may have it
	sent    *lock.Submitted // … for the lane
	unclear bool            // … it may
}

// inTurn does what only the holder of the sender's turn may do: decide on the nonce and the
// facts, hand the transaction to a node, and tell the lane what came of it.
//
// If it ends without a transaction at any node, those queued behind it may have no better chance, and need not be
// tried. A nonce that the fleet knows to be spent, though the mirror node may not show it yet, blocks nobody
// behind it.
func (e *Entry) inTurn() turn {
	ctx := e.lease.Context()
	_, span := telemetry.Start(ctx, "precheck")
	t, goes := e.decide(ctx)
	span.End(t.result.Err)
	if goes {
		t = e.handOver(ctx)
	}
	if t.again || t.pending != nil {
		return t
	}
	if (t.result.Outcome == NotSent || e.ahead != nil) && errors.Is(e.lease.Check(), lock.ErrLost) {
		// This process may have stood still, so the failure says nothing of nodes or of the transaction.
		e.lease.Release() // first, so that the new place does not count as a second one
		if t.again = e.goBack(backTurnLost); t.again {
			e.giveBack()
		}
		return t
	}
	// If no node takes anything, those behind it fail, too, even if it was not known to be next. They end now; each would
	// wait by itself otherwise.
	nobody := t.cause != nil && t.result.passing
	if t.failed && (e.next.Gap == 0 || nobody) && e.way != unordered {
		e.lease.Report(lock.Report{Outcome: lock.Failed, Proven: e.s.Pool.Latest(ctx, e.tx.From(), 0), Cause: t.cause})
	}
	return t
}

// decide asks the lane whether the holder of the turn is to send now, and runs the prechecks. If it is not to
// send, the turn says what becomes of the transaction.
func (e *Entry) decide(ctx context.Context) (t turn, goes bool) {
	if e.known == nil {
		known, err := e.facts.get(ctx)
		if err != nil {
			return turn{result: notSent(err)}, false
		}
		e.known = &known
	}
	err := e.ask(ctx)
	if err == nil && e.next.Step == lock.Go && !e.next.Recovering {
		switch waited, ok := e.waitForRoom(ctx); {
		case !ok:
			e.next.Step = lock.PutBack
		case waited:
			err = e.ask(ctx)
		}
	}
	if err != nil {
		return turn{failed: true, result: notSent(err)}, false
	}
	if e.ahead != nil && (e.next.Step == lock.Go || e.next.Step == lock.Refuse) && e.next.Gap > 0 {
		e.next.Step = lock.PutBack // the network has said what would come of it
	}
	if e.next.Step.Waits() || e.next.Step == lock.Await {
		switch {
		case e.putBack(e.next):
			return turn{again: true}, false
		case e.ahead != nil:
			return turn{result: e.ahead.then}, false
		case e.next.Gap >= 0 && e.s.Ordering.Recovery > 0:
			return turn{result: notSent(eth.ErrPredecessorMissing(e.tx.Nonce()))}, false
		}
	}
	if e.next.Cause != nil {
		return turn{result: Result{Outcome: NotSent, Err: e.next.Cause, passing: true}}, false
	}
	if err := e.check(*e.known, e.next.Nonce, e.next.Step != lock.Go); err != nil {
		return turn{failed: true, result: e.failedCheck(err, e.next.Nonce)}, false
	}
	return turn{}, true
}

// check runs the prechecks that need facts.
func (e *Entry) check(known known, expected uint64, gapIsWrong bool) error {
	if err := precheck.Nonce(e.tx, expected, gapIsWrong); err != nil || e.s.cfg.SkipLookUps {
		return err
	}
	_, known.GasPriceSubsidised = e.s.Subsidy(e.tx.To())
	return precheck.Stateful(e.tx, e.s.Rules, known.Facts)
}

// ask asks the lane, with fresh facts, unless the lane is sure that the transaction is next, or must wait in a
// lane that recovers. The error says why there are no facts.
func (e *Entry) ask(ctx context.Context) error {
	for {
		e.askLane(ctx)
		waits := e.next.Recovering && e.next.Step.Waits()
		if e.known.stale == nil || waits || e.goesOnStale() {
			return nil
		}
		if err := e.refresh(ctx); err != nil {
			return err
		}
	}
}

// askLane asks the lane what is next, with what the mirror node shows and receipts prove, until the lane needs to know no more.
func (e *Entry) askLane(ctx context.Context) {
	known, from := e.known, e.tx.From()
	var proven uint64 // what receipts have proved to the fleet …
	fleet := false    // … which was asked for
	for rounds := 0; ; rounds++ {
		old, last := time.Since(known.at) >= freshness, rounds == 3
		e.next = e.lease.Next(lock.Known{
			Shown: known.nonce, Looked: !e.s.cfg.SkipLookUps, Fresh: !old || last,
			Proven: max(proven, e.s.Pool.Proven(from)), Fleet: fleet || last,
		})
		switch {
		case last:
			return
		case e.next.Step == lock.Look && e.next.Recovering && !fleet:
			proven, fleet = e.s.Pool.Latest(ctx, from, 0), true
			rounds-- // nothing was awaited or looked up
			continue
		case e.next.Step == lock.Await:
			if !e.await(ctx) {
				return
			}
			fleet = false
		case e.next.Step != lock.Look:
			return
		}
		if old {
			e.readSender(ctx, known)
		}
	}
}

// await waits for the verdict on the transaction before this one, or until its node denies that it has that
// transaction. It tells whether the holder may go on.
func (e *Entry) await(ctx context.Context) bool {
	if id, node, open := predecessor(e.next); open {
		ctx, cancel := context.WithTimeout(ctx, e.s.awaitLimit())
		var helpers sync.WaitGroup
		defer helpers.Wait()
		defer cancel()
		over := make(chan struct{}, 2)
		helpers.Go(func() {
			if e.s.absent(ctx, id, node) {
				over <- struct{}{}
			}
		})
		if e.next.Decided == nil { // nobody here waits for its verdict
			helpers.Go(func() {
				if e.s.Nodes.Await(ctx, id, node) == nil {
					over <- struct{}{}
				}
			})
		}
		select {
		case <-e.next.Decided:
		case <-over:
		case <-ctx.Done():
			return false
		}
	}
	e.lease.Report(lock.Report{Outcome: lock.NotAwaited, Submission: e.next.Predecessor})
	return true
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
		known, err := s.Nodes.Knows(ctx, id, node)
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

// handOver hands the transaction to the sender's node, and tells the lane what came of it.
func (e *Entry) handOver(ctx context.Context) turn {
	s := e.s
	submission, err := e.newSubmission(ctx)
	if err != nil {
		return turn{failed: true, result: notSent(err)}
	}
	if wait, err := e.takeRisk(ctx); err != nil {
		if wait && e.putBack(lock.Next{Step: lock.PutBack}) {
			return turn{again: true}
		}
		if !errors.Is(e.lease.Check(), lock.ErrLost) {
			s.Nonces.Refused()
		}
		return turn{result: e.failedCheck(err, e.next.Nonce)}
	}
	if err := e.reserve(ctx, submission); err != nil {
		return e.notTaken(err)
	}
	s.metrics.executions.Inc()
	e.submission, e.ahead = &submission, nil
	pending, err := s.Nodes.Submit(ctx, submission)
	var perhaps *consensus.SentError
	if errors.As(err, &perhaps) {
		pending = perhaps.Pending
	}
	if pending == nil {
		return e.notTaken(err)
	}
	s.spendings.add(e.tx, e.costOf())
	t := turn{pending: pending, result: offered(pending), unclear: err != nil}
	outcome := lock.Accepted
	if t.unclear {
		outcome = lock.Unclear
		t.result.Err = eth.ErrUnknownOutcome(e.tx.Hash(), pending.ID().String())
	}
	t.sent = e.lease.Report(lock.Report{Outcome: outcome, Submission: lock.Submission{Node: pending.Node().String(), TxID: pending.ID().String(), Open: true}})
	if t.unclear {
		e.traceDoubt(pending)
	} else {
		e.trace(lifecycle.Step{Name: lifecycle.Accepted, Node: pending.Node(), Transaction: pending.ID()})
		s.Pool.Accepted(e.tx)
	}
	return t
}

// newSubmission is what the consensus client is to do. While the verdict on the
// lane's previous transaction is open, only the node that has it is allowed: two nodes do not keep the order
// between them. If that node is out, the previous verdict is awaited first, still in the turn, and then any node
// is allowed.
func (e *Entry) newSubmission(ctx context.Context) (consensus.Submission, error) {
	s, attempt := e.s, 0
	raw, callData, err := e.body(ctx)
	submission := consensus.Submission{
		Ethereum:   raw,
		CallData:   callData,
		Sender:     e.tx.From(),
		MaxFee:     s.maxFee(e.known.GasPrice),
		BeforeSend: e.lease.Check,
		Offered: func(node hedera.ID, id hedera.TransactionID) {
			attempt++
			e.trace(lifecycle.Step{Name: lifecycle.Submitted, Node: node, Attempt: attempt, Transaction: id})
		},
	}
	if subsidy, ok := s.Subsidy(e.tx.To()); ok {
		submission.Payer, submission.MaxGasAllowance = subsidy.Payer, subsidy.Allowance
	}
	if id, node, open := predecessor(e.next); open {
		submission.Node, submission.SameNodeOnly, submission.After = node, true, id
		submission.Free = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
			defer cancel()
			return s.Nodes.Await(ctx, id, node)
		}
	}
	return submission, err
}

// predecessor returns the transaction that the lane handed over last, and its node, if
// its verdict is still open. An id that cannot be read is ignored: other programs may write to
// the store that it comes from.
func predecessor(next lock.Next) (id hedera.TransactionID, node hedera.ID, open bool) {
	if !next.Predecessor.Open {
		return id, node, false
	}
	id, badID := hedera.ParseTransactionID(next.Predecessor.TxID)
	node, badNode := hedera.ParseID(next.Predecessor.Node)
	return id, node, badID == nil && badNode == nil
}

// maxFee is the maximum that the operator pays for one transaction: the network's price
// for the largest gas limit. A price below a tinybar counts as one.
func (s *Submitter) maxFee(gasPrice *big.Int) hedera.Tinybar {
	price, ok := hedera.TinybarOf(gasPrice)
	if !ok {
		price = hedera.Hbar // far above any network's price
	}
	return max(price, 1) * hedera.Tinybar(s.Rules.MaxGasLimit)
}

// notTaken is the turn of a transaction that no node has.
func (e *Entry) notTaken(err error) turn {
	r := e.s.submissionError(err)
	return turn{failed: true, cause: r.Err, result: r}
}

// offered is the result so far of a transaction that a node has, or may have.
func offered(p Pending) Result {
	return Result{Outcome: Unknown, TransactionID: p.ID(), Node: p.Node()}
}

// traceDoubt notes that a client is told that the outcome is not known.
func (e *Entry) traceDoubt(p Pending) {
	e.trace(lifecycle.Step{Name: lifecycle.Unknown, Node: p.Node(), Transaction: p.ID()})
}

// How a transaction comes back to its line: its turn was not the time to go, or was lost; or it certainly was not executed.

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
