package submit

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/limit"
	"lockstep/lock"
	"lockstep/precheck"
)

// Submitter takes raw transactions from clients to the network.
type Submitter struct {
	cfg      Config
	rejects  map[hedera.Status]bool // receipt statuses that mean "refused before execution"
	rules    precheck.Rules
	locks    *lock.Service
	ordering lock.Config
	nodes    Nodes
	chain    Chain
	files    Files // nil: call data is never put into files
	subsidy  func(to *common.Address) (consensus.Subsidy, bool)
	doors    *doors
	log      *slog.Logger
	metrics  *metrics
	tasks    *tasks
	learner  *learner
	pool     Pool
	trace    Trace
	budget   *limit.Budget
	clientIP func(context.Context) string
	patience time.Duration // how long a caller waits for a verdict
}

// Deps are what a Submitter works with.
type Deps struct {
	Rules    precheck.Rules
	Locks    *lock.Service
	Ordering lock.Config // the settings Locks was made with
	Nodes    Nodes
	Chain    Chain
	Pool     Pool                         // nil: off
	Trace    Trace                        // nil: off
	Files    Files                        // nil: call data is never put into files
	Budget   *limit.Budget                // nil: off
	ClientIP func(context.Context) string // whose transaction it is, for the budget; nil: nobody's
	// Subsidy tells who pays for the gas of a transaction to an address, nil being a
	// creation, in its sender's stead. nil: nobody ever does.
	Subsidy  func(to *common.Address) (consensus.Subsidy, bool)
	Log      *slog.Logger
	Patience time.Duration // how long a caller waits for the verdict on an accepted transaction
}

// New returns a Submitter. It starts nothing; Drain ends what calls started.
func New(cfg Config, deps Deps) (*Submitter, error) {
	rejects, err := statusSet(cfg.RejectedStatuses)
	if err != nil {
		return nil, err
	}
	if deps.Pool == nil {
		deps.Pool = NoPool{}
	}
	if deps.Trace == nil {
		deps.Trace = noTrace{}
	}
	known := ahead{deps.Chain, deps.Pool}
	group := newTasks(cfg.MaxInProgress)
	return &Submitter{
		cfg: cfg, rejects: rejects, rules: deps.Rules, locks: deps.Locks, ordering: deps.Ordering,
		nodes: deps.Nodes, chain: known, files: deps.Files, subsidy: deps.Subsidy, doors: newDoors(deps.Ordering.MaxQueue), log: deps.Log,
		metrics: newMetrics(group.count), tasks: group,
		learner: newLearner(known), pool: deps.Pool, trace: deps.Trace, budget: deps.Budget, clientIP: deps.ClientIP, patience: deps.Patience,
	}, nil
}

// Entry is a transaction that has its place in line.
type Entry struct {
	s       *Submitter
	tx      *eth.Tx
	ticket  *lock.Ticket // nil when the sender's transactions are not ordered, and while it waits at its door
	door    *door        // nil: none
	upload  *upload      // of its call data; nil: none
	arrived time.Time

	facts    *facts      // nil before Begin
	taken    atomic.Bool // Begin has been called
	learning atomic.Bool // the learner is looking its sender up
	finished sync.Once
	fence    uint64 // of the sender's turn; 0: not ordered, or not reached
	cost     cost
}

// Submit takes one transaction through the whole path and returns its hash.
func (s *Submitter) Submit(ctx context.Context, raw []byte) (common.Hash, error) {
	entry, err := s.Enter(raw)
	if err != nil {
		return common.Hash{}, err
	}
	return entry.Finish(ctx)
}

// Enter decodes and checks a transaction and takes its place in the sender's line.
// It never blocks. The error is an *eth.Error.
func (s *Submitter) Enter(raw []byte) (*Entry, error) {
	if s.cfg.ReadOnly {
		return nil, eth.ErrReadOnly()
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		return nil, err
	}
	if err := precheck.Stateless(tx, s.rules); err != nil {
		return nil, err
	}
	entry := &Entry{s: s, tx: tx, arrived: time.Now()}
	if s.locks.Enabled(tx.From()) {
		if err := s.doors.enter(entry); err != nil {
			return nil, lockError(err)
		}
	}
	return entry, nil
}

// Leave gives the place up without submitting. After Begin or Finish it does nothing:
// the transaction may be under way although the caller has its answer.
func (e *Entry) Leave() {
	if !e.taken.Load() {
		e.leave()
	}
}

func (e *Entry) leave() {
	e.s.doors.leave(e)
	if e.ticket != nil {
		e.ticket.Leave()
	}
}

