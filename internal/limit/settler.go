package limit

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/hedera"
)

// Looking for a fee: the mirror node shows it some seconds after consensus.
const (
	firstLook = time.Second
	looks     = 6 // each wait is twice the one before: a minute in all
)

const (
	maxJobs      = 65_536 // settlements that wait
	settlements  = 16     // at the same time
	lookTimeout  = 30 * time.Second
	finishWithin = 2 * time.Second // when the process stops
)

// settler ends reservations in the background, so that no transaction waits for it.
type settler struct {
	ledger patientLedger
	fee    func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error)
	log    *slog.Logger

	mu   sync.Mutex
	jobs jobs // by time; guarded by mu
	news chan struct{}
}

// job is a reservation to end.
type job struct {
	grant grant
	ids   []hedera.TransactionID // whose fees are not known yet
	spent int64                  // the fees that are
	vague bool                   // there are more that will not be known
	looks int
	due   time.Time
}

// amount is what the job's reservation comes to.
func (j *job) amount() int64 {
	if j.vague || len(j.ids) > 0 {
		return max(j.spent, j.grant.amount)
	}
	return j.spent
}

// jobs is a heap by time.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, k int) bool { return h[i].due.Before(h[k].due) }
func (h jobs) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *jobs) Push(j any)        { *h = append(*h, j.(*job)) }
func (h *jobs) Pop() any {
	last := len(*h) - 1
	j := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return j
}

func newSettler(l patientLedger, fee func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error), log *slog.Logger) *settler {
	return &settler{ledger: l, fee: fee, log: log, news: make(chan struct{}, 1)}
}

// add queues a job. When the queue is full, nobody looks for its fees.
func (s *settler) add(j *job) {
	j.due = time.Now()
	if len(j.ids) > 0 {
		j.due = j.due.Add(firstLook)
	}
	if !s.queue(j) {
		s.ledger.note(j.grant, j.amount())
	}
}

func (s *settler) queue(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) >= maxJobs {
		return false
	}
	heap.Push(&s.jobs, j)
	select {
	case s.news <- struct{}{}:
	default:
	}
	return true
}

// run works the queue off until ctx ends, and then ends what is left in it.
func (s *settler) run(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(settlements)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		j, wait := s.next()
		if j != nil {
			group.Go(func() error {
				s.work(ctx, j)
				return nil
			})
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.news:
		case <-timer.C:
		}
	}
	_ = group.Wait() // no job returns an error
	s.finish(context.WithoutCancel(ctx))
}

// next takes the job that is due, or says how long there is none.
func (s *settler) next() (*job, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(s.jobs[0].due); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&s.jobs).(*job), 0
}

// work looks for the fees of a job and settles it once they are known, or will not be.
func (s *settler) work(ctx context.Context, j *job) {
	var unknown []hedera.TransactionID
	for _, id := range j.ids {
		if fee, ok := s.askFee(ctx, id); ok {
			j.spent += int64(min(max(fee, 0), greatest/4))
		} else {
			unknown = append(unknown, id)
		}
	}
	j.ids = unknown
	if len(j.ids) > 0 {
		if j.looks++; j.looks < looks && ctx.Err() == nil {
			j.due = time.Now().Add(firstLook << j.looks)
			if s.queue(j) {
				return
			}
		}
		s.log.Warn("the cost of a transaction stayed unknown; the estimate counts as spent", "transaction", j.ids[0].String())
	}
	s.settle(ctx, j)
}

// askFee asks once what a transaction cost, and whether that is known.
func (s *settler) askFee(ctx context.Context, id hedera.TransactionID) (hedera.Tinybar, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	fee, known, err := s.fee(ctx, id)
	if err != nil {
		s.log.Debug("asking for the fee of a transaction failed", "transaction", id.String(), "error", err)
	}
	return fee, known && err == nil
}

func (s *settler) settle(ctx context.Context, j *job) {
	if _, err := s.ledger.settle(ctx, j.grant, j.amount()); err != nil {
		s.log.Warn("settling what a transaction cost failed", "error", err)
	}
}

// finish ends the reservations that are left when the process stops.
func (s *settler) finish(ctx context.Context) {
	s.mu.Lock()
	left := s.jobs
	s.jobs = nil
	s.mu.Unlock()
	end := time.Now().Add(finishWithin)
	for _, j := range left {
		if time.Now().Before(end) {
			s.settle(ctx, j)
		} else {
			s.ledger.note(j.grant, j.amount())
		}
	}
}
