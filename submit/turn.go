package submit

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/lifecycle"
	"lockstep/internal/sleep"
	"lockstep/internal/telemetry"
	"lockstep/lock"
	"lockstep/precheck"
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
	answer := answerHash
	if t.end == unclear {
		answer = answerDoubt
	}
	if acceptance != nil && e.noteAnswer(answer) {
		acceptance <- t.result
	}
	return s.settle(context.WithoutCancel(ctx), lease, e, t)
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
	e.facts.renew(*known)
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
			s.readSender(ctx, e, known)
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
	ticket, err := e.s.locks.EnterFor(e.tx.From(), e.tx.Nonce(), lock.Stay{Window: e.patience(), OutlastsGap: true, Promised: e.promised(), Admitted: true})
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

// handOver hands the transaction to the sender's node, and tells the lane what came of it.
func (s *Submitter) handOver(ctx context.Context, lease *lock.Lease, e *Entry, next lock.Next, known known) turn {
	submission := s.submission(lease, e, next, known)
	var err error
	if submission.Ethereum, submission.CallData, err = e.body(ctx); err != nil {
		return unlessLost(lease, e, turn{end: failed, result: notSent(factError(err))})
	}
	if wait, err := s.takeRisk(ctx, e, next.Nonce); err != nil {
		if wait && s.putBack(lease, e, lock.Next{Step: lock.PutBack}) {
			return turn{end: again}
		}
		t := unlessLost(lease, e, turn{result: e.failedCheck(err, next.Nonce)})
		if t.end != again {
			s.nonces.Refused()
		}
		return t
	}
	e.standing = next.Standing
	if err = s.reserve(ctx, e, known, submission); err != nil {
		return s.notTaken(lease, e, err)
	}
	s.metrics.executions.Inc()
	e.submission, e.ahead = submission, nil
	pending, err := s.nodes.Submit(ctx, submission)
	if pending = sentAnyway(pending, err); pending == nil {
		return s.notTaken(lease, e, err)
	}
	s.spendings.add(e.tx, s.costOf(e.tx, known))
	t, outcome := turn{end: accepted, pending: pending, result: e.stamp(offered(pending))}, lock.Accepted
	if err != nil {
		t.end, outcome = unclear, lock.Unclear
		t.result.Err = eth.ErrUnknownOutcome(t.result.Hash, pending.ID().String())
	}
	t.sent = lease.Report(lock.Report{Outcome: outcome, Submission: lock.Submission{Node: pending.Node().String(), TxID: pending.ID().String(), Open: true}})
	if t.end == unclear {
		s.unclear(e, pending)
		return t
	}
	s.traceStep(e.tx, lifecycle.Step{Name: lifecycle.Accepted, Node: pending.Node(), Transaction: pending.ID()})
	s.pool.Accepted(e.tx)
	return t
}

// submission is what the consensus client is to do, without the transaction's bytes. While the verdict on the
// lane's previous transaction is open, only the node that has it is allowed: two nodes do not keep the order
// between them. If that node is out, the previous verdict is awaited first, still in the turn, and then any node
// is allowed.
func (s *Submitter) submission(lease *lock.Lease, e *Entry, next lock.Next, known known) consensus.Submission {
	submission := consensus.Submission{
		Sender:     e.tx.From(),
		MaxFee:     s.maxFee(known.GasPrice),
		BeforeSend: lease.Check,
		Offered:    s.noteAttempts(e),
	}
	if subsidy, ok := s.subsidy(e.tx.To()); ok {
		submission.Payer, submission.MaxGasAllowance = subsidy.Payer, subsidy.Allowance
	}
	if id, node, open := predecessor(next); open {
		submission.Node, submission.SameNodeOnly, submission.After = node, true, id
		submission.Free = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
			defer cancel()
			return s.nodes.Await(ctx, id, node)
		}
	}
	return submission
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
	return max(price, 1) * hedera.Tinybar(s.rules.MaxGasLimit)
}

// noteAttempts notes every attempt, for the trace.
func (s *Submitter) noteAttempts(e *Entry) func(hedera.ID, hedera.TransactionID) {
	attempt := 0
	return func(node hedera.ID, id hedera.TransactionID) {
		attempt++
		s.traceStep(e.tx, lifecycle.Step{Name: lifecycle.Submitted, Node: node, Attempt: attempt, Transaction: id})
	}
}

// unclear notes that a client is told that the outcome is not known.
func (s *Submitter) unclear(e *Entry, p Pending) {
	s.traceStep(e.tx, lifecycle.Step{Name: lifecycle.Unknown, Node: p.Node(), Transaction: p.ID()})
}

// notTaken is the turn of a transaction that no node has.
func (s *Submitter) notTaken(lease *lock.Lease, e *Entry, err error) turn {
	r := s.submissionError(err)
	t := turn{end: failed, cause: r.Err, result: r}
	var unavailable *consensus.NodeUnavailableError
	if errors.As(err, &unavailable) { // it waited without success for the verdict on the one before it, and so would those behind it
		t.end = hopeless
	}
	if r.Outcome == NotSent && (r.passing || errors.Is(err, lock.ErrLost)) {
		return unlessLost(lease, e, t)
	}
	return t
}

// unlessLost returns the end of a turn in which nothing was sent. If the turn was lost, the transaction takes a
// new place: this process may have stood still, so the failure says nothing of nodes or of the transaction.
func unlessLost(lease *lock.Lease, e *Entry, t turn) turn {
	if !errors.Is(lease.Check(), lock.ErrLost) {
		return t
	}
	lease.Release() // first, so that the new place does not count as a second one
	if e.goBack(backTurnLost) {
		e.giveBack()
		return turn{end: again}
	}
	return turn{result: t.result}
}

// sentAnyway returns the transaction that a failed submission may have left at a
// node, or nil when it certainly left none.
func sentAnyway(pending Pending, err error) Pending {
	var sent *consensus.SentError
	if pending == nil && errors.As(err, &sent) {
		return sent.Pending
	}
	return pending
}

// offered is the result so far of a transaction that a node has, or may have.
func offered(p Pending) Result {
	return Result{Outcome: Unknown, TransactionID: p.ID(), Node: p.Node()}
}