// Begin starts what needs no turn, the look-ups above all. It never blocks. The error is
// an *eth.Error, after which the place is given up; else Finish must follow. Finish
// begins by itself what was not begun, but on the stack on which it then waits, and
// thousands may wait.
func (e *Entry) Begin(ctx context.Context) error {
	if err := e.count(); err != nil {
		return err
	}
	defer e.afterPanic()
	e.s.received(e)
	e.s.whoAsks(ctx, e)
	e.facts = e.s.lookUp(context.WithoutCancel(ctx), e)
	e.store(ctx)
	return nil
}

// Notify has f called, once and in a goroutine of its own, when Finish would not wait for
// the turn any more, whatever ended the wait; f is to call it. So thousands can wait
// without a goroutine each. If it returns false, f is not called, and Finish has to do
// the waiting; ctx is the one for Finish. It comes after Begin.
func (e *Entry) Notify(ctx context.Context, f func()) bool {
	s := e.s
	switch {
	case e.door != nil || e.ticket == nil:
		return false
	case s.cfg.Async: // the client's answer does not wait for the turn
		return false
	case s.ordering.CancelOnDisconnect && ctx.Done() != nil: // somebody has to watch it
		return false
	}
	if s.learns() {
		s.learner.add(context.WithoutCancel(ctx), e) // until Finish removes it
	}
	return e.ticket.Notify(f)
}

// Finish waits for the turn, submits and follows the transaction as far as the
// settings say. The error is an *eth.Error.
//
// A client that goes away does not stop its transaction, unless the operator wants
// that for queued ones: what ctx carries is used, its end is not.
func (e *Entry) Finish(ctx context.Context) (common.Hash, error) {
	if e.facts == nil {
		if err := e.Begin(ctx); err != nil {
			return common.Hash{}, err
		}
	}
	defer e.afterPanic()
	switch {
	case e.s.cfg.Async:
		return e.finishAsync(context.WithoutCancel(ctx))
	case e.s.cfg.Returns == ReturnsAccepted:
		return e.finishAccepted(ctx)
	default:
		return e.run(ctx, nil).result(e.tx.Hash())
	}
}

// count counts the transaction as in progress.
func (e *Entry) count() error {
	e.taken.Store(true)
	ok, closing := e.s.tasks.begin()
	switch {
	case ok:
		return nil
	case closing:
		e.leave()
		return eth.ErrShuttingDown()
	default:
		e.leave()
		return eth.ErrQueueFull(e.s.tasks.count())
	}
}

// afterPanic is for a defer: the transaction ends, and the server answers and logs it.
func (e *Entry) afterPanic() {
	if r := recover(); r != nil {
		e.s.finish(e, verdict{outcome: Unknown})
		panic(r)
	}
}

// finishAccepted answers as soon as a node has accepted the transaction, or none will.
func (e *Entry) finishAccepted(ctx context.Context) (common.Hash, error) {
	answer := make(chan verdict, 2) // the node's, and then the network's
	e.s.background(e, func() {
		v := verdict{outcome: Unknown, err: eth.ErrInternal("the submission failed")}
		defer func() { answer <- v }()
		v = e.run(ctx, answer)
	})
	return (<-answer).result(e.tx.Hash())
}

// finishAsync answers after the prechecks; the rest goes on by itself, and the
// client has no say in it any more.
func (e *Entry) finishAsync(ctx context.Context) (common.Hash, error) {
	known, err := e.facts.get(ctx)
	if err == nil {
		err = e.s.check(e, known, known.nonce, false)
	}
	if err != nil {
		return e.s.finish(e, e.failed(err, known.nonce)).result(e.tx.Hash())
	}
	e.s.background(e, func() { e.run(ctx, nil) })
	return e.tx.Hash(), nil
}

// run is the path from the queue to the verdict. A node's acceptance is told to
// accepted, if there is one.
func (e *Entry) run(ctx context.Context, accepted chan<- verdict) verdict {
	turn, err := e.wait(ctx)
	return e.proceed(ctx, turn, err, accepted)
}

// proceed is what comes after the wait: the turn, or err.
func (e *Entry) proceed(ctx context.Context, turn *turn, err error, accepted chan<- verdict) verdict {
	s := e.s
	turn, err = e.comeForward(ctx, turn, err)
	if cause := e.facts.failure(); cause != nil {
		turn.release()
		return s.finish(e, verdict{outcome: NotSent, err: factError(cause)})
	}
	if err != nil {
		return s.finish(e, verdict{outcome: NotSent, err: lockError(err)})
	}
	defer turn.release()
	defer turn.afterPanic()
	e.fence = turn.fence()

	pending, v := s.inTurn(turn, e)
	if pending == nil {
		return s.finish(e, v)
	}
	// v is what is known at this moment: accepted, or perhaps.
	if s.ordering.Release == lock.ReleaseAccepted {
		turn.release()
	}
	if accepted != nil {
		accepted <- v
	}
	return s.settle(context.WithoutCancel(ctx), turn, e, pending)
}

