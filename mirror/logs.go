package mirror

import (
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// Log is an event of a contract or of a token in the form that clients see.
type Log struct {
	eth.Log
	Timestamp hedera.Timestamp
	complete  bool
}

func (l *Log) setTime(t hedera.Timestamp) { l.Timestamp, l.BlockTime = t, hexutil.Uint64(t.Seconds) }

// logText is a log as the mirror node writes it. Inside a contract result it has no block of its own.
type logText struct {
	Address     common.Address   `json:"address"`
	Data        []byte           `json:"data"`
	Topics      []common.Hash    `json:"topics"`
	Index       *uint64          `json:"index"`
	TxHash      common.Hash      `json:"transaction_hash,omitzero"`
	TxIndex     *uint64          `json:"transaction_index,omitzero"`
	BlockHash   common.Hash      `json:"block_hash,omitzero"`
	BlockNumber *uint64          `json:"block_number,omitzero"`
	Timestamp   hedera.Timestamp `json:"timestamp"`
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *Log) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v logText
	if err := json.UnmarshalDecode(d, &v); err != nil {
		return err
	}
	*l = Log{Log: eth.Log{Address: v.Address, Data: v.Data, Topics: v.Topics, TxHash: v.TxHash, BlockHash: v.BlockHash}}
	if l.Topics == nil {
		l.Topics = []common.Hash{}
	}
	l.setTime(v.Timestamp)
	l.complete = l.BlockHash != (common.Hash{})
	for _, n := range []struct{ to, from *uint64 }{
		{(*uint64)(&l.Index), v.Index}, {(*uint64)(&l.TxIndex), v.TxIndex}, {(*uint64)(&l.BlockNumber), v.BlockNumber},
	} {
		if n.from == nil {
			l.complete = false
		} else {
			*n.to = *n.from
		}
	}
	return nil
}

// MarshalJSONTo implements json.MarshalerTo.
func (l *Log) MarshalJSONTo(e *jsontext.Encoder) error {
	v := logText{Address: l.Address, Data: l.Data, Topics: l.Topics, Index: (*uint64)(&l.Index), TxHash: l.TxHash, BlockHash: l.BlockHash, Timestamp: l.Timestamp}
	if l.complete {
		v.TxIndex, v.BlockNumber = (*uint64)(&l.TxIndex), (*uint64)(&l.BlockNumber)
	}
	return json.MarshalEncode(e, &v)
}

func (l *Log) newest() uint64 {
	if l.complete {
		return uint64(l.BlockNumber)
	}
	return 0
}

// LogsQuery selects logs. A topic search needs a period, no longer than seven days.
type LogsQuery struct {
	Address *common.Address // nil: of all contracts
	Period  Period
	// Topics by position: a log matches if each position is empty or names the
	// log's topic there.
	Topics      [4][]common.Hash
	Transaction *common.Hash // nil: of all transactions; not together with Address
	// SingleBlock says that the period is one block, which allows more pages.
	SingleBlock bool
	// FirstBlock is the number of the first block in the period, or less. No log in the answer is older than that
	// block's first log.
	FirstBlock uint64
}

func (c *Client) logsPath(q LogsQuery) string {
	var b query
	if q.Transaction != nil {
		b.add("transaction.hash", q.Transaction.Hex())
	}
	q.Period.add(&b)
	names := [4]string{"topic0", "topic1", "topic2", "topic3"}
	for i, topics := range q.Topics {
		for _, topic := range topics {
			b.add(names[i], shortHex(topic))
		}
	}
	b.page(c, Descending)
	if q.Address != nil {
		return "contracts/" + lowerHex(*q.Address) + "/results/logs" + b.String()
	}
	return "contracts/results/logs" + b.String()
}

// shortHex is a topic without leading zeros, as the mirror node compares them.
func shortHex(topic common.Hash) string { return hexutil.EncodeBig(topic.Big())[2:] }

