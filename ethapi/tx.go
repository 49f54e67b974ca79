package ethapi

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/eth"
	"lockstep/internal/sleep"
	"lockstep/mirror"
	"lockstep/rpc"
)

// getTransactionByHash is eth_getTransactionByHash. A transaction that never ran is null. One that is not in a
// block yet is shown without a block to clients of Ethereum; for those of Hedera it is null.
func (a *API) getTransactionByHash(ctx context.Context, p *rpc.Params) (any, error) {
	hash := hashOf(p.At(0))
	look := a.result
	if a.deps.Profile == rpc.ProfileEthereum {
		look = a.mirror.ContractResult
	}
	result, err := look(ctx, hash)
	if errors.Is(err, mirror.ErrImmature) {
		return nil, nil
	}
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if missing {
		if found, err := a.syntheticByHash(ctx, mirror.LogsQuery{Transaction: &hash}); found != nil || err != nil {
			return found, err
		}
		return a.pendingByHash(ctx, hash), nil
	}
	if !result.Complete() {
		return nil, nil
	}
	a.seen(hash)
	return a.transaction(ctx, result)
}

// transaction builds the transaction of a complete result.
func (a *API) transaction(ctx context.Context, result *mirror.ContractResult) (any, error) {
	b := a.builder()
	var err error
	if !b.hiero && pricedByNetwork(result) {
		if b.price, err = a.priceAt(ctx, result.Timestamp); err != nil {
			return nil, err
		}
	}
	t := b.transaction(result)
	if t == nil {
		return nil, nil
	}
	a.learnSenders(t)
	if err := a.aliases(ctx, addressesOf(&t.From, &t.To)...); err != nil {
		return nil, err
	}
	return t, nil
}

// pricedByNetwork tells whether a transaction shows the price that it paid instead of the one that it named.
func pricedByNetwork(r *mirror.ContractResult) bool { return r.Type != nil && *r.Type >= 2 }

// syntheticByHash builds the transaction of which only logs are known, or nothing.
func (a *API) syntheticByHash(ctx context.Context, q mirror.LogsQuery) (any, error) {
	logs, err := a.mirror.Logs(ctx, q)
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	return a.synthetic(ctx, logs[0])
}

// synthetic builds a synthetic transaction from its first event.
func (a *API) synthetic(ctx context.Context, first *mirror.Log) (tx *eth.Transaction, err error) {
	b := a.builder()
	tx = b.syntheticTransaction(&first.Log)
	tx.From, err = a.payerOf(ctx, first)
	return tx, err
}

// getTransactionByBlock is eth_getTransactionByBlockNumberAndIndex and
// …ByBlockHashAndIndex.
func (a *API) getTransactionByBlock(ctx context.Context, p *rpc.Params) (any, error) {
	position, err := index(p.At(1), 1)
	if err != nil {
		return nil, err
	}
	ref, err := blockRef(p.At(0))
	if err != nil {
		return nil, err
	}
	block, err := a.block(ctx, ref)
	if block == nil || err != nil {
		return nil, err
	}
	results, err := a.mirror.BlockResults(ctx, block)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if *r.Index == position {
			return a.transaction(ctx, r)
		}
	}
	return a.syntheticByIndex(ctx, block, position)
}

// syntheticByIndex looks for a transaction among the logs of a block.
func (a *API) syntheticByIndex(ctx context.Context, block *mirror.Block, position uint64) (any, error) {
	logs, err := a.mirror.BlockLogs(ctx, block, mirror.LogsQuery{})
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		if uint64(l.TxIndex) == position {
			return a.synthetic(ctx, l)
		}
	}
	return nil, nil
}

// getTransactionReceipt is eth_getTransactionReceipt. A transaction that the network refused before it ran never
// has one: the answer is an error that says so.
func (a *API) getTransactionReceipt(ctx context.Context, p *rpc.Params) (any, error) {
	return a.receiptOf(ctx, hashOf(p.At(0)))
}

