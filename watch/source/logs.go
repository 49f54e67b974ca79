package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/ethrpc"
)

// errRefused means that an endpoint answered a query with an error of its own: often a limit, in whatever words.
var errRefused = errors.New("the endpoint refuses the query")

// errAnother means that an endpoint answered with something of another block than was asked for.
var errAnother = errors.New("another block than was asked for")

// LogsOfBlock returns the logs of one block in their order. ErrNotFound means that no endpoint has that block: it may
// have been replaced by another.
func (p *Pool) LogsOfBlock(ctx context.Context, b Block, q Query) ([]Log, error) {
	if len(q.Addresses) == 0 {
		return nil, nil
	}
	at := extent{hash: &b.Hash, from: b.Number, to: b.Number}
	a, err := p.confirmed(ctx, q, func(ctx context.Context, e *endpoint, _ *answer) (answer, error) {
		a, err := e.logs(ctx, at, q)
		switch {
		case errors.Is(err, errRefused): // most nodes call a block that they do not have an error
			if _, missing := e.blockByHash(ctx, b.Hash); errors.Is(missing, ErrNotFound) {
				return answer{}, ErrNotFound
			}
		case err == nil && a.last.Hash != b.Hash:
			err = errAnother
		}
		return a, err
	})
	for i := range a.logs {
		a.logs[i].Time = b.Time
	}
	return a.logs, err
}

// LogsOfRange returns the logs of the blocks from one to another, as far as one call gets: last is the last block that is
// covered. Only blocks that cannot be replaced any more may be asked so.
func (p *Pool) LogsOfRange(ctx context.Context, from, to uint64, q Query) (logs []Log, last Block, err error) {
	if len(q.Addresses) == 0 {
		last, err = p.Block(ctx, to)
		return nil, last, err
	}
	a, err := p.confirmed(ctx, q, func(ctx context.Context, e *endpoint, first *answer) (answer, error) {
		end := to
		if first != nil {
			end = first.last.Number // a second opinion covers the same blocks
		}
		return p.shrinking(ctx, e, from, end, q)
	})
	logs, last = a.logs, a.last
	if err != nil || len(logs) > 0 && logs[len(logs)-1].BlockNumber == last.Number || !a.names(q) {
		return logs, last, err
	}
	// The last block of the range is known with its filter, and that names what is followed: the block tells by itself.
	own, err := p.LogsOfBlock(ctx, last, q)
	if err == nil && len(own) > 0 {
		err = fmt.Errorf("%w: %w: logs of block %d are missing in the answer to a range", ErrUnavailable, ErrDoubt, last.Number)
	}
	return logs, last, err
}

// asking has an endpoint say which logs there are. What another one said first, if any, is what it is asked to confirm.
type asking func(ctx context.Context, e *endpoint, first *answer) (answer, error)

// confirmed asks one endpoint, and others too where it is silent, or where its answer could be empty for a wrong reason. The logs of a block explain
// its filter when nobody else gives an opinion, and as soon as who is asked for one is silent: that is a proof. What a range has is not
// proved by one endpoint, so there all others are waited for.
func (p *Pool) confirmed(ctx context.Context, q Query, do asking) (answer, error) {
	var best atomic.Pointer[answer] // empty, for a reason that is not known
	var failed failures
	alone := said[answer]{err: errNothing}
	turns := append(p.inOrder(), nil) // nil: nobody else
	for e, s := range ethrpc.InTurn(ctx, turns, (*endpoint).quiet, func(ctx context.Context, e *endpoint) said[answer] {
		if e == nil {
			return p.explained(ctx, q, best.Load())
		}
		return checked(ctx, p, e, sorted(do, best.Load()))
	}) {
		switch {
		case ctx.Err() != nil:
			return answer{}, ctx.Err()
		case e == nil:
			if alone = s; alone.err == nil {
				return alone.answer, nil
			}
			continue
		case errors.Is(s.err, ErrNotFound):
			if failed.lack(e) == len(p.endpoints) && best.Load() == nil {
				return answer{}, ErrNotFound
			}
			continue
		case s.err != nil:
			failed.add(e, s.err)
			continue
		}
		e.Well()
		a, first := s.answer, best.Load()
		if first != nil && first.by == e && len(a.logs) == 0 {
			continue // it was asked once more
		}
		if first != nil && len(a.logs) == 0 { // two endpoints say that there is nothing
			if first.last.Number < a.last.Number {
				a = *first
			}
			return a, nil
		}
		if len(a.logs) > 0 || !a.doubtful(q) {
			return a, nil
		}
		if a.by = e; a.bloom == (types.Bloom{}) && a.one {
			p.tellBloomless(ctx, e)
		}
		best.Store(&a)
	}
	first := best.Load()
	if first.explicable() && errors.Is(alone.err, errNothing) { // it was too soon then
		alone = p.explained(ctx, q, first)
	}
	switch {
	case first.explicable():
		return alone.answer, alone.err
	case first != nil && first.one:
		return *first, nil // its head is past the block, there is no filter, and nobody else can be asked now
	case first != nil:
		return p.again(ctx, q, first, do)
	default:
		return answer{}, p.unavailable(failed.errs)
	}
}

