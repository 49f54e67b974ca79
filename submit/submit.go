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
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/limit"
	"lockstep/lock"
	"lockstep/precheck"
)

// Submitter takes raw transactions from clients to the network.
type Submitter struct {
	cfg        Config
	rejects    map[hedera.Status]bool // receipt statuses that mean "refused before execution"
	rules      precheck.Rules
	locks      *lock.Service
	ordering   lock.Config
	nodes      Nodes
	chain      Chain
	files      Files
	subsidy    func(to *common.Address) (consensus.Subsidy, bool)
	gates      *gates
	wrongStage atomic.Pointer[error] // the first entry with a change of stage that the table forbids
	log        *slog.Logger
	metrics    *metrics
	tasks      *tasks
	learner    *learner
	memory     *memory
	lookers    chan struct{} // a slot for each look-up that has a goroutine of its own
	pool       Pool
	promises   Promises
	trace      Trace
	budget     *limit.Budget
	nonces     *limit.WrongNonces
	clientIP   func(context.Context) string
	charged    func(hash common.Hash, ids ...hedera.TransactionID)
	whose      func(context.Context) Asker
	waitTime   time.Duration // how long a caller waits for a verdict

	spendings spendings
}

// Deps are what a Submitter works with. All are needed; a part that is off is a value such as pending.Disabled.
type Deps struct {
	Rules    precheck.Rules
	Locks    *lock.Service
	Ordering lock.Config // the settings Locks was made with
	Nodes    Nodes
	Chain    Chain
	Pool     Pool
	Promises Promises
	Trace    Trace
	Files    Files
	Budget   *limit.Budget
	Nonces   *limit.WrongNonces
	ClientIP func(context.Context) string // who sent a transaction, for the budget
	// Subsidy tells who pays for the gas of a transaction to an address instead of its sender. A nil address is a
	// creation.
	Subsidy func(to *common.Address) (consensus.Subsidy, bool)
	// Charged is told of transactions that the operator was charged for, and the hash of the
	// Ethereum transaction that they are for; it must not block. TellNobody: nobody is.
	Charged func(hash common.Hash, ids ...hedera.TransactionID)
	// Asker tells for the log with which request a transaction came.
	Asker    func(context.Context) Asker
	Log      *slog.Logger
	WaitTime time.Duration // how long a caller waits for the verdict on an accepted transaction
}

// Nodes is the consensus side: a thin wrapper of *consensus.Client.
type Nodes interface {
	// Submit hands a transaction to a node and returns at that node's acceptance. Its
	// errors are those of package consensus. A Pending that comes with one may be at its node.
	Submit(ctx context.Context, s consensus.Submission) (Pending, error)
	// Await waits until the network has a verdict on a transaction, good or bad.
	Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error
	// Knows asks a node once whether it has heard of a transaction. An error says nothing about it.
	Knows(ctx context.Context, id hedera.TransactionID, node hedera.ID) (known bool, err error)
	// OfferAgain offers a transaction that its node may have to that node under the same id, if the node says
	// that it does not know it. It tells whether the node has it now.
	OfferAgain(ctx context.Context, s consensus.Submission, p Pending) (taken bool)
}

// Pending is a transaction that a node has, or may have, and whose verdict is awaited.
type Pending interface {
	ID() hedera.TransactionID
	Node() hedera.ID
	Receipt(ctx context.Context) (consensus.Receipt, error)
	// Ask asks its node once for the receipt. An error says nothing about the transaction.
	Ask(ctx context.Context) (found bool, err error)
	// Denied is closed when its node says, while Receipt waits, that it never heard of it.
	Denied() <-chan struct{}
}

// New returns a Submitter. It starts nothing; Drain ends what calls started.
func New(cfg Config, deps Deps) (*Submitter, error) {
	rejects, err := statusSet(cfg.RejectedStatuses)
	if err != nil {
		return nil, err
	}
	known := provenChain{deps.Chain, deps.Pool}
	group := newTasks(cfg.MaxInProgress)
	return &Submitter{
		cfg: cfg, rejects: rejects, rules: deps.Rules, locks: deps.Locks, ordering: deps.Ordering,
		nodes: deps.Nodes, chain: known, files: deps.Files, subsidy: deps.Subsidy, gates: newGates(deps.Ordering.MaxQueue), log: deps.Log,
		metrics: newMetrics(group.count), tasks: group,
		learner: newLearner(known), memory: newMemory(cfg.StaleFacts.Duration()), lookers: make(chan struct{}, maxBeside), pool: deps.Pool, promises: deps.Promises, trace: deps.Trace, budget: deps.Budget, nonces: deps.Nonces, clientIP: deps.ClientIP, waitTime: deps.WaitTime, charged: deps.Charged, whose: deps.Asker,
		spendings: spendings{senders: map[common.Address]*spending{}},
	}, nil
}

