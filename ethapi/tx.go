package ethapi

import (
	"context"
	"errors"
	"math"

	"lockstep/internal/eth"
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
	if position > math.MaxInt32 {
		return nil, nil // no block has as many, and the mirror node refuses the number
	}
	query := mirror.ResultsQuery{Index: &position}
	if hash, ok := ref.Hash(); ok {
		query.BlockHash = &hash
	} else if number, ok := ref.Number(); ok {
		query.BlockNumber = &number
	} else {
		block, err := a.block(ctx, ref)
		if block == nil || err != nil {
			return nil, err
		}
		query.BlockNumber = &block.Number
	}
	result, err := a.mirror.ResultAt(ctx, query)
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if missing {
		return a.syntheticByIndex(ctx, ref, position)
	}
	return a.transaction(ctx, result)
}

// syntheticByIndex looks for a transaction among the logs of a block.
func (a *API) syntheticByIndex(ctx context.Context, ref eth.BlockRef, position uint64) (any, error) {
	block, err := a.block(ctx, ref)
	if block == nil || err != nil {
		return nil, err
	}
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
