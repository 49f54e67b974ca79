package ethapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror"
	"lockstep/rpc"
)

const (
	maxTopics       = 4
	maxAlternatives = 100  // of a topic; the mirror node takes no more
	maxAddresses    = 1000 // each costs a request of its own
	maxLogsSeconds  = 604_800
)

// logQuery is a filter object, read.
type logQuery struct {
	blockHash *common.Hash
	from, to  *eth.BlockRef // nil: absent
	addresses []common.Address
	topics    topicQuery
}

// topicQuery says which topics a log must have, by position.
type topicQuery struct {
	at    [maxTopics][]common.Hash // none: any
	named int                      // positions that the client wrote, also those that match any topic
}

// fits tells whether a log has a topic at each position that the client wrote. Ethereum's nodes require that even
// where any topic matches. For the TypeScript relay such a position also matches a missing topic.
func (q *topicQuery) fits(l *eth.Log) bool { return len(l.Topics) >= q.named }

// readLogQuery reads a filter object that its rule has accepted. null counts as
// absent everywhere: as a bound, as the addresses, and as a wildcard among topics.
func (a *API) readLogQuery(v jsonx.Value) (q logQuery, err error) {
	if hash := v.Field("blockHash"); hash.Given() {
		h := hashOf(hash)
		q.blockHash = &h
	}
	if q.from, err = bound(v.Field("fromBlock")); err != nil {
		return q, err
	}
	if q.to, err = bound(v.Field("toBlock")); err != nil {
		return q, err
	}
	if q.addresses, err = readAddresses(v.Field("address")); err != nil {
		return q, err
	}
	q.topics, err = a.readTopics(v.Field("topics"))
	return q, err
}

func bound(v jsonx.Value) (*eth.BlockRef, error) {
	if !v.Given() {
		return nil, nil
	}
	ref, err := blockRef(v)
	return &ref, err
}

// readAddresses reads one address or a list, without repetitions. An empty list is
// any address.
func readAddresses(v jsonx.Value) ([]common.Address, error) {
	addresses := distinctAddresses(v)
	if len(addresses) > maxAddresses {
		return nil, eth.ErrInvalidParam(0, "exceed max addresses: %d of at most %d", len(addresses), maxAddresses)
	}
	return addresses, nil
}

func distinctAddresses(v jsonx.Value) (addresses []common.Address) {
	seen := make(map[common.Address]bool)
	var add func(v jsonx.Value)
	add = func(v jsonx.Value) {
		if v.IsArray() {
			for e := range v.Elements() {
				add(e)
			}
			return
		}
		if address := addressOf(v); v.Given() && !seen[address] {
			seen[address] = true
			addresses = append(addresses, address)
		}
	}
	add(v)
	return addresses
}

// readTopics reads topics by position: null and an empty list match anything, a list
// matches any of its elements.
func (a *API) readTopics(v jsonx.Value) (q topicQuery, err error) {
	i := 0
	for position := range v.Elements() {
		if i >= maxTopics {
			return q, eth.ErrInvalidParam(0, "exceed max topics: at most %d", maxTopics)
		}
		if position.IsArray() {
			if q.at[i] = alternatives(position); len(q.at[i]) > maxAlternatives {
				return q, eth.ErrInvalidParam(i, "Topic %d exceeds maximum nested length of %d", i, maxAlternatives)
			}
		} else if position.Given() {
			q.at[i] = []common.Hash{hashOf(position)}
		}
		i++
	}
	if !a.hiero() {
		q.named = i
	}
	return q, nil
}

// alternatives reads a list of topics. A null among them makes it match anything.
func alternatives(list jsonx.Value) (topics []common.Hash) {
	for e := range list.Elements() {
		if !e.Given() {
			return nil
		}
		topics = append(topics, hashOf(e))
	}
	return topics
}

// getLogs is eth_getLogs.
func (a *API) getLogs(ctx context.Context, p *rpc.Params) (any, error) {
	q, err := a.readLogQuery(p.At(0))
	if err != nil {
		return nil, err
	}
	if q.blockHash == nil || a.hiero() {
		return a.logs(ctx, q)
	}
	// A client that asks by hash wants to know whether that block still exists (EIP-234).
	switch block, err := a.block(ctx, eth.HashRef(*q.blockHash)); {
	case err != nil:
		return nil, err
	case block == nil:
		return nil, eth.ErrUnknownBlock
	default:
		return a.blockLogs(ctx, block, q)
	}
}

