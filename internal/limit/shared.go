package limit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"lockstep/internal/outage"
	"lockstep/internal/sleep"
)

// shared is the ledger of a fleet: in Redis, and while that does not answer, in this
// process, which then goes on from the sums that it saw last. What it spends meanwhile
// is entered in Redis afterwards. So in an outage each process can spend what was left,
// and no more; nobody waits for Redis longer than one deadline, and nobody spends freely.
type shared struct {
	far     *remote
	near    *local // the sums seen last, and the truth while Redis is away
	process string
	outage  outage.Log
	failed  func() // counts calls of Redis that failed

	up      atomic.Bool
	news    chan struct{} // something for run to do
	journal *journal      // what Redis does not know yet
	message *message      // taken from it, perhaps received; used by flush alone
}

func newShared(far *remote, near *local, process string, log *slog.Logger, failed func()) *shared {
	s := &shared{
		far: far, near: near, process: process, failed: failed,
		outage: outage.Log{
			Logger: log, Upstream: "redis", Name: "spending", Level: slog.LevelWarn,
			Consequence: "each relay counts by itself what transactions cost, so a fleet can spend more than the limit",
		},
		news: make(chan struct{}, 1), journal: newJournal(near.maxBooks),
	}
	s.up.Store(true)
	return s
}

func (s *shared) reserve(ctx context.Context, c claim) (answer, error) {
	if s.up.Load() {
		a, err := s.far.reserve(ctx, c)
		if err == nil {
			s.near.observe(c.window, a.sums)
			return a, nil
		}
		s.lost(err) // a claim that was entered all the same lapses
	}
	a, err := s.near.reserve(ctx, c)
	if err == nil && a.refused == granted {
		s.owe(c.window, a.sums.books(), c.amount)
	}
	return a, err
}

func (s *shared) settle(ctx context.Context, g grant, actual int64) (sums, error) {
	if s.up.Load() && !s.near.holdsClaim(g) {
		changed, err := s.far.settle(ctx, g, actual)
		if err == nil && changed != nil {
			s.near.observe(g.window, changed)
			return changed, nil
		}
		if err != nil {
			s.lost(err)
		}
	}
	s.note(g, actual)
	return nil, nil
}

// note settles a claim that was made while Redis was away, or one that Redis has lost or
// cannot be told about. If it still has that, the claim lapses there and leaves what is
// entered here.
func (s *shared) note(g grant, actual int64) {
	if s.near.holdsClaim(g) {
		s.near.note(g, actual)
		s.owe(g.window, g.books, actual-g.amount)
		return
	}
	s.near.change(g.window, g.books, actual-g.amount)
	s.owe(g.window, g.books, actual)
}

// lost is for a call of Redis that failed.
func (s *shared) lost(err error) {
	s.failed()
	s.up.Store(false)
	s.outage.Down(context.Background(), err) //nolint:forbidigo // the line belongs to no request
	s.nudge()
}

// owe notes what Redis is to be told.
func (s *shared) owe(w window, books []string, amount int64) {
	if s.journal.add(w, books, amount) {
		s.nudge()
	}
}

func (s *shared) nudge() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Pauses between checks whether Redis is back.
const (
	shortestPause = 250 * time.Millisecond
	longestPause  = 5 * time.Second
)

// run tells Redis what it does not know, and finds out when it is back, until ctx ends.
// No transaction has to try that.
func (s *shared) run(ctx context.Context) {
	pause := shortestPause
	for {
		select {
		case <-ctx.Done():
			s.flush(ctx) // Redis calls do not end with ctx, but with their deadline
			return
		case <-s.news:
		}
		for !s.flush(ctx) {
			if !sleep.For(ctx, pause+rand.N(pause)) {
				return
			}
			pause = min(2*pause, longestPause)
		}
		pause = shortestPause
	}
}

// flush enters the journal in Redis and reports whether Redis answers.
func (s *shared) flush(ctx context.Context) bool {
	for {
		if s.message == nil {
			s.message = s.journal.next()
		}
		if s.message == nil {
			break
		}
		// One that failed is sent again as it is: it may have been entered.
		if err := s.far.enter(ctx, s.process, s.message); err != nil {
			s.lost(err)
			return false
		}
		s.message = nil
	}
	if s.up.Load() {
		return true
	}
	if err := s.far.ping(ctx); err != nil {
		s.failed()
		s.outage.Down(ctx, err)
		return false
	}
	s.up.Store(true)
	s.outage.Up(ctx)
	return true
}
