package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/lifecycle"
	"lockstep/internal/limit"
	"lockstep/internal/sleep"
	"lockstep/lock"
)

// Entry is a transaction that has its place in line. One goroutine at a time works on it.
type Entry struct {
	s       *Submitter
	tx      *eth.Tx
	arrived time.Time
	// inLineSince is when its client's wait for the turn begins: at its arrival, or when its call data is in its
	// file.
	inLineSince time.Time

	stage  atomic.Uint32 // how far it is; changed by become
	answer atomic.Uint32 // what its client has been told

	way       way
	gate      *gate        // where it waits for its ticket, if it is gated
	ticket    *lock.Ticket // its place in line: from the beginning, or once its gate has let it pass
	takenOver bool         // from another relay, which had let it into the line
	returned  bool         // it waits in its line once more
	returns   int          // how often it came back: after it was sent, or because it lost its turn

	facts  *facts // from begun on
	upload *upload

	fence      uint64 // of the sender's turn; 0: not ordered, or not reached
	cost       cost
	asker      Asker
	traceID    string               // of its request; empty: not recorded
	risk       *limit.NonceRisk     // that the network refuses it for its nonce
	submission consensus.Submission // as it was offered last
	standing   lock.Standing        // of its nonce, when it was sent
	ahead      *ahead               // the network refused it so, and it waits once more; nil: it did not
	doubtful   []Pending            // its former submissions that vanished, as far as their nodes know
}

// stage is how far a transaction is on its way. The package comment has the table of its changes.
type stage uint32

const (
	entered   stage = iota // it has its place, or waits for it at its gate
	begun                  // its look-ups are under way
	waiting                // it waits for its turn
	granted                // it has the turn
	following              // a node has it, or may have it
	over                   // it has its Result
	left                   // its place was given up before anything began
	stages
)

// changes are the stages that may follow each.
var changes = [stages][]stage{
	entered:   {begun, left},
	begun:     {waiting, over, left},
	waiting:   {granted, waiting, over},
	granted:   {waiting, following, over},
	following: {waiting, over},
}

func (s stage) String() string {
	return [stages]string{"entered", "begun", "waiting", "granted", "following", "over", "left"}[s]
}

// become changes the stage. It returns false, and changes nothing, if the table forbids that.
func (e *Entry) become(to stage) bool {
	for {
		from := stage(e.stage.Load())
		if from == over || from == left {
			return false
		}
		if wrong := e.check(from, to); wrong != nil {
			e.s.noteWrongStage(wrong)
			return false
		}
		if e.stage.CompareAndSwap(uint32(from), uint32(to)) {
			return true
		}
	}
}

// check returns what is wrong with an entry that changes its stage, or nil.
func (e *Entry) check(from, to stage) error {
	var wrong []error
	must := func(holds bool, rule string) {
		if !holds {
			wrong = append(wrong, fmt.Errorf("%s: from %s to %s", rule, from, to))
		}
	}
	must(slices.Contains(changes[from], to), "a transaction goes on as the table says")
	must(e.facts != nil || to == begun || to == left || to == over, "what goes on has its look-ups")
	must((e.gate != nil) == (e.way == gated), "who is gated has a gate, and nobody else")
	must(e.way != direct || e.ticket != nil, "who is in line has a ticket")
	must(e.way != unordered || e.ticket == nil, "who is not ordered is in no line")
	must(to != following || e.submission.Ethereum != nil, "what a node may have was offered")
	must(e.returns == 0 || e.returned, "who came back waits once more")
	return errors.Join(wrong...)
}

// noteWrongStage notes an entry that went where it must not, which is a bug of this package. Tests look for it.
func (s *Submitter) noteWrongStage(wrong error) {
	if s.wrongStage.CompareAndSwap(nil, &wrong) {
		s.log.Error("a transaction has come into a state that the table does not allow", "error", wrong)
	}
}

// way is how a transaction comes to its ticket. It is fixed when the transaction enters.
type way uint8

const (
	unordered way = iota // its sender's transactions are not ordered: it needs none
	direct               // it got its ticket when it entered
	gated                // it gets its ticket when its gate opens
)

