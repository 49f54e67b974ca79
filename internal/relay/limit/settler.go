package limit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
)

// Looking for a fee: the mirror node shows it some seconds after consensus.
const (
	firstLook = time.Second
	looks     = 6 // each wait is twice the one before: a minute in all
)

const (
	maxJobs      = 16_384 // reservations that are being ended
	looksAtOnce  = 16
	lookTimeout  = 30 * time.Second
	finishWithin = 2 * time.Second // when the process stops
)

// settler ends reservations, each in a goroutine, so that no transaction waits for it.
type settler struct {
	ledger *ledger
	fee    func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error)
	log    *slog.Logger
	places chan struct{} // has a token for each look that is being made

	mu    sync.Mutex
	ctx   context.Context         // guarded by mu; of run; nil: it has not begun
	early []func(context.Context) // guarded by mu; wait for run
	jobs  int                     // guarded by mu
	end   time.Time               // guarded by mu; until then Redis is told; zero: the process does not stop
	idle  chan struct{}
}

func newSettler(l *ledger, fee func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error), log *slog.Logger) *settler {
	return &settler{ledger: l, fee: fee, log: log, places: make(chan struct{}, looksAtOnce), idle: make(chan struct{})}
}

// add ends a reservation by what transactions cost; vague: by the amount reserved, at the least. When too many are being
// ended, or the process stops, nobody looks for their fees.
func (s *settler) add(g grant, ids []hedera.TransactionID, vague bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == maxJobs || !s.end.IsZero() {
		var spent int64
		if vague || len(ids) > 0 {
			spent = g.amount
		}
		s.ledger.settleHere(g, spent)
		return
	}
	s.jobs++
	work := func(ctx context.Context) { s.work(ctx, g, ids, vague) }
	if s.ctx == nil {
		s.early = append(s.early, work)
		return
	}
	go work(s.ctx)
}

// work looks for the fees of a reservation and settles it once they are known, or will not be.
func (s *settler) work(ctx context.Context, g grant, ids []hedera.TransactionID, vague bool) {
	var spent int64
	for look := 0; len(ids) > 0 && look < looks && sleep.For(ctx, firstLook<<look); look++ {
		var unknown []hedera.TransactionID
		for _, id := range ids {
			if fee, ok := s.askFee(ctx, id); ok {
				spent += int64(min(max(fee, 0), greatest/4))
			} else {
				unknown = append(unknown, id)
			}
		}
		ids = unknown
	}
	if len(ids) > 0 {
		s.log.Warn("the cost of a transaction stayed unknown; the estimate counts as spent", "transaction", ids[0].String())
		vague = true
	}
	if vague {
		spent = max(spent, g.amount)
	}
	s.mu.Lock()
	late := !s.end.IsZero() && time.Now().After(s.end)
	s.mu.Unlock()
	if late {
		s.ledger.settleHere(g, spent)
	} else {
		s.ledger.settle(context.WithoutCancel(ctx), g, spent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs--; s.jobs == 0 && !s.end.IsZero() {
		close(s.idle)
	}
}

// askFee asks once what a transaction cost, and whether that is known.
func (s *settler) askFee(ctx context.Context, id hedera.TransactionID) (hedera.Tinybar, bool) {
	s.places <- struct{}{}
	defer func() { <-s.places }()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	fee, known, err := s.fee(ctx, id)
	if err != nil {
		s.log.Debug("asking for the fee of a transaction failed", "transaction", id.String(), "error", err)
	}
	return fee, known && err == nil
}

// run ends reservations until ctx ends, and then those that are left, at once.
func (s *settler) run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	for _, work := range s.early {
		go work(ctx)
	}
	s.early = nil
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.end = time.Now().Add(finishWithin)
	none := s.jobs == 0
	s.mu.Unlock()
	if !none {
		<-s.idle
	}
}
