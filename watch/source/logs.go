package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// errRefused means that an endpoint answered a query with an error of its own: often a limit, in whatever words.
var errRefused = errors.New("the endpoint refuses the query")

// LogsOfBlock returns the logs of one block in their order. ErrNotFound means that no endpoint has that block: it may
// have been replaced by another.
func (p *Pool) LogsOfBlock(ctx context.Context, b Block, q Query) ([]Log, error) {
	if len(q.Addresses) == 0 {
		return nil, nil
	}
	at := window{hash: &b.Hash, from: b.Number, to: b.Number}
	return p.confirmed(ctx, q, func(ctx context.Context, e *endpoint) (answer, error) {
		a, err := p.query(ctx, e, at, q)
		if errors.Is(err, errRefused) { // most nodes call a block that they do not have an error
			if _, missing := p.single(ctx, e, "eth_getBlockByHash", b.Hash, false); errors.Is(missing, ErrNotFound) {
				return answer{}, ErrNotFound
			}
		}
		return a, err
	})
}

// LogsOfRange returns the logs of the blocks from one to another, as far as one call gets: last is the last block that is
// covered. Only blocks that cannot be replaced any more may be asked so.
func (p *Pool) LogsOfRange(ctx context.Context, from, to uint64, q Query) (logs []Log, last Block, err error) {
	if len(q.Addresses) == 0 {
		last, err = p.Block(ctx, to)
		return nil, last, err
	}
	logs, err = p.confirmed(ctx, q, func(ctx context.Context, e *endpoint) (answer, error) {
		a, err := p.shrinking(ctx, e, from, to, q)
		if err == nil {
			to = min(to, a.last.Number) // a second opinion covers the same blocks
			last = a.last
		}
		return a, err
	})
	return logs, last, err
}

// confirmed asks one endpoint, and others too where its answer could be empty for a wrong reason.
func (p *Pool) confirmed(ctx context.Context, q Query, do func(context.Context, *endpoint) (answer, error)) ([]Log, error) {
	var best *answer
	var failures []error
	missing := 0
	for _, e := range p.inOrder() {
		var a answer
		err := p.checked(ctx, e, func(ctx context.Context, e *endpoint) (err error) {
			a, err = do(ctx, e)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrNotFound):
			missing++
			continue
		case err != nil:
			e.failed()
			failures = append(failures, e.named(err))
			continue
		}
		e.succeeded()
		if best != nil && len(a.logs) == 0 {
			return nil, nil // two endpoints say that there is nothing
		}
		if len(a.logs) > 0 || !a.doubtful(q) {
			return a.logs, nil
		}
		best = &a
	}
	switch {
	case best != nil:
		return nil, nil // its head is past the blocks, and nobody else can be asked now
	case missing == len(p.endpoints):
		return nil, ErrNotFound
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(failures...))
	}
}

// window is the blocks of a query: one by its hash, or a range.
type window struct {
	hash     *common.Hash
	from, to uint64
}

// answer is what one endpoint said.
type answer struct {
	logs   []Log
	last   Block
	header *header // of the block, if it was one
}

// doubtful tells whether an empty answer needs a second opinion.
func (a answer) doubtful(q Query) bool {
	switch {
	case a.header == nil:
		return true
	case len(a.header.Transactions) == 0:
		return false
	case a.header.Bloom == (types.Bloom{}): // some chains leave the filter empty: it proves nothing there
		return true
	case !slices.ContainsFunc(q.Events, func(h common.Hash) bool { return a.header.Bloom.Test(h[:]) }):
		return false
	}
	for address := range q.Addresses {
		if a.header.Bloom.Test(address[:]) {
			return true
		}
	}
	return false
}

// shrinking asks for a range, and for less of it as long as the endpoint refuses.
func (p *Pool) shrinking(ctx context.Context, e *endpoint, from, to uint64, q Query) (answer, error) {
	for {
		e.mu.Lock()
		span := e.span
		e.mu.Unlock()
		end := min(to, from+span-1)
		a, err := p.query(ctx, e, window{from: from, to: end}, q)
		switch {
		case err == nil:
			if end-from+1 == span {
				e.setSpan(min(span+span/2+1, p.cfg.MaxSpan))
			}
			return a, nil
		case ctx.Err() == nil && end > from && limits(err):
			e.setSpan((end - from + 1) / 2)
		default:
			if errors.Is(err, context.DeadlineExceeded) { // the next attempt asks for less
				e.setSpan((end - from + 1) / 2)
			}
			return answer{}, err
		}
	}
}

