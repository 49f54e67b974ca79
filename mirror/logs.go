package mirror

import (
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// Log is an event of a contract or of a token in the form that clients see.
type Log struct {
	eth.Log
	Timestamp hedera.Timestamp
	complete  bool
}

func readLog(r *reader, l *Log) {
	var index, transaction, block bool // is known
	r.object(func(key []byte) {
		switch string(key) {
		case "index":
			l.Index, index = r.known()
		case "transaction_hash":
			l.TxHash = r.hashAgain(&r.origin)
		case "transaction_index":
			l.TxIndex, transaction = r.known()
		case "block_hash":
			l.BlockHash = r.hashAgain(&r.block)
		case "block_number":
			l.BlockNumber, block = r.known()
		case "timestamp":
			l.setTime(r.time())
		default:
			readEvent(r, l, key)
		}
	})
	l.complete = index && transaction && block && l.BlockHash != (common.Hash{})
	if l.complete {
		r.note(l.BlockNumber)
	}
}

func (l *Log) setTime(t hedera.Timestamp) { l.Timestamp, l.BlockTime = t, uint64(t.Seconds) }

func readEvent(r *reader, l *Log, key []byte) {
	switch string(key) {
	case "address":
		l.Address = r.address()
	case "data":
		l.Data = r.bytes()
	case "topics":
		l.Topics = r.topics()
	default:
		r.skip()
	}
}

// topics reads a list of topics; null is empty.
func (r *reader) topics() []common.Hash {
	var few [4]common.Hash // the maximum number of topics
	read := few[:0]
	r.array(func() { read = append(read, r.word32()) })
	topics := r.hashes.take(len(read))
	copy(topics, read)
	return topics
}

// readInnerLog reads a log inside a contract result, which has no block of its own.
func readInnerLog(r *reader) *Log {
	l := new(Log)
	r.object(func(key []byte) {
		if string(key) == "index" {
			l.Index = r.uint64()
			return
		}
		readEvent(r, l, key)
	})
	return l
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
		maxPages: c.config.MaxLogPages, together: true, read: readLog,
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
			if log.Index == 0 && log.BlockNumber <= q.FirstBlock {
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
		c.observe(logs[len(logs)-1].BlockNumber)
	}
	return logs, nil
}

// BlockLogs is Logs of one block, read in parts when the block is large. Only the
// address and the topics of q select. The slice and what it points to are shared; it is
// nil if the mirror node has no list, not even an empty one.
func (c *Client) BlockLogs(ctx context.Context, block *Block, q LogsQuery) ([]*Log, error) {
	all := q.Address == nil && q.selectsNoTopic()
	if logs, ok := c.logs.get(block.Number); ok && all {
		return logs, hold(ctx, weightOf(logs))
	}
	if all {
		if logs := stored(ctx, c, kindLogs, decimal(block.Number), logsFields); logs != nil {
			c.logs.put(block.Number, *logs, weightOf(*logs))
			return *logs, hold(ctx, weightOf(*logs))
		}
	}
	logs, err := sliced(ctx, c, block, func(ctx context.Context, slice Period) ([]*Log, error) {
		q := q
		q.Period, q.SingleBlock, q.FirstBlock = slice, true, block.Number
		return c.Logs(ctx, q)
	})
	if err != nil {
		return nil, absent(err) // the list may exist later
	}
	if !all || len(logs) == 0 && block.HasLogs() {
		return logs, nil
	}
	c.logs.put(block.Number, logs, weightOf(logs))
	store(c, kindLogs, decimal(block.Number), &logs, logsFields)
	return logs, nil
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