// logs runs a query. The result is never nil.
func (a *API) logs(ctx context.Context, q logQuery) ([]*eth.Log, error) {
	if q.blockHash != nil {
		block, err := a.block(ctx, eth.HashRef(*q.blockHash))
		if block == nil || err != nil {
			return []*eth.Log{}, err
		}
		return a.blockLogs(ctx, block, q)
	}
	head, err := a.headFor(ctx, q.from, q.to)
	if err != nil {
		return nil, err
	}
	first, last, err := a.bounds(ctx, q, head)
	switch {
	case err != nil:
		return nil, err
	case !a.hiero():
		err = judgeRange(&q, first, last, head.Number)
	case last > head.Number+a.cfg.MaxBlockRange, first > head.Number:
		return []*eth.Log{}, nil // the TypeScript relay finds no such block
	case first > last:
		err = eth.ErrBlockRange
	}
	if err != nil {
		return nil, err
	}
	return a.rangeLogs(ctx, q, first, min(last, head.Number), head)
}

// judgeRange refuses a range that is not on the chain yet, as execution-apis asks: an empty answer, or half of one, would pass
// for all that there is. A range that begins after its end says so, wherever the head is; but one that was left open at its
// end, and begins with the next block, is only too early.
func judgeRange(q *logQuery, first, last, head uint64) error {
	closed := false
	if q.to != nil {
		_, closed = q.to.Number()
	}
	switch newest := max(first, last); {
	case first > last && (closed || newest <= head):
		return eth.ErrReversedRange
	case newest > head:
		return eth.ErrRangeBeyondHead(newest, head)
	}
	return nil
}

// bounds returns the block numbers that a query names; both may be beyond the head.
func (a *API) bounds(ctx context.Context, q logQuery, head *mirror.Block) (first, last uint64, err error) {
	first, last = head.Number, head.Number
	if q.to != nil {
		if last, err = a.number(ctx, *q.to, head); err != nil {
			return 0, 0, err
		}
	}
	if q.from != nil {
		first, err = a.number(ctx, *q.from, head)
	} else if last != head.Number && a.hiero() {
		err = eth.ErrMissingFromBlock
	}
	return first, last, err
}

