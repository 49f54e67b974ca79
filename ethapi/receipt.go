package ethapi

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/mirror"
	"lockstep/rpc"
)

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
	return a.receipt(ctx, result)
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
	results, err := a.mirror.BlockResultsByNumber(ctx, *result.BlockNumber)
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		if *r.Index <= *result.Index {
			sum += r.GasUsed
		}
	}
	return sum, nil
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
		t.run(func() error {
			results, err := a.mirror.BlockResultsByNumber(ctx, uint64(logs[0].BlockNumber))
			for _, r := range results {
				if *r.Index < uint64(logs[0].TxIndex) {
					cumulative += r.GasUsed
				}
			}
			return err
		})
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	receipt := b.syntheticReceipt(buildLogs(logs), cumulative)
	receipt.From = from
	return receipt, nil
}
