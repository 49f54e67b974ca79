package ethapi

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/eth"
	"lockstep/mirror"
	"lockstep/rpc"
)

// filters keeps the filters of clients in this process. One that was not used for
// its time to live is gone; when there are too many, the one that was not used for
// longest goes.
type filters struct {
	ttl time.Duration
	max int

	mu    sync.Mutex
	byID  map[string]*list.Element // guarded by mu
	order *list.List               // guarded by mu; of *filter, the longest unused first
}

// filter is what a client wants to be told of. A poll takes what lies between the
// cursor and the head.
type filter struct {
	id    string
	query *logQuery // nil: new blocks
	// next is the first block that no poll has covered; guarded by filters.mu. A
	// filter for one block by hash has been polled when it is not 0.
	next    uint64
	expires time.Time // guarded by filters.mu
}

func newFilters(most int, ttl time.Duration) *filters {
	return &filters{ttl: ttl, max: most, byID: make(map[string]*list.Element), order: list.New()}
}

// add keeps a filter and gives it an id that cannot be guessed.
func (s *filters) add(f *filter) string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	f.id = filterID("0x" + hex.EncodeToString(raw[:]))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for len(s.byID) >= s.max {
		s.remove(s.order.Front())
	}
	f.expires = time.Now().Add(s.ttl)
	s.byID[f.id] = s.order.PushBack(f)
	return f.id
}

// use finds a filter and lets it live on.
func (s *filters) use(id string) (f *filter, next uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[filterID(id)]
	if !ok {
		return nil, 0, false
	}
	f = e.Value.(*filter)
	f.expires = time.Now().Add(s.ttl)
	s.order.MoveToBack(e)
	return f, f.next, true
}

// advance moves a filter's cursor. It fails if another poll has been faster; what
// that one returned must not be returned again.
func (s *filters) advance(f *filter, from, to uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.next != from {
		return false
	}
	f.next = to
	return true
}

func (s *filters) delete(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[filterID(id)]
	if ok {
		s.remove(e)
	}
	return ok
}

// expire is called with mu held.
func (s *filters) expire() {
	now := time.Now()
	for e := s.order.Front(); e != nil && !now.Before(e.Value.(*filter).expires); e = s.order.Front() {
		s.remove(e)
	}
}

// remove is called with mu held.
func (s *filters) remove(e *list.Element) {
	delete(s.byID, e.Value.(*filter).id)
	s.order.Remove(e)
}

// filterID is an id as a number is written, which is how clients may give it back.
func filterID(text string) string {
	digits := strings.TrimLeft(strings.TrimPrefix(strings.ToLower(text), "0x"), "0")
	if digits == "" {
		digits = "0"
	}
	return "0x" + digits
}

// newFilter is eth_newFilter.
func (a *API) newFilter(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod()
	}
	q, err := readLogQuery(p.At(0))
	if err != nil {
		return nil, err
	}
	f := &filter{query: &q}
	if q.blockHash == nil {
		head, err := a.head(ctx)
		if err != nil {
			return nil, err
		}
		if f.next, err = a.firstOf(ctx, &q, head); err != nil {
			return nil, err
		}
	}
	return a.filters.add(f), nil
}

// firstOf fixes the bounds of a filter: a tag means what it means now. It returns the
// first block of which the client is to be told: what lies before the filter only if
// the client named the block to begin with.
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
	if first > last {
		return 0, eth.ErrBlockRange()
	}
	to := eth.NumberRef(last)
	q.to = &to
	return next, nil
}

// newBlockFilter is eth_newBlockFilter.
func (a *API) newBlockFilter(ctx context.Context, _ *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod()
	}
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	return a.filters.add(&filter{next: head.Number + 1}), nil
}

// uninstallFilter is eth_uninstallFilter.
func (a *API) uninstallFilter(_ context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod()
	}
	return a.filters.delete(p.Text(0)), nil
}

// getFilterLogs is eth_getFilterLogs: everything that matches, seen or not.
func (a *API) getFilterLogs(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod()
	}
	f, _, ok := a.filters.use(p.Text(0))
	if !ok || f.query == nil {
		return nil, eth.ErrFilterNotFound()
	}
	return a.logs(ctx, *f.query)
}

// getFilterChanges is eth_getFilterChanges: what is new since the last poll.
func (a *API) getFilterChanges(ctx context.Context, p *rpc.Params) (any, error) {
	if !a.cfg.Filters {
		return nil, eth.ErrUnsupportedMethod()
	}
	f, next, ok := a.filters.use(p.Text(0))
	switch {
	case !ok:
		return nil, eth.ErrFilterNotFound()
	case f.query == nil:
		return a.newBlocks(ctx, f, next)
	case f.query.blockHash != nil:
		return a.oneBlockOnce(ctx, f, next)
	}
	return a.newLogs(ctx, f, next)
}

// newLogs reads from the cursor to the head, or as far as one query may go; the next
// poll continues there.
func (a *API) newLogs(ctx context.Context, f *filter, next uint64) (any, error) {
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	last := head.Number
	if f.query.to != nil {
		to, _ := f.query.to.Number()
		last = min(last, to)
	}
	if next > last {
		return eth.Logs{}, nil
	}
	last = min(last, next+a.cfg.LogsBlockRange)
	logs, err := a.rangeLogs(ctx, *f.query, next, last, head)
	if err != nil {
		return nil, err
	}
	if !a.filters.advance(f, next, last+1) {
		return eth.Logs{}, nil
	}
	return logs, nil
}

// oneBlockOnce returns the logs of a block that was named by its hash at the first
// poll after the block is known.
func (a *API) oneBlockOnce(ctx context.Context, f *filter, next uint64) (any, error) {
	if next != 0 {
		return eth.Logs{}, nil
	}
	logs, err := a.logs(ctx, *f.query)
	if err != nil {
		return nil, err
	}
	if len(logs) > 0 && !a.filters.advance(f, 0, 1) {
		return eth.Logs{}, nil
	}
	return logs, nil
}

// newBlocks lists the hashes of the blocks since the cursor.
func (a *API) newBlocks(ctx context.Context, f *filter, next uint64) (any, error) {
	const most = 1000
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	hashes := []common.Hash{}
	if next > head.Number {
		return hashes, nil
	}
	last := min(head.Number, next+most-1)
	for block, err := range a.mirror.Blocks(ctx, next, last) {
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, block.Hash)
	}
	if !a.filters.advance(f, next, last+1) {
		return []common.Hash{}, nil
	}
	return hashes, nil
}