// sorted has the logs of an answer be in their order.
func sorted(do asking, first *answer) func(context.Context, *endpoint) (answer, error) {
	return func(ctx context.Context, e *endpoint) (answer, error) {
		a, err := do(ctx, e, first)
		a.sort()
		return a, err
	}
}

// again asks an endpoint that nobody can be asked beside for a range a second time, when it has named no logs: behind its address there may be
// several nodes, one of which is behind.
func (p *Pool) again(ctx context.Context, q Query, first *answer, do asking) (answer, error) {
	s := checked(ctx, p, first.by, sorted(do, first))
	a := s.answer
	if s.err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, first.by.named(s.err))
	}
	if len(a.logs) > 0 {
		p.log.WarnContext(ctx, "an endpoint named no logs of a range, and some when it was asked again", "chain", p.cfg.ChainID, "endpoint", first.by.Name(), "logs", len(a.logs))
		return a, nil
	}
	if j, ok := first.by.reader.(jsonRPC); ok {
		a.by = first.by
		return a, p.sound(ctx, j, a, q)
	}
	return a, nil
}

// sound doubts an endpoint's word that a range has no wanted logs. One that has forgotten the logs of old blocks has none of the last block either,
// although the filter of that is not empty. Whether it left out single logs is told only by the filters of all blocks, which are asked for if the
// configuration says so.
func (p *Pool) sound(ctx context.Context, j jsonRPC, a answer, q Query) error {
	if a.bloom != (types.Bloom{}) {
		page, err := j.everything(ctx, a.last.Hash)
		if err == nil && len(page) == 0 {
			err = fmt.Errorf("%w: block %d has logs, the endpoint none of it", ErrDoubt, a.last.Number)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, a.by.named(err))
		}
	}
	if !p.cfg.Headers {
		return nil
	}
	for from := a.from; from < a.last.Number; from += headersPerCall {
		var numbers []uint64
		for n := from; n < min(from+headersPerCall, a.last.Number); n++ {
			numbers = append(numbers, n)
		}
		headers, err := j.headers(ctx, numbers)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, a.by.named(err))
		}
		for i := range headers {
			one := answer{last: headers[i].block(), by: a.by, one: true, bloom: types.Bloom(headers[i].Bloom)}
			if !one.names(q) {
				continue
			}
			s := p.explained(ctx, q, &one)
			err := s.err
			if err == nil && len(s.answer.logs) > 0 {
				err = fmt.Errorf("%w: %w: logs of block %d are missing in the answer to a range", ErrUnavailable, ErrDoubt, one.last.Number)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// errNothing means that there is no answer yet that the logs of its block could explain.
var errNothing = errors.New("nothing to explain")

// explicable tells whether all logs of the block can prove an empty answer, or disprove it.
func (a *answer) explicable() bool { return a != nil && a.one && a.bloom != (types.Bloom{}) }

// explained settles an empty answer of a block whose filter names what is asked for: all logs of the block together make up the filter, and none of
// them is meant, or they are not all, and the doubt stays.
func (p *Pool) explained(ctx context.Context, q Query, a *answer) said[answer] {
	if !a.explicable() {
		return said[answer]{err: errNothing}
	}
	j, ok := a.by.reader.(jsonRPC)
	if !ok {
		return said[answer]{answer: *a} // a mirror node's block is published together with its logs
	}
	at := extent{hash: &a.last.Hash, from: a.last.Number, to: a.last.Number}
	all, complete, err := j.whole(ctx, at, q, a.bloom)
	all.sort()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, a.by.named(err))
	case !complete && len(all.logs) == 0:
		err = fmt.Errorf("%w: %w", ErrUnavailable, a.by.named(ErrDoubt))
	}
	return said[answer]{all, err}
}