// inTurn does what only the holder of the sender's turn may do: decide on the
// nonce, check the facts, hand the transaction to a node and tell the lane. No
// pending means that no node has it, and the verdict says why; else the verdict is
// what the client may be told until there is a final one.
func (s *Submitter) inTurn(turn *turn, e *Entry) (Pending, verdict) {
	known, err := e.facts.get(turn.ctx)
	if err != nil {
		return nil, verdict{outcome: NotSent, err: factError(err)}
	}
	expected, sure := turn.expected(known.nonce)
	// Without look-ups nothing is known of the nonce but what the lane is sure of.
	wasNext := e.tx.Nonce() == turn.likely(expected, sure) && (sure || !s.cfg.SkipLookUps)
	if err := s.check(e, known, expected, turn.gapIsWrong(sure)); err != nil {
		s.failed(turn, e, wasNext)
		return nil, e.failed(err, expected)
	}
	raw, callData, err := e.body(turn.ctx)
	if err != nil {
		s.failed(turn, e, wasNext)
		return nil, verdict{outcome: NotSent, err: factError(err)}
	}
	pending, err := s.submit(turn, e, known, raw, callData)
	if err == nil {
		turn.accepted(e.tx, pending, wasNext)
		s.acceptedBy(e, pending)
		return pending, verdict{outcome: Unknown}
	}
	if perhaps := sentAnyway(err); perhaps != nil {
		turn.unclear(perhaps)
		s.unclear(e, perhaps)
		return perhaps, verdict{outcome: Unknown, err: eth.ErrUnknownOutcome(e.tx.Hash(), perhaps.ID().String())}
	}
	s.failed(turn, e, wasNext || predecessorOpen(err))
	return nil, s.submissionError(err)
}

// failed tells the lane that its holder ended without a transaction at any node. If it has no
// better chance than its holder had, what is queued behind it need not be tried. What the fleet
// knows to be executed, and the mirror node may not show yet, is nobody's predecessor.
func (s *Submitter) failed(turn *turn, e *Entry, hopeless bool) {
	if hopeless && turn.lease != nil && s.pool.Latest(turn.ctx, e.tx.From(), 0) <= e.tx.Nonce() {
		turn.lease.Block(e.tx.Nonce())
	}
}

// settle waits for the verdict. The caller's patience ends before the network's: it
// is then told that the outcome is unknown, and the verdict is awaited without it.
func (s *Submitter) settle(ctx context.Context, turn *turn, e *Entry, pending Pending) verdict {
	patient, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	v := s.follow(patient, turn, e, pending)
	if v.outcome != Unknown || patient.Err() == nil {
		return s.conclude(ctx, turn, e, v)
	}
	s.unclear(e, pending)
	s.background(e, func() { s.conclude(ctx, turn, e, s.follow(ctx, turn, e, pending)) })
	return v
}

// conclude spreads the final verdict on a transaction that a node may have.
func (s *Submitter) conclude(ctx context.Context, turn *turn, e *Entry, v verdict) verdict {
	turn.decided(ctx, e.tx, v)
	s.chain.Changed(e.tx.From())
	return s.finish(e, v)
}

// check runs the prechecks that need facts.
func (s *Submitter) check(e *Entry, known known, expected uint64, gapIsWrong bool) error {
	if err := precheck.Nonce(e.tx, expected, gapIsWrong); err != nil {
		return err
	}
	if s.cfg.SkipLookUps {
		return nil
	}
	_, known.GasPriceSubsidised = s.subsidyOf(e.tx)
	return precheck.Stateful(e.tx, s.rules, known.Facts)
}

// finish gives everything back and records the final verdict, on every path.
func (s *Submitter) finish(e *Entry, v verdict) verdict {
	e.finished.Do(func() {
		defer e.discard()
		e.leave()
		e.cost.settle(v)
		s.concluded(e, v)
		s.record(e, v)
	})
	return v
}

// background runs what outlives its request. A panic ends the transaction and not
// the process.
func (s *Submitter) background(e *Entry, work func()) {
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("panic in a submission", "hash", e.tx.Hash(), "panic", r, "stack", string(debug.Stack()))
				s.finish(e, verdict{outcome: Unknown})
			}
		}()
		work()
	}()
}

// Drain waits until every started submission has its verdict, or ctx ends; new
// ones are refused. It returns how many were left behind.
func (s *Submitter) Drain(ctx context.Context) int { return s.tasks.drain(ctx) }
