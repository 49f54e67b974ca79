package submit

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/telemetry"
	"lockstep/lock"
	"lockstep/precheck"
)

// Entry is a transaction that has its place in line. One goroutine at a time works on it.
type Entry struct {
	s       *Submitter
	tx      *eth.Tx
	arrived time.Time
	// inLineSince is when its client's wait for the turn begins: at its arrival, or when its call data is in its
	// file.
	inLineSince time.Time
	asker       Asker
	traceID     string // of its request; empty: not recorded

	stage   atomic.Uint32 // whether its way has begun, and is over
	answer  atomic.Uint32 // what its client has been told
	answers chan Result   // … that, for Finish, which makes it: thousands wait before

	way       way
	gate      *gate        // where it waits for its ticket, if it is gated
	ticket    *lock.Ticket // its place in line: from the beginning, or once its gate has let it pass
	takenOver bool         // from another relay, which had let it into the line
	returned  bool         // it waits in its line once more
	returns   int          // how often it came back: after it was sent, or because it lost its turn

	facts  *facts // from Begin on
	upload *upload

	reserved *limit.Reservation // of its cost; nil: none, or off
	risk     *limit.NonceRisk   // that the network refuses it for its nonce

	// Of its latest turn.

	lease      *lock.Lease
	fence      uint64                // 0: not ordered, or not reached
	known      *known                // the facts as they were renewed
	next       lock.Next             // what the lane said
	submission *consensus.Submission // as it was offered
	ahead      *ahead                // the network refused it so, and it waits once more; nil: it did not
	doubtful   []Pending             // its former submissions that vanished, as far as their nodes know
}

// How far an entry is.
const (
	entered uint32 = iota // it has its place, or waits for it at its gate
	begun                 // it is under way
	over                  // it has its Result
	left                  // its place was given up before anything began
)

// way is how a transaction comes to its ticket. It is fixed when the transaction enters.
type way uint8

const (
	unordered way = iota // its sender's transactions are not ordered: it needs none
	direct               // it got its ticket when it entered
	gated                // it gets its ticket when its gate opens
)

// What the client has been told. The answer is given once.
const (
	answerNone    uint32 = iota
	answerResult         // what became of it
	answerHash           // the hash: a node has the transaction
	answerPromise        // the hash, before a node has the transaction; other relays know of it
	answerDoubt          // that the outcome is not known: the client may send the transaction again
)

// Enter decodes and checks a transaction and takes its place in the sender's line.
// It never blocks. The error is an *eth.Error.
func (s *Submitter) Enter(raw []byte) (*Entry, error) {
	if s.cfg.ReadOnly {
		return nil, eth.ErrReadOnly
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return nil, err
	}
	if err := precheck.Stateless(tx, s.Rules); err != nil {
		return nil, err
	}
	e := s.newEntry(tx)
	if err := e.enterLine(); err != nil {
		return nil, err
	}
	return e, nil
}

func (s *Submitter) newEntry(tx *eth.Tx) *Entry {
	now := time.Now()
	return &Entry{s: s, tx: tx, arrived: now, inLineSince: now}
}

// enterLine takes the transaction's place, if its sender is ordered.
func (e *Entry) enterLine() error {
	if e.s.Locks.Enabled(e.tx.From()) {
		if err := e.s.gates.enter(e); err != nil {
			return clientError(err)
		}
	}
	return nil
}

// Leave gives the place up without submitting. After Begin or Finish it does nothing, because the transaction may
// be under way although the caller has its answer.
func (e *Entry) Leave() {
	if e.stage.CompareAndSwap(entered, left) {
		e.leave()
	}
}

func (e *Entry) leave() {
	if e.s.gates.leave(e) {
		e.ticket.Leave()
	}
}

// Begin starts what needs no turn, the look-ups above all. It never blocks. The error is an *eth.Error, after
// which the place is given up; else Finish must follow. Finish calls Begin if it was left out, but then the stack
// that waits has grown, and thousands may wait.
func (e *Entry) Begin(ctx context.Context) error {
	s := e.s
	if err := s.tasks.begin(len(e.tx.Raw())); err != nil {
		e.Leave()
		return err
	}
	if !e.stage.CompareAndSwap(entered, begun) {
		s.tasks.end(len(e.tx.Raw()))
		return eth.ErrRequestTimeout // it has left
	}
	defer e.afterPanic()
	e.trace(lifecycle.Step{Name: lifecycle.Received, At: e.arrived})
	if e.way == direct {
		e.trace(lifecycle.Step{Name: lifecycle.Queued})
	}
	s.Pool.Add(e.tx)
	e.traceID, e.asker = telemetry.TraceID(ctx), s.Asker(ctx)
	e.lookUp(context.WithoutCancel(ctx))
	e.store(ctx)
	return nil
}

// Notify calls f, once and in a goroutine of its own, when Finish would not wait for the turn any more, whatever
// ended the wait; f must call Finish. So thousands can wait without a goroutine each. If it returns false, f is
// not called, and Finish has to do the waiting; ctx is the one for Finish. It comes after Begin.
func (e *Entry) Notify(ctx context.Context, f func()) bool {
	s := e.s
	switch {
	case e.way != direct:
		return false
	case s.cfg.Async: // the client's answer does not wait for the turn
		return false
	case s.Ordering.CancelOnDisconnect && ctx.Done() != nil: // Finish has to watch ctx
		return false
	}
	if e.learns() {
		s.learner.add(context.WithoutCancel(ctx), e) // until Finish removes it
	}
	return e.ticket.Notify(e.mayWait(), f)
}

