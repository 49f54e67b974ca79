package submit

import (
	"context"
	"time"

	"lockstep/internal/eth"
	"lockstep/internal/lifecycle"
	"lockstep/internal/sleep"
)

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
	s.tell(tx, lifecycle.Step{Name: lifecycle.Received})
	s.pool.Add(tx)
	s.background(e, func() {
		ctx := context.Background() //nolint:forbidigo // its client is another relay's
		e.facts = s.knownInTime(ctx, e)
		if err := s.goOn(ctx, e); err != nil {
			s.finish(e, notSent(err))
		}
	})
	return true
}

func (s *Submitter) goOn(ctx context.Context, e *Entry) error {
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
