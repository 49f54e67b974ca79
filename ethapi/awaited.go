package ethapi

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/sleep"
	"lockstep/mirror"
)

// awaited lets requests for a transaction that this fleet has sent wait until the mirror node shows it, so that a
// client that asks right after sending does not get null. The wait is bounded; after it the answer is the mirror
// node's.
type awaited struct {
	bound    time.Duration // maximum wait; 0: none
	requests atomic.Int64  // that wait
	looks    chan struct{} // has a token for each look that is being made
	waits    *prometheus.CounterVec
}

const (
	// maxWaits bounds the requests that wait; others are answered at once.
	maxWaits = 4096
	// lookInterval is the pace at which the newest block is asked for.
	lookInterval = 250 * time.Millisecond
	// lookAgain is when a transaction is looked up although there was no new block.
	lookAgain = time.Second
	// looksAtOnce is how many transactions are looked up at the same time.
	looksAtOnce = 16
)

func newAwaited(bound time.Duration) *awaited {
	return &awaited{bound: bound, looks: make(chan struct{}, looksAtOnce), waits: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_read_your_writes_total",
		Help: "Requests for a transaction of this fleet that waited for the mirror node: answered, late (the wait was over), or refused (too many waited).",
	}, []string{"end"})}
}

// result returns the result of a transaction. It waits for a missing one that is known to be on its way.
func (a *API) result(ctx context.Context, hash common.Hash) (*mirror.ContractResult, error) {
	result, err := a.mirror.ContractResult(ctx, hash)
	if !errors.Is(err, mirror.ErrNotFound) || a.awaited.bound == 0 || !a.onItsWay(ctx, hash) {
		return result, err
	}
	end := "refused"
	if a.awaited.requests.Add(1) <= maxWaits {
		result, end, err = a.await(ctx, hash)
	}
	a.awaited.requests.Add(-1)
	if end != "" {
		a.awaited.waits.WithLabelValues(end).Inc()
	}
	return result, err
}

func (a *API) onItsWay(ctx context.Context, hash common.Hash) bool {
	_, known := a.deps.Pool.Find(ctx, hash)
	return known
}

// await looks for a transaction that the mirror node did not have a moment ago, after each new block, or once a second.
func (a *API) await(ctx context.Context, hash common.Hash) (result *mirror.ContractResult, end string, err error) {
	waiting, cancel := context.WithTimeout(ctx, a.awaited.bound)
	defer cancel()
	newest, looked := uint64(0), time.Now()
	for sleep.For(waiting, lookInterval) {
		head, err := a.mirror.LatestBlock(waiting)
		isNew := err == nil && head.Number > newest
		if !isNew && time.Since(looked) < lookAgain {
			continue
		}
		if looked = time.Now(); isNew {
			newest = head.Number
		}
		a.awaited.looks <- struct{}{}
		result, err := a.mirror.ContractResult(waiting, hash)
		<-a.awaited.looks
		switch {
		case err == nil, errors.Is(err, mirror.ErrImmature), errors.Is(err, mirror.ErrNotFound) && !a.onItsWay(waiting, hash):
			return result, "answered", err
		} // other errors may pass
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	return nil, "late", mirror.ErrNotFound
}

// Collectors returns the metrics for registration.
func (a *API) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.awaited.waits, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lockstep_read_your_writes_waiting", Help: "Transactions that requests wait for.",
	}, func() float64 { return float64(a.awaited.requests.Load()) })}
}
