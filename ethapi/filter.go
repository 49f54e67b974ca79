package ethapi

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror"
	"lockstep/rpc"
)

// newFilter is eth_newFilter.
func (a *API) newFilter(ctx context.Context, p *rpc.Params) (any, error) {
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
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	return a.addFilter(ctx, &filter{next: head.Number + 1})
}

// uninstallFilter is eth_uninstallFilter.
func (a *API) uninstallFilter(ctx context.Context, p *rpc.Params) (any, error) {
	existed, err := a.filters.Delete(ctx, filterID(p.Text(0)))
	if err != nil {
		return nil, a.filtersError(ctx, err)
	}
	return existed, nil
}

// getFilterLogs is eth_getFilterLogs: everything that matches, seen or not.
func (a *API) getFilterLogs(ctx context.Context, p *rpc.Params) (any, error) {
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
	next := f.next // after the last block that is listed: a list may end before the head, and its rest comes with a later poll
	for block, err := range a.mirror.Blocks(ctx, f.next, min(head.Number, f.next+most-1)) {
		if err != nil {
			return nil, err
		}
		hashes, next = append(hashes, block.Hash), block.Number+1
	}
	if moved, err := a.polled(ctx, f, next); !moved {
		return []common.Hash{}, err
	}
	return hashes, nil
}

// FilterStore keeps the filters of clients: in this process, or for a fleet. A filter that was not used for its
// time to live ends. When there are too many, the client that has most loses the one that it has not used for
// longest; when they have too many bytes, the longest goes. So a flood removes its own. It is safe for concurrent use.
type FilterStore interface {
	// Add keeps a client's filter with a cursor under an id that is new.
	Add(ctx context.Context, client, id string, filter []byte, next uint64) error
	// Use returns a filter and its cursor and renews its time to live; ok is false if there is none.
	Use(ctx context.Context, id string) (filter []byte, next uint64, ok bool, err error)
	// Advance moves a cursor. It returns false if the cursor was not at from, because another poll was faster.
	Advance(ctx context.Context, id string, from, to uint64) (bool, error)
	// Delete forgets a filter; it tells whether there was one.
	Delete(ctx context.Context, id string) (bool, error)
}

// localFilters is a FilterStore in this process.
type localFilters struct {
	ttl      time.Duration
	max      int
	maxBytes int

	mu    sync.Mutex
	byID  map[string]*list.Element // guarded by mu
	order *list.List               // guarded by mu; of *localFilter, the longest unused first
	count map[string]int           // guarded by mu; of filters, by client
	bytes int                      // guarded by mu; of all texts
}

var errFilterTooLong = errors.New("a filter is longer than all may be together")

type localFilter struct {
	client  string
	id      string
	text    []byte
	next    uint64    // guarded by localFilters.mu
	expires time.Time // guarded by localFilters.mu
}

// LocalFilters makes a store of filters in this process.
func LocalFilters(cfg Config) FilterStore {
	return newLocalFilters(cfg.MaxFilters, cfg.MaxFilterBytes, cfg.FilterTTL.Duration())
}

func newLocalFilters(most, bytes int, ttl time.Duration) *localFilters {
	return &localFilters{ttl: ttl, max: most, maxBytes: bytes, byID: make(map[string]*list.Element), order: list.New(), count: make(map[string]int)}
}

// Add implements FilterStore.
func (s *localFilters) Add(_ context.Context, client, id string, filter []byte, next uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(filter) > s.maxBytes {
		return errFilterTooLong
	}
	s.expire()
	for len(s.byID) >= s.max {
		s.remove(s.oldest())
	}
	for s.bytes+len(filter) > s.maxBytes {
		s.remove(s.longest())
	}
	s.bytes += len(filter)
	s.count[client]++
	s.byID[id] = s.order.PushBack(&localFilter{client: client, id: id, text: filter, next: next, expires: time.Now().Add(s.ttl)})
	return nil
}

// Use implements FilterStore.
func (s *localFilters) Use(_ context.Context, id string) (filter []byte, next uint64, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[id]
	if !ok {
		return nil, 0, false, nil
	}
	f := e.Value.(*localFilter)
	f.expires = time.Now().Add(s.ttl)
	s.order.MoveToBack(e)
	return f.text, f.next, true, nil
}

// Advance implements FilterStore.
func (s *localFilters) Advance(_ context.Context, id string, from, to uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byID[id]
	if !ok || e.Value.(*localFilter).next != from {
		return false, nil
	}
	e.Value.(*localFilter).next = to
	return true, nil
}

// Delete implements FilterStore.
func (s *localFilters) Delete(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[id]
	if ok {
		s.remove(e)
	}
	return ok, nil
}

// expire is called with mu held.
func (s *localFilters) expire() {
	now := time.Now()
	for e := s.order.Front(); e != nil && !now.Before(e.Value.(*localFilter).expires); e = s.order.Front() {
		s.remove(e)
	}
}

