package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
		case err == nil:
			err = p.filled(ctx, e, &a, q)
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
		a, err := p.shrinking(ctx, e, from, end, q)
		if j, ok := e.reader.(jsonRPC); ok && err == nil && len(a.logs) > 0 {
			a.by = e
			err = p.filters(ctx, j, a, q)
		}
		return a, err
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
	turns := append(p.turns(q), nil) // nil: nobody else
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
		if err == nil {
			err = a.sort()
		}
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
	return p.filters(ctx, j, a, q)
}

// filters holds the filter of each block of a range but the last one, which is asked by itself, against an answer that has no log of it, if the configuration
// says so.
func (p *Pool) filters(ctx context.Context, j jsonRPC, a answer, q Query) error {
	if !p.cfg.Headers {
		return nil
	}
	told := map[uint64]bool{}
	for i := range a.logs {
		told[a.logs[i].BlockNumber] = true
	}
	var numbers []uint64
	for n := a.from; n < a.last.Number; n++ {
		if !told[n] {
			numbers = append(numbers, n)
		}
	}
	for part := range slices.Chunk(numbers, headersPerCall) {
		headers, err := j.headers(ctx, part)
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
	at := extent{hash: &a.last.Hash, from: a.last.Number, to: a.last.Number}
	all, complete, err := a.by.whole(ctx, at, q, a.bloom)
	if err == nil {
		err = all.sort()
	}
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
	gone  []Log // it calls them removed
	last  Block
	inner []json.RawMessage // hashes of the last block's transactions
	blank bool              // the last block is the only one, and has no transactions
	by    *endpoint         // who said it, if it is kept
	one   bool              // it is of one block
	from  uint64            // the first block
	named int               // logs that the endpoint named, whoever's they are
	ends  *ends             // nil: their number is no limit that anybody has
	bloom types.Bloom       // of the last block; zero where it proves nothing
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
		case err == nil && from == end:
			err := p.filled(ctx, e, &a, q)
			if err == nil && end-from+1 == span {
				e.grow(p.cfg.MaxSpan)
			}
			return a, err
		case err == nil:
			short, err := cutOff(ctx, e, a, from, end, q)
			switch {
			case err != nil:
				return answer{}, err
			case short:
				p.log.WarnContext(ctx, "an endpoint cuts lists of logs off without a word; it is asked for fewer blocks", "chain", p.cfg.ChainID, "endpoint", e.Name(), "logs", a.named, "blocks", end-from+1)
				e.shrink(end - from + 1)
				continue
			case end-from+1 == span:
				e.grow(p.cfg.MaxSpan)
			}
			return a, nil
		case ctx.Err() == nil && end > from && errors.Is(err, errRefused): // and the endpoint isn't in trouble itself
			e.shrink(end - from + 1)
		default:
			if ethrpc.TimedOut(err) || errors.Is(err, context.DeadlineExceeded) { // the next attempt asks for less
				e.shrink(end - from + 1)
			}
			return answer{}, err
		}
	}
}

// cutOff tells whether an endpoint left out logs of a range, at whichever end, where their number may be a limit: it names more of the blocks at that end when
// it is asked for those alone.
func cutOff(ctx context.Context, e *endpoint, a answer, from, to uint64, q Query) (bool, error) {
	if a.ends == nil {
		return false, nil
	}
	for _, part := range []struct {
		extent
		named int
	}{
		{extent{from: max(a.ends.high, from+1), to: to}, a.ends.atHigh * bit(a.ends.high > from)},
		{extent{from: from, to: min(a.ends.low, to-1)}, a.ends.atLow * bit(a.ends.low < to)},
	} {
		if again, err := e.logs(ctx, part.extent, q); err != nil || again.named > part.named {
			return err == nil, err
		}
	}
	return false, nil
}

// filled adds to the logs of one block those that its receipts have besides, where the number of logs that were named may be a limit. What is in no receipt of
// any endpoint is not known, and said: all that the block has may be there.
func (p *Pool) filled(ctx context.Context, e *endpoint, a *answer, q Query) error {
	if a.ends == nil {
		return nil
	}
	others := slices.DeleteFunc(p.inOrder(), func(other *endpoint) bool { return other == e })
	for _, from := range append([]*endpoint{e}, others...) {
		j, ok := from.reader.(jsonRPC)
		if !ok || from.withoutReceipts() {
			continue
		}
		page, err := j.receipts(ctx, a.last, a.inner)
		from.gaveReceipts(err)
		switch {
		case err == nil:
			had := len(a.logs)
			if err = a.fill(q, page); err == nil && len(a.logs) > had {
				p.log.WarnContext(ctx, "an endpoint cuts a block's list of logs off without a word; the others are read of the block's receipts", "chain", p.cfg.ChainID, "endpoint", e.Name(), "block", a.last.Number, "logs", a.named, "others", len(a.logs)-had)
			}
			return err
		case ctx.Err() != nil, from == e && !errors.Is(err, ErrNotFound): // it may have them in a moment
			return err
		}
	}
	p.log.WarnContext(ctx, "whether an endpoint cuts a block's list of logs off is not known: their number may be a limit, and nobody has the block's receipts", "chain", p.cfg.ChainID, "endpoint", e.Name(), "block", a.last.Number, "logs", a.named)
	return nil
}

// fill adds the wanted logs of one block's receipts, if a transaction has more of them there. Some chains have logs that are in no receipt.
func (a *answer) fill(q Query, page []rawLog) error {
	var whole answer
	if err := whole.take(extent{hash: &a.last.Hash, from: a.last.Number, to: a.last.Number}, q, page); err != nil {
		return err
	}
	if err := a.sort(); err != nil {
		return err
	}
	missing := map[common.Hash]int{}
	for i := range whole.logs {
		whole.logs[i].Time = a.last.Time
		missing[whole.logs[i].TxHash]++
	}
	for i := range a.logs {
		missing[a.logs[i].TxHash]--
	}
	for _, n := range missing {
		if n > 0 {
			a.logs = append(a.logs, whole.logs...)
			return a.sort()
		}
	}
	return nil
}

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

// errPlace means that two logs are said to have one place in a block. Some nodes count a block's logs anew in each transaction. A log is known by its place, so
// one of the two would be lost.
var errPlace = errors.New("two logs have one place in their block")

// sort puts the logs into their order on the chain. A log that was named twice is one.
func (a *answer) sort() error {
	slices.SortFunc(a.logs, func(x, y Log) int {
		return cmp.Or(cmp.Compare(x.BlockNumber, y.BlockNumber), cmp.Compare(x.Index, y.Index))
	})
	var err error
	a.logs = slices.CompactFunc(a.logs, func(x, y Log) bool {
		if x.BlockHash != y.BlockHash || x.Index != y.Index {
			return false
		}
		if x.TxHash != y.TxHash || x.Address != y.Address || !slices.Equal(x.Topics, y.Topics) || !bytes.Equal(x.Data, y.Data) {
			err = fmt.Errorf("%w: place %d of block %d, in the transactions %s and %s", errPlace, x.Index, x.BlockNumber, x.TxHash, y.TxHash)
		}
		return true
	})
	return err
}
