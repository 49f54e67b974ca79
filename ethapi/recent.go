package ethapi

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/mirror"
)

// recent lets requests for a transaction that this fleet has sent wait until the mirror node shows it, so that a
// client that asks right after sending does not get null. The wait is bounded; after it the answer is the mirror
// node's.
//
// One loop serves all waiting requests: it asks the mirror node for the newest block, and for each awaited hash
// once per new block, or once a second.
type recent struct {
	mirror  Mirror
	log     *slog.Logger
	pool    Pool
	bound   time.Duration // maximum wait; 0: none
	metrics *recentMetrics

	mu       sync.Mutex
	waits    map[common.Hash]*wait // guarded by mu
	watching bool                  // a loop runs; guarded by mu
}

// wait is for one hash, by any number of requests.
type wait struct {
	requests int           // guarded by recent.mu
	done     chan struct{} // closed when result and err are final
	result   *mirror.ContractResult
	err      error

	block  uint64    // newest at the last look; of the loop
	looked time.Time // of the loop
}

const (
	// maxWaits bounds the awaited hashes; requests for others are answered at once.
	maxWaits = 4096
	// lookInterval is the pace at which the newest block is asked for.
	lookInterval = 250 * time.Millisecond
	// lookAgain is when a hash is looked up although there was no new block.
	lookAgain = time.Second
	// looksAtOnce is how many hashes are looked up at the same time.
	looksAtOnce = 16
)

// result returns the result of a transaction. It waits for a missing one that is known to be on its way.
func (a *API) result(ctx context.Context, hash common.Hash) (*mirror.ContractResult, error) {
	result, err := a.mirror.ContractResult(ctx, hash)
	if !errors.Is(err, mirror.ErrNotFound) || a.awaited.bound == 0 || !a.awaited.onItsWay(ctx, hash) {
		return result, err
	}
	return a.awaited.await(ctx, hash)
}

func (r *recent) onItsWay(ctx context.Context, hash common.Hash) bool {
	_, known := r.pool.Find(ctx, hash)
	return known
}

// await waits for a hash that the mirror node did not have a moment ago.
func (r *recent) await(ctx context.Context, hash common.Hash) (*mirror.ContractResult, error) {
	w := r.join(ctx, hash)
	if w == nil {
		r.metrics.waits.WithLabelValues("refused").Inc()
		return nil, mirror.ErrNotFound
	}
	defer r.leave(hash, w)
	timer := time.NewTimer(r.bound)
	defer timer.Stop()
	select {
	case <-w.done:
		r.metrics.waits.WithLabelValues("answered").Inc()
		return w.result, w.err
	case <-timer.C:
		r.metrics.waits.WithLabelValues("late").Inc()
		return nil, mirror.ErrNotFound
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the hash's wait, or nil if there are too many.
func (r *recent) join(ctx context.Context, hash common.Hash) *wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waits[hash]
	if w == nil {
		if len(r.waits) >= maxWaits {
			return nil
		}
		w = &wait{done: make(chan struct{}), looked: time.Now()}
		r.waits[hash] = w
		if !r.watching {
			r.watching = true
			go r.watch(context.WithoutCancel(ctx))
		}
	}
	w.requests++
	return w
}

func (r *recent) leave(hash common.Hash, w *wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.requests--; w.requests == 0 && r.waits[hash] == w {
		delete(r.waits, hash)
	}
}

// watch looks for the awaited hashes until there is none.
func (r *recent) watch(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for range ticker.C {
		r.mu.Lock()
		idle := len(r.waits) == 0
		if idle {
			r.waits, r.watching = make(map[common.Hash]*wait), false // a map never shrinks
		}
		r.mu.Unlock()
		if idle {
			return
		}
		r.poll(ctx)
	}
}

// poll asks for the newest block and looks up what may be in it. A panic ends the poll, not the process: the
// waiting requests are answered when their time is up.
func (r *recent) poll(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic while looking for what is waited for", "panic", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, r.bound)
	defer cancel()
	var newest uint64
	if head, err := r.mirror.Head(ctx); err == nil {
		newest = head.Number
	}
	due := r.due(newest)
	_ = each(ctx, looksAtOnce, due, func(ctx context.Context, _ int, hash common.Hash) error {
		r.lookUp(ctx, hash)
		return nil
	})
}

// due returns the hashes that a look may find something new about.
func (r *recent) due(newest uint64) (due []common.Hash) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for hash, w := range r.waits {
		if newest > w.block || now.Sub(w.looked) >= lookAgain {
			w.block, w.looked = max(newest, w.block), now
			due = append(due, hash)
		}
	}
	return due
}

// lookUp ends the wait for a hash if there is an answer, or there never will be one.
func (r *recent) lookUp(ctx context.Context, hash common.Hash) {
	result, err := r.mirror.ContractResult(ctx, hash)
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		if r.onItsWay(ctx, hash) {
			return
		}
	case err != nil && !errors.Is(err, mirror.ErrImmature):
		return // the mirror node has trouble, which may pass
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.waits[hash]; w != nil {
		delete(r.waits, hash)
		w.result, w.err = result, err
		close(w.done)
	}
}

// recentMetrics belong to one recent.
type recentMetrics struct {
	waits   *prometheus.CounterVec
	waiting prometheus.GaugeFunc
}

func newRecent(deps Deps, bound time.Duration) *recent {
	r := &recent{mirror: deps.Mirror, pool: deps.Pool, log: deps.Log, bound: bound, waits: make(map[common.Hash]*wait)}
	r.metrics = &recentMetrics{
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_read_your_writes_total",
			Help: "Requests for a transaction of this fleet that waited for the mirror node: answered, late (the wait was over), or refused (too many waited).",
		}, []string{"end"}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockstep_read_your_writes_waiting", Help: "Transactions that requests wait for.",
		}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(len(r.waits))
		}),
	}
	return r
}

// Collectors returns the metrics for registration.
func (a *API) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.awaited.metrics.waits, a.awaited.metrics.waiting}
}