// limits tells whether a shorter range may succeed.
func limits(err error) bool {
	var status rpc.HTTPError
	return errors.Is(err, errRefused) || errors.Is(err, errTooLong) ||
		(errors.As(err, &status) && status.StatusCode != 401 && status.StatusCode != 403 && status.StatusCode != 429)
}

func (e *endpoint) setSpan(span uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.span = max(span, 1)
}

// rawLog is a log on the wire.
type rawLog struct {
	Address     common.Address  `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	BlockHash   *common.Hash    `json:"blockHash"`
	TxHash      common.Hash     `json:"transactionHash"`
	Index       hexutil.Uint64  `json:"logIndex"`
	Time        hexutil.Uint64  `json:"blockTimestamp"`
	Removed     bool            `json:"removed"`
}

// query asks one endpoint for the logs of a window, together with the header of its last block.
func (p *Pool) query(ctx context.Context, e *endpoint, w window, q Query) (answer, error) {
	most := maxLists
	if w.hash != nil {
		most = maxListsOfBlock
	}
	lists := addressLists(q.Addresses, most)
	pages := make([][]rawLog, len(lists))
	var last *header
	calls := make([]rpc.BatchElem, 0, len(lists)+1)
	for i, list := range lists {
		calls = append(calls, rpc.BatchElem{Method: "eth_getLogs", Args: []any{w.filter(list, q.Events)}, Result: &pages[i]})
	}
	if w.hash != nil {
		calls = append(calls, rpc.BatchElem{Method: "eth_getBlockByHash", Args: []any{*w.hash, false}, Result: &last})
	} else {
		calls = append(calls, rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(w.to), false}, Result: &last})
	}
	if err := p.batch(ctx, e, calls); err != nil {
		return answer{}, err
	}
	for _, c := range calls {
		if c.Error != nil {
			return answer{}, fmt.Errorf("%w: %s: %w", errRefused, c.Method, c.Error)
		}
	}
	if !last.there() {
		return answer{}, ErrNotFound
	}
	a := answer{last: last.block()}
	if w.hash != nil {
		a.header = last
	}
	for _, page := range pages {
		for i := range page {
			log, wanted, err := w.accept(&page[i], q)
			if err != nil {
				return answer{}, err
			}
			if wanted {
				a.logs = append(a.logs, log)
			}
		}
	}
	slices.SortFunc(a.logs, func(x, y Log) int {
		if x.BlockNumber != y.BlockNumber {
			return int(int64(x.BlockNumber - y.BlockNumber))
		}
		return int(int64(x.Index - y.Index))
	})
	return a, nil
}

// accept checks that a log belongs to what was asked.
func (w window) accept(r *rawLog, q Query) (log Log, wanted bool, err error) {
	if r.Removed {
		return Log{}, false, nil
	}
	switch {
	case r.BlockNumber == nil || r.BlockHash == nil:
		return Log{}, false, errors.New("a log without a block")
	case uint64(*r.BlockNumber) < w.from || uint64(*r.BlockNumber) > w.to, w.hash != nil && *r.BlockHash != *w.hash:
		return Log{}, false, errors.New("a log of another block than was asked for")
	}
	if _, ours := q.Addresses[r.Address]; !ours || len(r.Topics) == 0 || !slices.Contains(q.Events, r.Topics[0]) {
		return Log{}, false, nil
	}
	return Log{
		Address: r.Address, Topics: r.Topics, Data: r.Data, BlockNumber: uint64(*r.BlockNumber),
		BlockHash: *r.BlockHash, TxHash: r.TxHash, Index: uint64(r.Index), Time: uint64(r.Time),
	}, true, nil
}

// addressLists cuts addresses into the lists that queries name; one nil list if they are too many.
func addressLists(set map[common.Address]struct{}, most int) [][]common.Address {
	if len(set) > addressesPerCall*most {
		return [][]common.Address{nil}
	}
	all := slices.SortedFunc(maps.Keys(set), func(a, b common.Address) int { return bytes.Compare(a[:], b[:]) })
	return slices.Collect(slices.Chunk(all, addressesPerCall))
}

func (w window) filter(addresses []common.Address, events []common.Hash) map[string]any {
	f := map[string]any{"topics": [][]common.Hash{events}}
	if addresses != nil {
		f["address"] = addresses
	}
	if w.hash != nil {
		f["blockHash"] = *w.hash
	} else {
		f["fromBlock"], f["toBlock"] = hexutil.Uint64(w.from), hexutil.Uint64(w.to)
	}
	return f
}
