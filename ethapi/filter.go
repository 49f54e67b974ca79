package ethapi

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/mirror"
	"lockstep/rpc"
)

// newFilter is eth_newFilter.
func (a *API) newFilter(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod
	}
	q, err := a.readLogQuery(p.At(0))
	if err != nil {
		return nil, err
	}
	f := &filter{query: &q}
	if q.blockHash == nil {
		head, err := a.headFor(ctx, q.from, q.to)
		if err != nil {
			return nil, err
		}
		if f.next, err = a.firstOf(ctx, &q, head); err != nil {
			return nil, err
		}
	}
	return a.addFilter(ctx, f)
}

// firstOf fixes the bounds of a filter: a tag means its present block. It returns the first block to tell of.
// That lies before the filter's creation only if the client named the first block.
func (a *API) firstOf(ctx context.Context, q *logQuery, head *mirror.Block) (uint64, error) {
	next := head.Number + 1
	first := head.Number
	if q.from != nil && !q.from.IsLatest() {
		var err error
		if first, err = a.number(ctx, *q.from, head); err != nil {
			return 0, err
		}
		next = first
	}
	from := eth.NumberRef(first)
	q.from = &from
	if q.to == nil || q.to.IsLatest() {
		q.to = nil // it grows with the chain
		return next, nil
	}
	last, err := a.number(ctx, *q.to, head)
	if err != nil {
		return 0, err
	}
	switch {
	case first <= last:
	case a.hiero():
		return 0, eth.ErrBlockRange
	default:
		return 0, eth.ErrReversedRange
	}
	to := eth.NumberRef(last)
	q.to = &to
	return next, nil
}

// newBlockFilter is eth_newBlockFilter.
func (a *API) newBlockFilter(ctx context.Context, _ *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod
	}
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	return a.addFilter(ctx, &filter{next: head.Number + 1})
}

// uninstallFilter is eth_uninstallFilter.
func (a *API) uninstallFilter(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod
	}
	existed, err := a.filters.Delete(ctx, filterID(p.Text(0)))
	if err != nil {
		return nil, a.filtersError(ctx, err)
	}
	return existed, nil
}

// getFilterLogs is eth_getFilterLogs: everything that matches, seen or not.
func (a *API) getFilterLogs(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod
	}
	f, err := a.useFilter(ctx, p.Text(0))
	if err != nil {
		return nil, err
	}
	if f.query == nil {
		return nil, eth.ErrFilterNotFound
	}
	return a.logs(ctx, *f.query)
}

// getFilterChanges is eth_getFilterChanges: what is new since the last poll.
func (a *API) getFilterChanges(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod
	}
	f, err := a.useFilter(ctx, p.Text(0))
	switch {
	case err != nil:
		return nil, err
	case f.query == nil:
		return a.newBlocks(ctx, f)
	case f.query.blockHash != nil:
		return a.oneBlockOnce(ctx, f)
	}
	return a.newLogs(ctx, f)
}

// newLogs reads from the cursor to the head, or as far as one query may go; the next
// poll continues there.
func (a *API) newLogs(ctx context.Context, f *filter) (any, error) {
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	last := head.Number
	if f.query.to != nil {
		to, _ := f.query.to.Number()
		last = min(last, to)
	}
	if f.next > last {
		return []*eth.Log{}, nil
	}
	last = min(last, f.next+a.cfg.LogsBlockRange)
	logs, err := a.rangeLogs(ctx, *f.query, f.next, last, head)
	if err != nil {
		return nil, err
	}
	if moved, err := a.polled(ctx, f, last+1); !moved {
		return []*eth.Log{}, err
	}
	return logs, nil
}

// oneBlockOnce returns the logs of a block that was named by its hash at the first
// poll after the block is known.
func (a *API) oneBlockOnce(ctx context.Context, f *filter) (any, error) {
	if f.next != 0 {
		return []*eth.Log{}, nil
	}
	logs, err := a.logs(ctx, *f.query)
	if err != nil {
		return nil, err
	}
	if len(logs) == 0 {
		return logs, nil
	}
	if moved, err := a.polled(ctx, f, 1); !moved {
		return []*eth.Log{}, err
	}
	return logs, nil
}

// newBlocks lists the hashes of the blocks since the cursor.
func (a *API) newBlocks(ctx context.Context, f *filter) (any, error) {
	const most = 1000
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	hashes := []common.Hash{}
	if f.next > head.Number {
		return hashes, nil
	}
	last := min(head.Number, f.next+most-1)
	for block, err := range a.mirror.Blocks(ctx, f.next, last) {
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, block.Hash)
	}
	if moved, err := a.polled(ctx, f, last+1); !moved {
		return []common.Hash{}, err
	}
	return hashes, nil
}