// What the client has been told while the transaction goes on. The answer is given once.
const (
	answerNone    uint32 = iota
	answerHash           // the hash: a node has the transaction
	answerPromise        // the hash, before a node has the transaction; other relays know of it
	answerDoubt          // that the outcome is not known: the client may send the transaction again
)

// promised tells whether the client has got the hash, and was not told of any doubt.
func (e *Entry) promised() bool {
	answer := e.answer.Load()
	return answer == answerHash || answer == answerPromise
}

// noteAnswer notes what the client is told, and returns whether it has been told nothing before.
func (e *Entry) noteAnswer(answer uint32) bool { return e.answer.CompareAndSwap(answerNone, answer) }

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
	limit := e.s.ordering.Recovery.Duration()
	if e.promised() {
		limit = max(limit, e.s.ordering.Promise.Duration())
	}
	return limit - time.Since(e.arrived)
}

// Promises keeps the transactions whose hashes clients get before a node has them, where another
// relay goes on with them when this one dies: package pending.
type Promises interface {
	// Keep notes a promise. It never blocks; the function that it returns waits until the promise
	// is where others find it, for a bounded time. Release follows, once.
	Keep(tx *eth.Tx) (wait func(context.Context))
	// Release ends a promise: the transaction has its verdict. It never blocks.
	Release(tx *eth.Tx)
}

// promise notes that the client gets the hash, which is a promise. The function that it returns
// is to be called before the answer.
func (e *Entry) promise() (wait func(context.Context)) {
	e.answer.Store(answerPromise)
	return e.s.promises.Keep(e.tx)
}

// keepOrRelease ends the promise of a transaction that has its verdict. Other relays go on with what this process
// did not finish before it had to stop.
func (s *Submitter) keepOrRelease(e *Entry, r Result) {
	if e.answer.Load() != answerPromise || s.tasks.closing() && (r.Outcome == Unknown || r.Outcome == NotSent && !r.nonceSpent) {
		return
	}
	s.promises.Release(e.tx)
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

// TakeOver goes on with a transaction whose hash a relay that is gone has promised, and which is kept
// until then. It never blocks. It returns false if this process takes nothing more; else the promise
// is released when the transaction has its verdict.
func (s *Submitter) TakeOver(tx *eth.Tx, until time.Time) bool {
	if ok, _ := s.tasks.begin(len(tx.Raw())); !ok {
		return false
	}
	e := &Entry{s: s, tx: tx, arrived: until.Add(-s.ordering.Promise.Duration()), takenOver: true}
	e.stage.Store(uint32(begun))
	e.answer.Store(answerPromise)
	s.traceStep(tx, lifecycle.Step{Name: lifecycle.Received})
	s.pool.Add(tx)
	s.background(e, func() {
		ctx := context.Background() //nolint:forbidigo // its client is another relay's
		e.facts = s.knownInTime(ctx, e)
		if err := s.proceed(ctx, e); err != nil {
			s.finish(e, notSent(err))
		}
	})
	return true
}

func (s *Submitter) proceed(ctx context.Context, e *Entry) error {
	known, err := e.facts.get(ctx) // they are there
	if err != nil {
		return factError(err)
	}
	if s.locks.Enabled(e.tx.From()) {
		if err := s.gates.enter(e); err != nil {
			return lockError(err)
		}
	}
	if e.way == direct && !s.cfg.SkipLookUps {
		e.ticket.Observe(known.nonce)
	}
	e.store(ctx)
	e.run(ctx, nil)
	return nil
}

// knownInTime looks up what a transaction needs, again and again while its promise counts.
func (s *Submitter) knownInTime(ctx context.Context, e *Entry) *facts {
	f := &facts{done: make(chan struct{})}
	defer close(f.done)
	if s.cfg.SkipLookUps {
		f.value.GasPrice = e.tx.GasPrice()
		return f
	}
	for {
		f.value, f.err = s.gather(ctx, e.tx)
		if f.err == nil || e.remaining() <= 0 || s.tasks.closing() || !sleep.For(ctx, retryPace) {
			return f
		}
	}
}