// oldest is the filter that was not used for longest, of the client that has most. It is called with mu held, and
// with a filter there.
func (s *localFilters) oldest() *list.Element {
	greediest := ""
	for client, count := range s.count {
		if most := s.count[greediest]; count > most || count == most && client > greediest {
			greediest = client
		}
	}
	e := s.order.Front()
	for e.Value.(*localFilter).client != greediest {
		e = e.Next()
	}
	return e
}

// longest is called with mu held, and with a filter there.
func (s *localFilters) longest() *list.Element {
	longest := s.order.Front()
	for e := longest.Next(); e != nil; e = e.Next() {
		if len(e.Value.(*localFilter).text) > len(longest.Value.(*localFilter).text) {
			longest = e
		}
	}
	return longest
}

// remove is called with mu held.
func (s *localFilters) remove(e *list.Element) {
	f := e.Value.(*localFilter)
	delete(s.byID, f.id)
	s.bytes -= len(f.text)
	if s.count[f.client]--; s.count[f.client] == 0 {
		delete(s.count, f.client)
	}
	s.order.Remove(e)
}

// filter selects what a client wants to know. A poll reads from the cursor to the head.
type filter struct {
	id    string
	query *logQuery // nil: new blocks
	// next is the first block that no poll has covered. For a filter for one block by hash, not 0 means that it
	// was polled.
	next uint64
}

// storedFilter is the form of a filter in a store. The bounds of a query are numbers: a tag means its block at the
// filter's creation.
type storedFilter struct {
	Blocks    bool             `json:"blocks,omitempty"` // it is for new blocks
	Block     *common.Hash     `json:"block,omitempty"`
	From      *uint64          `json:"from,omitempty"`
	To        *uint64          `json:"to,omitempty"`
	Addresses []common.Address `json:"addresses,omitempty"`
	Topics    [][]common.Hash  `json:"topics,omitempty"`
	Named     int              `json:"named,omitempty"` // topics that the client wrote
}

// addFilter keeps a filter and gives it an id that cannot be guessed.
func (a *API) addFilter(ctx context.Context, f *filter) (any, error) {
	f.id = filterID(randomID())
	text, err := json.Marshal(stored(f.query))
	if err != nil {
		return nil, err
	}
	if err := a.filters.Add(ctx, capacity.FromContext(ctx).Client(), f.id, text, f.next); err != nil {
		return nil, a.filtersError(ctx, err)
	}
	return f.id, nil
}

func stored(q *logQuery) storedFilter {
	if q == nil {
		return storedFilter{Blocks: true}
	}
	k := storedFilter{Block: q.blockHash, Addresses: q.addresses, Topics: q.topics.at[:], Named: q.topics.named}
	for _, bound := range []struct {
		ref *eth.BlockRef
		to  **uint64
	}{{q.from, &k.From}, {q.to, &k.To}} {
		if bound.ref != nil {
			number, _ := bound.ref.Number()
			*bound.to = &number
		}
	}
	return k
}

func (k *storedFilter) query() *logQuery {
	if k.Blocks {
		return nil
	}
	q := &logQuery{blockHash: k.Block, addresses: k.Addresses, topics: topicQuery{named: k.Named}}
	copy(q.topics.at[:], k.Topics)
	for _, bound := range []struct {
		number *uint64
		to     **eth.BlockRef
	}{{k.From, &q.from}, {k.To, &q.to}} {
		if bound.number != nil {
			ref := eth.NumberRef(*bound.number)
			*bound.to = &ref
		}
	}
	return q
}

// useFilter finds a filter and renews its time to live. One that does not exist is an error.
func (a *API) useFilter(ctx context.Context, id string) (*filter, error) {
	id = filterID(id)
	text, next, ok, err := a.filters.Use(ctx, id)
	switch {
	case err != nil:
		return nil, a.filtersError(ctx, err)
	case !ok:
		return nil, eth.ErrFilterNotFound
	}
	var k storedFilter
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, a.filtersError(ctx, err)
	}
	return &filter{id: id, query: k.query(), next: next}, nil
}

// polled moves a filter's cursor to where the next poll begins. It returns false if another poll was faster: what
// that one returned must not be returned again.
func (a *API) polled(ctx context.Context, f *filter, next uint64) (bool, error) {
	moved, err := a.filters.Advance(ctx, f.id, f.next, next)
	if err != nil {
		return false, a.filtersError(ctx, err)
	}
	return moved, nil
}

// filtersError says that the store failed. The reason is for the operator.
func (a *API) filtersError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.deps.Log.WarnContext(ctx, "the store of filters does not answer", "error", err)
	return eth.ErrFiltersUnavailable
}

// filterID is an id without leading zeros, as clients may write the number.
func filterID(text string) string {
	digits := strings.TrimLeft(strings.TrimPrefix(strings.ToLower(text), "0x"), "0")
	digits = cmp.Or(digits, "0")
	return "0x" + digits
}