// Finish waits for the turn, submits and follows the transaction as far as the
// settings say.
//
// A client that goes away does not stop its transaction, unless the operator wants that for queued ones. Finish
// uses the values of ctx, but not its end: what bounds its wait is run, each of whose waits has a limit of its own.
func (e *Entry) Finish(ctx context.Context) Result {
	e.answers = make(chan Result, 1)
	if e.stage.Load() != begun {
		if err := e.Begin(ctx); err != nil {
			return Result{Outcome: NotSent, Hash: e.tx.Hash(), Err: err}
		}
	}
	if e.s.cfg.Async {
		return e.finishAsync(context.WithoutCancel(ctx))
	}
	go e.run(ctx)
	return <-e.answers
}

// finishAsync answers after the prechecks; the rest goes on by itself, and the client cannot stop it any more.
func (e *Entry) finishAsync(ctx context.Context) Result {
	known, err := e.facts.get(ctx)
	if err == nil {
		err = known.stale // facts that may have changed are not enough for a promise
	}
	if err == nil {
		err = e.check(known, known.nonce, false)
	}
	if err != nil {
		e.finish(e.failedCheck(err, known.nonce))
		return <-e.answers
	}
	e.answer.Store(answerPromise)
	kept := e.s.Promises.Keep(e.tx)
	go e.run(ctx)
	kept(ctx) // meanwhile the transaction goes on
	return Result{Outcome: Unknown, Hash: e.tx.Hash()}
}

// TakeOver goes on with a transaction whose hash a relay that is gone has promised, and which is kept
// until then. It never blocks. It returns false if this process takes nothing more; else the promise
// is released when the transaction has its verdict.
func (s *Submitter) TakeOver(tx *eth.Tx, until time.Time) bool {
	if s.tasks.begin(len(tx.Raw())) != nil {
		return false
	}
	e := s.newEntry(tx)
	e.arrived, e.takenOver = until.Add(-s.Ordering.Promise.Duration()), true
	e.stage.Store(begun)
	e.answer.Store(answerPromise)
	e.trace(lifecycle.Step{Name: lifecycle.Received})
	s.Pool.Add(tx)
	go e.takeUp(context.Background()) //nolint:forbidigo // its client is another relay's
	return true
}

// takeUp takes its place in this relay's line once its look-ups have succeeded.
func (e *Entry) takeUp(ctx context.Context) {
	defer e.afterPanic()
	e.lookUp(ctx)
	known, err := e.facts.get(ctx)
	if err == nil {
		err = e.enterLine()
	}
	if err != nil {
		e.finish(notSent(err))
		return
	}
	if e.way == direct && !e.s.cfg.SkipLookUps {
		e.ticket.Observe(known.nonce)
	}
	e.store(ctx)
	e.run(ctx)
}

// reply gives the client its answer, if it has got none yet.
func (e *Entry) reply(what uint32, r Result) {
	if e.answer.CompareAndSwap(answerNone, what) && e.answers != nil {
		r.Hash = e.tx.Hash()
		e.answers <- r
	}
}

// promised tells whether the client has got the hash, and was not told of any doubt.
func (e *Entry) promised() bool {
	answer := e.answer.Load()
	return answer == answerHash || answer == answerPromise
}

// afterPanic is for a defer: a panic ends the transaction, not the process. Nobody knows then whether bytes left.
func (e *Entry) afterPanic() {
	if r := recover(); r != nil {
		e.s.Log.Error("panic in a submission", "hash", e.tx.Hash(), "panic", r, "stack", string(debug.Stack()))
		if e.lease != nil {
			e.lease.Report(lock.Report{Outcome: lock.Lost})
		}
		e.finish(Result{Outcome: Unknown, Err: eth.ErrInternal("the submission failed")})
	}
}

// finish gives everything back and records the final result, on every path.
func (e *Entry) finish(r Result) {
	if !e.stage.CompareAndSwap(begun, over) {
		return
	}
	defer e.reply(answerResult, r)
	defer e.discard(r.ran)
	e.leave()
	e.settleCost(r)
	e.risk.GiveBack() // if it had no verdict
	e.publish(r)
	e.endPromise(r)
	e.log(r)
}

// endPromise ends the promise of a transaction that has its verdict. Other relays go on with what this process
// did not finish before it had to stop.
func (e *Entry) endPromise(r Result) {
	finished := r.Outcome != Unknown && (r.Outcome != NotSent || r.nonceSpent)
	if e.answer.Load() == answerPromise && (finished || !e.s.tasks.closing()) {
		e.s.Promises.Release(e.tx)
	}
}

// trace adds a step to what is known of the transaction.
func (e *Entry) trace(step lifecycle.Step) {
	step.Sender, step.Nonce = e.tx.From(), e.tx.Nonce()
	e.s.Trace.Record(e.tx.Hash(), step)
}