func (a *API) receiptOf(ctx context.Context, hash common.Hash) (any, error) {
	result, err := a.result(ctx, hash)
	if errors.Is(err, mirror.ErrImmature) {
		return nil, nil // it is on its way
	}
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if missing {
		receipt, err := a.syntheticReceiptOf(ctx, hash)
		if receipt == nil && err == nil {
			err = a.whyNoReceipt(ctx, hash)
		}
		return receipt, err
	}
	if !result.Complete() {
		return nil, a.refusal(ctx, hash, result)
	}
	a.seen(hash)
	receipt, err := a.receipt(ctx, result)
	if errors.Is(err, mirror.ErrImmature) {
		return nil, nil // its block is
	}
	return receipt, err
}

// receipt builds the receipt of a complete result.
func (a *API) receipt(ctx context.Context, result *mirror.ContractResult) (any, error) {
	b := a.builder()
	cumulative := result.GasUsed
	from, to := result.From, receiver(result)
	addresses := addressesOf(&from, &to)
	a.learnSenders(b.transaction(result))

	t, ctx := parallel(ctx, 3)
	t.run(func() (err error) { b.price, err = a.priceAt(ctx, result.Timestamp); return err })
	t.run(func() error { return a.aliases(ctx, addresses...) })
	if *result.Index > 0 {
		t.run(func() (err error) { cumulative, err = a.gasUntil(ctx, result); return err })
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	receipt := b.receipt(result, resultLogs(result), cumulative)
	receipt.From, receipt.To = from, to
	return receipt, nil
}

// gasUntil adds up the gas of a block's transactions up to and including one.
func (a *API) gasUntil(ctx context.Context, result *mirror.ContractResult) (sum uint64, err error) {
	results, err := a.mirror.BlockResultsOf(ctx, result)
	if err != nil {
		return 0, err
	}
	listed := false
	for _, r := range results {
		if *r.Index <= *result.Index {
			sum += r.GasUsed
		}
		listed = listed || *r.Index == *result.Index
	}
	if !listed { // nor need those before it be
		return 0, mirror.ErrImmature
	}
	return sum, nil
}

// gasBefore adds up the gas of a block's transactions before a synthetic one.
func (a *API) gasBefore(ctx context.Context, first *mirror.Log) (sum uint64, err error) {
	results, err := a.mirror.ResultsOfBlock(ctx, uint64(first.BlockNumber))
	for _, r := range results {
		if *r.Index < uint64(first.TxIndex) {
			sum += r.GasUsed
		}
	}
	return sum, err
}

// syntheticReceiptOf builds the receipt of a transaction of which only logs are
// known, or nothing.
func (a *API) syntheticReceiptOf(ctx context.Context, hash common.Hash) (any, error) {
	logs, err := a.mirror.Logs(ctx, mirror.LogsQuery{Transaction: &hash})
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	b := a.builder()
	var cumulative uint64
	var from common.Address
	t, ctx := parallel(ctx, 3)
	t.run(func() (err error) { from, err = a.payerOf(ctx, logs[0]); return err })
	t.run(func() (err error) { b.price, err = a.priceAt(ctx, logs[0].Timestamp); return err })
	if logs[0].TxIndex > 0 {
		t.run(func() (err error) { cumulative, err = a.gasBefore(ctx, logs[0]); return err })
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	receipt := b.syntheticReceipt(buildLogs(logs), cumulative)
	receipt.From = from
	return receipt, nil
}

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
	newest, looked, last := uint64(0), time.Now(), mirror.ErrNotFound
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
		case waiting.Err() == nil:
			last = err // it may pass
		}
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	return nil, "late", last
}

// Collectors returns the metrics for registration.
func (a *API) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.awaited.waits, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lockstep_read_your_writes_waiting", Help: "Transactions that requests wait for.",
	}, func() float64 { return float64(a.awaited.requests.Load()) })}
}