// Submit takes one transaction through the whole path.
func (s *Submitter) Submit(ctx context.Context, raw []byte) Result {
	entry, err := s.Enter(raw)
	if err != nil {
		return notSent(err)
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
	now := time.Now()
	entry := &Entry{s: s, tx: tx, arrived: now, inLineSince: now}
	if s.locks.Enabled(tx.From()) {
		if err := s.gates.enter(entry); err != nil {
			return nil, lockError(err)
		}
	}
	return entry, nil
}

// Leave gives the place up without submitting. After Begin or Finish it does nothing, because the transaction may
// be under way although the caller has its answer.
func (e *Entry) Leave() {
	if e.stage.CompareAndSwap(uint32(entered), uint32(left)) {
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
	case s.ordering.CancelOnDisconnect && ctx.Done() != nil: // Finish has to watch ctx
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
// uses the values of ctx, but not its end.
func (e *Entry) Finish(ctx context.Context) Result {
	if stage(e.stage.Load()) != begun {
		if err := e.Begin(ctx); err != nil {
			return e.stamp(notSent(err))
		}
	}
	defer e.afterPanic()
	switch {
	case e.s.cfg.Async:
		return e.finishAsync(context.WithoutCancel(ctx))
	case e.s.cfg.Returns == ReturnsAccepted:
		return e.finishAccepted(ctx)
	default:
		return e.run(ctx, nil)
	}
}

// count counts the transaction as in progress.
func (e *Entry) count() error {
	if !e.become(begun) {
		return eth.ErrRequestTimeout() // it has left
	}
	ok, closing := e.s.tasks.begin(len(e.tx.Raw()))
	if ok {
		return nil
	}
	e.become(left)
	e.leave()
	if closing {
		return eth.ErrShuttingDown()
	}
	return eth.ErrTooManyInProgress(e.s.tasks.count())
}

// afterPanic is for a defer: it ends the transaction, and the server answers and logs the panic.
func (e *Entry) afterPanic() {
	if r := recover(); r != nil {
		e.s.finish(e, Result{Outcome: Unknown})
		panic(r)
	}
}

// finishAccepted answers as soon as a node has accepted the transaction, or none will. Its wait does not end with ctx, because a
// client that goes away does not stop its transaction. What bounds it is run: each of its waits has a limit of its own.
func (e *Entry) finishAccepted(ctx context.Context) Result {
	answer := make(chan Result, 2) // first the node's answer, then the network's
	e.s.background(e, func() {
		r := e.stamp(Result{Outcome: Unknown, Err: eth.ErrInternal("the submission failed")})
		defer func() { answer <- r }()
		r = e.run(ctx, answer)
	})
	return <-answer
}

// finishAsync answers after the prechecks; the rest goes on by itself, and the client cannot stop it any more.
func (e *Entry) finishAsync(ctx context.Context) Result {
	known, err := e.facts.get(ctx)
	if err == nil {
		err = known.stale // facts that may have changed are not enough for a promise
	}
	if err == nil {
		err = e.s.check(e, known, known.nonce, false)
	}
	if err != nil {
		return e.s.finish(e, e.failedCheck(err, known.nonce))
	}
	kept := e.promise()
	e.s.background(e, func() { e.run(ctx, nil) })
	kept(ctx) // meanwhile the transaction goes on
	return e.stamp(Result{Outcome: Unknown})
}

// background runs what outlives its request. A panic ends the transaction and not
// the process.
func (s *Submitter) background(e *Entry, work func()) {
	go func() {
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("panic in a submission", "hash", e.tx.Hash(), "panic", r, "stack", string(debug.Stack()))
				s.finish(e, Result{Outcome: Unknown})
			}
		}()
		work()
	}()
}

// Drain waits until every started submission has its verdict, or ctx ends; new
// ones are refused. It returns how many were left behind.
func (s *Submitter) Drain(ctx context.Context) int { return s.tasks.drain(ctx) }

// tasks is the bounded group of transactions in progress. Each runs to its verdict
// even if its client left; drain waits for them when the process stops. What a client has sent is in memory until then, also when
// its request is over and counts for nobody any more: so the bytes are bounded, too.
type tasks struct {
	limit int

	mu     sync.Mutex
	n      int           // running
	bytes  int           // of their transactions
	closed bool          // drain has begun
	idle   chan struct{} // closed when n falls to 0 after drain has begun
}

// bytesInProgress is the largest number of bytes that all transactions in progress may have. Hundreds of thousands of transfers fit.
const bytesInProgress = 64 << 20

func newTasks(limit int) *tasks { return &tasks{limit: limit, idle: make(chan struct{})} }

// begin takes a place in the group for a transaction of so many bytes; every true must be followed by one end.
func (t *tasks) begin(bytes int) (ok, closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.n >= t.limit || t.bytes+bytes > bytesInProgress {
		return false, t.closed
	}
	t.n++
	t.bytes += bytes
	return true, false
}

func (t *tasks) end(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= bytes
	if t.n--; t.n == 0 && t.closed {
		close(t.idle)
	}
}

// closing tells whether drain has begun.
func (t *tasks) closing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// count returns how many are running.
func (t *tasks) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// drain refuses new tasks and waits for the running ones or the end of ctx. It
// returns how many are still running.
func (t *tasks) drain(ctx context.Context) int {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		if t.n == 0 {
			close(t.idle)
		}
	}
	t.mu.Unlock()
	select {
	case <-t.idle:
	case <-ctx.Done():
	}
	return t.count()
}
