package mirrorrest

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

var contractLogParams = params{
	"index":     isCount,
	"timestamp": isTime,
	"topic0":    isTopic,
	"topic1":    isTopic,
	"topic2":    isTopic,
	"topic3":    isTopic,
}

var logParams = func() params {
	p := params{"transaction.hash": isHash}
	maps.Copy(p, contractLogParams)
	return p
}()

// listLogs answers contracts/results/logs.
func listLogs(r *request, q *query) (any, error) {
	f, err := newLogFilter(q)
	if err != nil {
		return nil, err
	}
	text, byHash := q.last("transaction.hash")
	if !byHash {
		return r.logs(q, f, r.records(&f.times, q.desc))
	}
	if count(q, "transaction.hash") > 1 {
		return nil, badRequest("Only one transaction.hash filter is allowed")
	}
	hash, _ := parseHash(text)
	var records []*history.Record
	if rec := r.byHash(hash); rec != nil {
		records = append(records, rec)
	} else {
		records = r.view.RecordsByHash(hash) // what has events without a contract
	}
	return r.logs(q, f, where(inOrder(records, q.desc), func(rec *history.Record) bool { return f.times.allows(rec.Consensus.UnixNano()) }))
}

// listContractLogs answers contracts/{id}/results/logs.
func listContractLogs(r *request, q *query) (any, error) {
	f, err := newLogFilter(q)
	if err != nil {
		return nil, err
	}
	if f.emitter, err = r.contractArg(); err != nil {
		return nil, err
	}
	f.byEmitter = true
	return r.logs(q, f, r.records(&f.times, q.desc))
}

// placedLog is an event in its record and its block.
type placedLog struct {
	*history.Log
	rec   *history.Record
	block *history.Block
}

func (r *request) logs(q *query, f *logFilter, records iter.Seq[*history.Record]) (any, error) {
	rows := func(yield func(placedLog) bool) {
		blocks := blockFinder{view: r.view}
		for rec := range records {
			block, ok := blocks.of(rec)
			if !ok {
				continue
			}
			for l := range inOrder(rec.Logs(), q.desc) {
				if f.allows(l) && !yield(placedLog{l, rec, block}) {
					return
				}
			}
		}
	}
	columns := []column[placedLog]{
		byTime(func(l placedLog) hedera.Timestamp { return l.rec.Consensus }), byNumber("index", func(l placedLog) int64 { return int64(l.Index) }),
	}
	if f.times.exact() {
		columns = columns[1:]
	}
	return list(r, q, "logs", rows, logOf, columns...), nil
}

// resultLogOf writes an event as part of the result it belongs to.
func resultLogOf(l *history.Log) object {
	bloom := l.Bloom()
	return object{
		"address":     addressText(l.Address),
		"bloom":       hexutil.Encode(bloom[:]),
		"contract_id": idText(l.Contract),
		"data":        hexutil.Encode(l.Data),
		"index":       l.Index,
		"topics":      words(l.Topics),
	}
}

// logOf writes an event on its own, with the transaction and block it came from.
func logOf(l placedLog) any {
	out := resultLogOf(l.Log)
	out["block_hash"], out["block_number"] = hexutil.Encode(l.block.Hash[:]), l.block.Number
	out["timestamp"], out["transaction_hash"] = l.rec.Consensus.String(), hexutil.Encode(transactionHash(l.rec))
	out["transaction_index"] = nil
	switch {
	case l.rec.Result == nil: // of a token, without a contract
		out["transaction_index"], out["root_contract_id"] = l.rec.Did().Index, idText(l.Contract)
		return out
	case l.rec.Executed():
		out["transaction_index"] = l.rec.Result.Index
	}
	out["root_contract_id"] = idText(l.rec.Result.Target)
	return out
}

// transactionHash is the 32-byte hash by which Ethereum clients know a record:
// that of the signed Ethereum transaction, or the start of the native one's.
func transactionHash(rec *history.Record) []byte {
	if rec.Result != nil && rec.Result.Raw != nil {
		return rec.EthereumHash[:]
	}
	return rec.Hash[:32]
}

// A logFilter is what a query asks of logs.
type logFilter struct {
	times     bounds
	indexes   bounds
	topics    [4][]common.Hash // alternatives; none: anything
	emitter   int64
	byEmitter bool
}

func newLogFilter(q *query) (*logFilter, error) {
	f := &logFilter{times: q.timestamps(), indexes: q.bounds("index", parseCount)}
	topical := false
	for i, name := range [...]string{"topic0", "topic1", "topic2", "topic3"} {
		for _, p := range q.filters {
			if p.name == name {
				word, _ := parseWord(p.value)
				f.topics[i] = append(f.topics[i], word)
				topical = true
			}
		}
	}
	if _, byHash := q.last("transaction.hash"); topical && !byHash {
		if err := f.checkSearchRange(); err != nil {
			return nil, err
		}
	}
	return f, f.checkIndex(q)
}

// checkSearchRange: topics are searched for within a week.
func (f *logFilter) checkSearchRange() error {
	const prefix = "Cannot search topics without a valid timestamp range: "
	switch {
	case len(f.times.among) > 0:
		return nil
	case !f.times.ranged():
		return badRequest(prefix + "No timestamp range or eq operator provided")
	case f.times.lo == math.MinInt64 || f.times.hi == math.MaxInt64:
		return badRequest(prefix + "Timestamp range must have gt (or gte) and lt (or lte), or eq operator")
	case f.times.hi < f.times.lo || f.times.hi-f.times.lo > int64(7*24*time.Hour):
		return badRequest(prefix + "Timestamp range by the lower and upper bounds must be positive and within 7d")
	default:
		return nil
	}
}

// checkIndex: an index counts logs within a block, so it says nothing without the
// transaction whose logs it counts on. As the second part of a cursor it goes with
// a timestamp that includes its own end.
func (f *logFilter) checkIndex(q *query) error {
	if f.indexes.exact() && !f.exactTime() {
		return badRequest("timestamp must have eq operator")
	}
	if f.exactTime() {
		return nil
	}
	if f.indexes.lo != math.MinInt64 && !includes(q, gte) {
		return badRequest("timestamp must have gte or eq operator")
	}
	if f.indexes.hi != math.MaxInt64 && !includes(q, lte) {
		return badRequest("timestamp must have lte or eq operator")
	}
	return nil
}

func includes(q *query, op operator) bool {
	return slices.ContainsFunc(q.filters, func(f filter) bool { return f.name == "timestamp" && f.op == op })
}

func count(q *query, name string) (n int) {
	for _, f := range q.filters {
		if f.name == name {
			n++
		}
	}
	return n
}

// exactTime tells whether only one consensus time is left.
func (f *logFilter) exactTime() bool {
	lo, hi := f.times.span()
	return lo == hi
}

func (f *logFilter) allows(l *history.Log) bool {
	if f.byEmitter && l.Contract.Num != f.emitter {
		return false
	}
	for i, alternatives := range f.topics {
		if len(alternatives) > 0 && (i >= len(l.Topics) || !slices.Contains(alternatives, l.Topics[i])) {
			return false
		}
	}
	return true
}
