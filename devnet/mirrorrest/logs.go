package mirrorrest

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
)

type logsJSON struct {
	Logs []logJSON `json:"logs"`
	paged
}

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
	for name, check := range contractLogParams {
		p[name] = check
	}
	return p
}()

// listLogs answers contracts/results/logs.
func listLogs(r *request) (any, error) {
	q, err := r.query(logParams, descending)
	if err != nil {
		return nil, err
	}
	f, err := newLogFilter(q)
	if err != nil {
		return nil, err
	}
	text, byHash := q.last("transaction.hash")
	if !byHash {
		return r.logs(q, f, ordered(r.index.logged(r.view), &f.times, q.desc))
	}
	if count(q, "transaction.hash") > 1 {
		return nil, badRequest("Only one transaction.hash filter is allowed")
	}
	hash, _ := parseHash(text)
	var records []*ledger.Record
	if rec := r.byHash(hash); rec != nil {
		records = append(records, rec)
	} else {
		records = r.view.RecordsByHash(hash) // what has events without a contract
	}
	return r.logs(q, f, ordered(records, &f.times, q.desc))
}

// listContractLogs answers contracts/{id}/results/logs.
func listContractLogs(r *request) (any, error) {
	q, err := r.query(contractLogParams, descending)
	if err != nil {
		return nil, err
	}
	f, err := newLogFilter(q)
	if err != nil {
		return nil, err
	}
	if f.emitter, err = r.contractArg(); err != nil {
		return nil, err
	}
	f.byEmitter = true
	return r.logs(q, f, ordered(r.index.emitter(r.view, f.emitter), &f.times, q.desc))
}

func (r *request) logs(q *query, f *logFilter, records iter.Seq[*ledger.Record]) (any, error) {
	out := logsJSON{Logs: []logJSON{}}
	blocks := blockFinder{view: r.view}
	for rec := range records {
		block, ok := blocks.of(rec)
		if !ok {
			continue
		}
		next := slices.All(rec.Logs())
		if q.desc {
			next = slices.Backward(rec.Logs())
		}
		for _, l := range next {
			if f.allows(l, rec) && len(out.Logs) < q.limit {
				out.Logs = append(out.Logs, logOf(l, rec, block))
			}
		}
		if len(out.Logs) == q.limit {
			break
		}
	}
	if len(out.Logs) == q.limit {
		last := &out.Logs[q.limit-1]
		out.Links = q.next(r.self(), true, f.cursors(last)...)
	}
	return out, nil
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

func (f *logFilter) allows(l *ledger.Log, rec *ledger.Record) bool {
	if f.byEmitter && l.Contract.Num != f.emitter || !f.allowsIndex(l, rec) {
		return false
	}
	for i, alternatives := range f.topics {
		if len(alternatives) > 0 && (i >= len(l.Topics) || !slices.Contains(alternatives, l.Topics[i])) {
			return false
		}
	}
	return true
}

// allowsIndex compares (timestamp, index) pairs: the bounds on the index apply at
// the ends of the range of time only.
func (f *logFilter) allowsIndex(l *ledger.Log, rec *ledger.Record) bool {
	i := int64(l.Index)
	if len(f.times.among) > 0 {
		return f.indexes.allows(i)
	}
	at := rec.Consensus.UnixNano()
	if at == f.times.lo && i < f.indexes.lo || at == f.times.hi && i > f.indexes.hi {
		return false
	}
	return f.exactTime() && f.indexes.allows(i) || !f.exactTime() && !slices.Contains(f.indexes.without, i)
}

// cursors is the place of a log among those the filter allows.
func (f *logFilter) cursors(last *logJSON) []cursor {
	index := cursor{name: "index", value: decimal(int64(last.Index))}
	if len(f.times.among) == 1 {
		return []cursor{index}
	}
	return []cursor{{name: "timestamp", value: last.Timestamp, inclusive: true}, index}
}