// rangeLogs reads the logs from first to last, which is not beyond the head.
func (a *API) rangeLogs(ctx context.Context, q logQuery, first, last uint64, head *mirror.Block) ([]*eth.Log, error) {
	if last-first > a.cfg.LogsBlockRange && len(q.addresses) != 1 {
		return nil, eth.ErrRangeTooLarge(int(a.cfg.LogsBlockRange))
	}
	ends := []uint64{first, last}
	if first == last {
		ends = ends[:1]
	}
	if err := a.mirror.Preload(ctx, first, last); err != nil {
		return nil, err
	}
	blocks := make([]*mirror.Block, len(ends))
	var unknown []int
	for i, number := range ends {
		if blocks[i] = head; number == head.Number {
			continue
		}
		var ok bool
		if blocks[i], ok = a.mirror.CachedBlock(number); !ok {
			unknown = append(unknown, i)
		}
	}
	err := each(ctx, a.cfg.Concurrency, unknown, func(ctx context.Context, _, i int) (err error) {
		blocks[i], err = a.block(ctx, eth.NumberRef(ends[i]))
		return err
	})
	from, to := blocks[0], blocks[len(blocks)-1]
	switch {
	case err != nil:
		return nil, err
	case to == nil:
		return []*eth.Log{}, nil // before the mirror node's first block
	case from == nil:
		if from, err = a.mirror.EarliestBlock(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case from == to:
		return a.blockLogs(ctx, from, q)
	case to.From.Seconds-from.From.Seconds > maxLogsSeconds:
		return nil, eth.ErrTimestampRange(hexutil.EncodeUint64(first), from.From.String(), hexutil.EncodeUint64(last), to.From.String())
	}
	period := mirror.Period{From: from.From, To: to.To}
	logs, err := a.perAddress(ctx, q, func(ctx context.Context, part mirror.LogsQuery) ([]*mirror.Log, error) {
		part.Period, part.FirstBlock = period, first
		return a.mirror.Logs(ctx, part)
	})
	if err != nil {
		return nil, err
	}
	for number := last; ; number-- {
		block, ok := a.mirror.CachedBlock(number)
		if !ok || block.Settled() {
			return logs, nil
		}
		if logs, err = a.complete(ctx, q, block, logs); err != nil || number == first {
			return logs, err
		}
	}
}

// complete adds to an answer what it lacks of a recent block. If the block's bloom matches the query and there is no
// log of it in the answer, either the bloom matches by chance, or the answer came from a mirror node that lags behind the
// one that told of the block. All logs of the block say which, and are kept for the next query.
func (a *API) complete(ctx context.Context, q logQuery, block *mirror.Block, logs []*eth.Log) ([]*eth.Log, error) {
	if !q.mayMatch(block) || slices.ContainsFunc(logs, func(l *eth.Log) bool { return uint64(l.BlockNumber) == block.Number }) {
		return logs, nil
	}
	all, err := a.mirror.BlockLogs(ctx, block, mirror.LogsQuery{})
	if err != nil {
		return nil, err
	}
	wanted := newLogFilter(q.addresses, nil, q.topics)
	lacking := slices.DeleteFunc(buildLogs(all), func(l *eth.Log) bool { return !wanted.matches(l) })
	if len(all) == 0 || len(lacking) > 0 && !block.HasAll(all) {
		return nil, mirror.ErrImmature
	}
	logs = append(logs, lacking...)
	slices.SortStableFunc(logs, byPlace)
	return logs, nil
}

// mayMatch tells whether the query can have a log in a block, as far as the block's bloom says.
func (q *logQuery) mayMatch(block *mirror.Block) bool {
	if !block.HasLogs() || len(block.Bloom) != types.BloomByteLength {
		return false
	}
	bloom := types.BytesToBloom(block.Bloom)
	if len(q.addresses) > 0 && !slices.ContainsFunc(q.addresses, func(a common.Address) bool { return bloom.Test(a[:]) }) {
		return false
	}
	for _, topics := range q.topics.at {
		if len(topics) > 0 && !slices.ContainsFunc(topics, func(t common.Hash) bool { return bloom.Test(t[:]) }) {
			return false
		}
	}
	return true
}

// blockLogs reads the logs of one block.
func (a *API) blockLogs(ctx context.Context, block *mirror.Block, q logQuery) ([]*eth.Log, error) {
	logs, err := a.perAddress(ctx, q, func(ctx context.Context, part mirror.LogsQuery) ([]*mirror.Log, error) {
		return a.mirror.BlockLogs(ctx, block, part)
	})
	if err == nil && !block.Settled() {
		logs, err = a.complete(ctx, q, block, logs)
	}
	return logs, err
}

// perAddress reads logs once for each address of a query, or once for any address, and sorts them.
func (a *API) perAddress(ctx context.Context, q logQuery, read func(context.Context, mirror.LogsQuery) ([]*mirror.Log, error)) ([]*eth.Log, error) {
	parts := []mirror.LogsQuery{{Topics: q.topics.at}}
	if len(q.addresses) > 0 {
		parts = parts[:0]
	}
	for i := range q.addresses {
		if q.addresses[i] != (common.Address{}) { // no contract can have the zero address
			parts = append(parts, mirror.LogsQuery{Topics: q.topics.at, Address: &q.addresses[i]})
		}
	}
	found := make([][]*mirror.Log, len(parts))
	err := each(ctx, a.cfg.Concurrency, parts, func(ctx context.Context, i int, part mirror.LogsQuery) (err error) {
		found[i], err = read(ctx, part)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := holdLogs(capacity.FromContext(ctx), found); err != nil {
		return nil, err
	}
	logs := slices.DeleteFunc(buildLogs(slices.Concat(found...)), func(l *eth.Log) bool { return !q.topics.fits(l) })
	if !slices.IsSortedFunc(logs, byPlace) {
		slices.SortStableFunc(logs, byPlace)
	}
	// A contract has two addresses, and a query may name both.
	return slices.CompactFunc(logs, func(a, b *eth.Log) bool { return byPlace(a, b) == 0 }), nil
}

// holdLogs counts the lists of an answer's logs. The logs themselves are counted where they are read.
func holdLogs(holding *capacity.Holding, found [][]*mirror.Log) error {
	const perLog = 64
	bytes := 0
	for _, part := range found {
		bytes += perLog * len(part)
	}
	return holding.Take(bytes)
}

// byPlace compares logs by their place in the chain.
func byPlace(a, b *eth.Log) int {
	if a.BlockNumber != b.BlockNumber {
		return cmp.Compare(a.BlockNumber, b.BlockNumber)
	}
	return cmp.Compare(a.Index, b.Index)
}