// tellBloomless says once of an endpoint that its blocks have no filter.
func (p *Pool) tellBloomless(ctx context.Context, e *endpoint) {
	e.mu.Lock()
	told := e.bloomless
	e.bloomless = true
	e.mu.Unlock()
	if !told {
		p.log.InfoContext(ctx, "blocks of this endpoint may have no bloom filter; where it names no logs, another endpoint is asked, if there is one", "chain", p.cfg.ChainID, "endpoint", e.Name())
	}
}

// extent is the blocks of a query: one by its hash, or a range.
type extent struct {
	hash     *common.Hash
	from, to uint64
}

// answer is what one endpoint said.
type answer struct {
	logs  []Log
	last  Block
	blank bool        // the last block is the only one, and has no transactions
	by    *endpoint   // who said it, if it is kept
	one   bool        // it is of one block
	from  uint64      // the first block
	bloom types.Bloom // of the last block; zero where it proves nothing
}

// names tells whether the last block's filter has one of the addresses and, of each topic, one that is wanted.
func (a answer) names(q Query) bool {
	for _, topics := range q.positions() {
		if topics != nil && !slices.ContainsFunc(topics, func(h common.Hash) bool { return a.bloom.Test(h[:]) }) {
			return false
		}
	}
	for address := range q.Addresses {
		if a.bloom.Test(address[:]) {
			return true
		}
	}
	return false
}

// doubtful tells whether an empty answer needs a second opinion.
func (a answer) doubtful(q Query) bool {
	switch {
	case a.blank:
		return false
	case !a.one || a.bloom == (types.Bloom{}): // the filter of the last block says nothing of others, and some chains leave it empty
		return true
	default:
		return a.names(q)
	}
}

// shrinking asks for a range, and for less of it as long as the endpoint refuses.
func (p *Pool) shrinking(ctx context.Context, e *endpoint, from, to uint64, q Query) (answer, error) {
	for {
		e.mu.Lock()
		span := e.span
		e.mu.Unlock()
		end := min(to, from+span-1)
		a, err := e.logs(ctx, extent{from: from, to: end}, q)
		switch {
		case err == nil && a.last.Number != end:
			return answer{}, errAnother
		case err == nil:
			if end-from+1 == span {
				e.grow(p.cfg.MaxSpan)
			}
			return a, nil
		case ctx.Err() == nil && end > from && limits(err):
			e.shrink(end - from + 1)
		default:
			if ethrpc.TimedOut(err) || errors.Is(err, context.DeadlineExceeded) { // the next attempt asks for less
				e.shrink(end - from + 1)
			}
			return answer{}, err
		}
	}
}

// limits tells whether a shorter range may succeed: the endpoint refused this one, and is not in trouble itself.
func limits(err error) bool { return errors.Is(err, errRefused) }

// add takes a log that was asked for, passes over one of another contract or event, and refuses one of another block.
func (a *answer) add(w extent, q Query, l Log) error {
	if l.BlockNumber < w.from || l.BlockNumber > w.to || w.hash != nil && l.BlockHash != *w.hash {
		return fmt.Errorf("a log of %w", errAnother)
	}
	if q.wants(&l) {
		a.logs = append(a.logs, l)
	}
	return nil
}

// sort puts the logs into their order on the chain. A log that was named twice is one.
func (a *answer) sort() {
	slices.SortFunc(a.logs, func(x, y Log) int {
		return cmp.Or(cmp.Compare(x.BlockNumber, y.BlockNumber), cmp.Compare(x.Index, y.Index))
	})
	a.logs = slices.CompactFunc(a.logs, func(x, y Log) bool { return x.BlockHash == y.BlockHash && x.Index == y.Index })
}