// Logs returns logs in the order of their blocks. It waits for incomplete records and gives up with ErrImmature.
//
// They are read from the newest to the oldest. A full page always links to another one. A log's index is its
// place among all logs of its block. So when a page ends with the first log of the first block, the other page
// must be empty.
func (c *Client) Logs(ctx context.Context, q LogsQuery) ([]*Log, error) {
	l := list[Log]{
		label: "contracts/results/logs", path: c.logsPath(q), member: "logs",
		maxPages: c.config.MaxLogPages,
	}
	if q.Address != nil {
		l.label = "contracts/{id}/results/logs"
	}
	if q.SingleBlock {
		l.maxPages, l.exists = c.config.MaxBlockLogPages, q.Address == nil
	}
	logs := []*Log{}
	err := c.untilMature(ctx, func(ctx context.Context) (bool, error) {
		logs = logs[:0]
		for log, err := range l.items(ctx, c) {
			if err != nil {
				return false, err
			}
			if !log.complete {
				return false, nil
			}
			logs = append(logs, log)
			if log.Index == 0 && uint64(log.BlockNumber) <= q.FirstBlock {
				break
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(logs)
	if len(logs) > 0 {
		c.observe(uint64(logs[len(logs)-1].BlockNumber))
	}
	return logs, nil
}

// BlockLogs is Logs of one block, read in parts when the block is large. Only the
// address and the topics of q select. All logs of a new block are asked for again while there are none and its bloom shows
// some. The slice and what it points to are shared; it is nil if the mirror node has no list, not even an empty one.
func (c *Client) BlockLogs(ctx context.Context, block *Block, q LogsQuery) ([]*Log, error) {
	all := q.Address == nil && q.selectsNoTopic()
	if logs, ok := c.logs.get(block.Number); ok && all {
		return logs, hold(ctx, weightOf(logs))
	}
	if all {
		if logs := stored[[]*Log](ctx, c, kindLogs, decimal(block.Number)); logs != nil {
			c.logs.put(block.Number, *logs, weightOf(*logs))
			return *logs, hold(ctx, weightOf(*logs))
		}
	}
	var logs []*Log
	missing := false
	err := c.untilMature(ctx, func(ctx context.Context) (enough bool, err error) {
		logs, err = sliced(ctx, c, block, func(ctx context.Context, slice Period) ([]*Log, error) {
			q := q
			q.Period, q.SingleBlock, q.FirstBlock = slice, true, block.Number
			return c.Logs(ctx, q)
		})
		missing = err != nil // the list may exist later
		return !all || len(logs) > 0 || !block.HasLogs() || block.Settled(), absent(err)
	})
	if err != nil {
		return nil, err
	}
	if !all || missing || !block.HasAll(logs) {
		return logs, nil
	}
	c.logs.put(block.Number, logs, weightOf(logs))
	store(c, kindLogs, decimal(block.Number), &logs)
	return logs, nil
}

// HasAll tells whether logs are all those that the block's bloom shows. A part of them, or none, comes from a mirror node that
// lags behind the one that told of the block.
func (b *Block) HasAll(logs []*Log) bool {
	if !b.HasLogs() || len(b.Bloom) != types.BloomByteLength {
		return !b.HasLogs()
	}
	var shown types.Bloom
	for _, l := range logs {
		shown.Add(l.Address[:])
		for _, topic := range l.Topics {
			shown.Add(topic[:])
		}
	}
	for i, bits := range b.Bloom {
		if bits&^shown[i] != 0 {
			return false
		}
	}
	return true
}

func (q *LogsQuery) selectsNoTopic() bool {
	for _, topics := range q.Topics {
		if len(topics) > 0 {
			return false
		}
	}
	return true
}

func (l *Log) weight() int64 { return int64(500 + len(l.Data)) }

// sliced reads what lies in a block's time. A large block is cut into parts of equal length that are read at the
// same time, because the latencies of pages in sequence would add up.
func sliced[T any](ctx context.Context, c *Client, block *Block, read func(context.Context, Period) ([]T, error)) ([]T, error) {
	slices := cut(block.Period, (block.Count+uint64(c.config.SliceSize)-1)/uint64(c.config.SliceSize))
	if len(slices) == 1 {
		return read(ctx, slices[0])
	}
	parts := make([][]T, len(slices))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.config.SliceConcurrency)
	for i, slice := range slices {
		group.Go(func() (err error) {
			parts[i], err = read(ctx, slice)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	all := make([]T, 0, total)
	for _, part := range parts {
		all = append(all, part...)
	}
	return all, nil
}

// cut divides a period into n parts that do not overlap and leave no gap; fewer if
// it is shorter than n nanoseconds.
func cut(p Period, n uint64) []Period {
	const maxParts = 1000
	from, to := p.From.UnixNano(), p.To.UnixNano()
	n = min(n, maxParts, uint64(max(to-from, 1)))
	if n < 2 || to <= from {
		return []Period{p}
	}
	step := (to - from) / int64(n)
	parts := make([]Period, n)
	for i := range parts {
		parts[i].From = hedera.FromNanos(from + int64(i)*step)
		parts[i].To = hedera.FromNanos(from + int64(i+1)*step - 1)
	}
	parts[n-1].To = p.To
	return parts
}
