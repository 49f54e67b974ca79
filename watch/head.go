package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/ledger"
	"lockstep/watch/source"
)

// ErrDeepFork means that blocks were replaced that the chain had called final, or that had the plan's finality. What was handed
// on cannot be taken back in order, so the chain is not followed any further.
var ErrDeepFork = errors.New("blocks were replaced that could not be replaced any more")

// ErrReset means that the chain begins with another block than it did.
var ErrReset = errors.New("this is another chain than the one that the cursors belong to")

// errBehind means that whoever could be asked shows a head below what was final: it has yet to read the chain, or it is another chain. Its new blocks are none here.
var errBehind = errors.New("no endpoint has what was final")

// chainReader is what is read of a chain: package source's Pool.
type chainReader interface {
	Head(ctx context.Context) (source.Block, error)
	Finalized(ctx context.Context) (source.Block, error)
	// Highest is the highest head that any endpoint has shown, and when it did first; a zero time if none was.
	Highest() (number uint64, at time.Time)
	Block(ctx context.Context, number uint64) (source.Block, error)
	BlockByHash(ctx context.Context, hash hash) (source.Block, error)
	LogsOfBlock(ctx context.Context, b source.Block, q source.Query) ([]source.Log, error)
	LogsOfRange(ctx context.Context, from, to uint64, q source.Query) ([]source.Log, source.Block, error)
	TransactionsOfBlock(ctx context.Context, b source.Block, want func(*source.Transaction) bool) ([]source.Transaction, error)
	TransactionsOfRange(ctx context.Context, from, to uint64, want func(*source.Transaction) bool) ([]source.Transaction, error)
	// Anchor names a block that cannot be replaced any more: an endpoint that has another in its place is not asked while any has this one.
	Anchor(b source.Block)
	// Announce calls wake when the chain tells of a block by itself, until the context ends; Announced says whether it does.
	Announce(ctx context.Context, wake func())
	Announced() bool
}

// headFollower reads the newest blocks of a chain for the whole fleet. It keeps in the ledger every block that can still
// be replaced, and a row for each reorganisation. One process does this at a time.
type headFollower struct {
	chain  Chain
	source chainReader
	db     *ledger.DB
	owner  string
	log    *slog.Logger

	blocks    map[uint64]source.Block // from safe to head, as in the ledger
	head      uint64
	safe      uint64
	fork      int64
	finalized time.Time // when the chain last answered what is final
	says      bool      // it has said so once: it is not guessed from then on
	silent    bool      // it says that it has no such thing
	pace      pace
	best      uint64    // the highest head that any endpoint has shown
	bestAt    time.Time // when it did first
	told      uint64    // what the ledger knows of it
	anewSince time.Time // since when a developer's chain seems to begin anew; zero: it does not
}

// finalityEvery is how often the chain is asked what is final.
const finalityEvery = 5 * time.Second

// load reads the state of the chain, and makes it this process's.
func (f *headFollower) load(ctx context.Context) error {
	state, err := ledger.ReadOf(ctx, f.db, func(tx *ledger.Tx) (s chainState, err error) {
		s, _, err = readChain(ctx, tx, f.chain.ID, math.MaxInt64)
		return s, err
	})
	if err != nil {
		return err
	}
	f.chain.anchor(f.source, state)
	begins := ""
	switch first, err := f.source.Block(ctx, 0); {
	case err == nil:
		begins = first.Hash.Hex()
	case !errors.Is(err, source.ErrNotFound):
		return err
	default: // nodes that do not keep the past
		f.log.InfoContext(ctx, "no endpoint has block 0: that the chain was reset is only noticed by the newest blocks", "chain", f.chain.ID)
	}
	f.blocks = map[uint64]source.Block{}
	return f.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		clear(f.blocks)
		var known string
		var bestAt int64
		says := 0
		found, err := tx.One(ctx, "SELECT genesis, head, safe, says, fork, best, best_at FROM watch_chains WHERE chain = $1"+tx.ForUpdate(), []any{int64(f.chain.ID)}, &known, &f.head, &f.safe, &says, &f.fork, &f.best, &bestAt)
		f.says, f.told = says == 1, f.best
		f.bestAt = time.Now().Add(-time.Duration(now-bestAt) * time.Microsecond)
		switch {
		case err != nil:
			return err
		case !found:
			f.head, f.safe, f.fork, f.best, f.told, f.bestAt = 0, 0, 0, 0, 0, time.Time{}
			_, err = tx.Exec(ctx, "INSERT INTO watch_chains (chain, genesis, head, safe, says, fork, best, best_at, pace, owner) VALUES ($1, $2, 0, 0, 0, 0, 0, CAST($3 AS BIGINT), 0, $4)", int64(f.chain.ID), begins, now, f.owner)
			return err
		case known != "" && begins != "" && known != begins:
			return fmt.Errorf("%w: chain %d began with %s and begins with %s; %s", ErrReset, f.chain.ID, known, begins, f.resetHint())
		}
		if _, err := tx.Exec(ctx, "UPDATE watch_chains SET owner = $1, genesis = CASE WHEN genesis = '' THEN $2 ELSE genesis END WHERE chain = $3", f.owner, begins, int64(f.chain.ID)); err != nil {
			return err
		}
		return queryBlocks(ctx, tx, f.chain.ID, 0, func(b source.Block) { f.blocks[b.Number] = b })
	})
}

// anchor holds endpoints to the block that cannot be replaced any more. A developer's chain has none.
func (c Chain) anchor(r chainReader, state chainState) {
	if state.safeHash != "" && !c.dev() {
		r.Anchor(source.Block{Number: state.safe, Hash: common.HexToHash(state.safeHash)})
	}
}

// resetHint says how to go on with a chain that was reset.
func (f *headFollower) resetHint() string {
	return fmt.Sprintf("if it was reset on purpose, stop all processes and run lockstep watch reset --chain %d, which forgets what was read of it; with dev: true in the file that happens by itself", f.chain.ID)
}

// advance looks for new blocks once. It tells whether there were any.
func (f *headFollower) advance(ctx context.Context) (bool, error) {
	latest, err := f.source.Head(ctx)
	if err != nil {
		return false, err
	}
	f.compare(latest.Number)
	if known, ok := f.blocks[latest.Number]; ok && known.Hash == latest.Hash {
		return false, f.storeBest(ctx) // nothing new, or an endpoint that is behind
	}
	if latest.Number < f.safe {
		why := errBehind
		if f.chain.dev() {
			why = ErrReset
		}
		return false, errors.Join(fmt.Errorf("%w: block %d of chain %d was final, and its newest is %d", why, f.safe, f.chain.ID, latest.Number), f.storeBest(ctx))
	}
	safe, err := f.safeBlock(ctx, latest.Number)
	if err != nil {
		return false, err
	}
	near := map[hash]source.Block{}
	if base := max(f.head, safe); latest.Number > base+walk { // the long way from what is known, or from what is final, is gone in parts
		if latest, err = f.ahead(ctx, base, near); err != nil {
			return false, errors.Join(err, f.storeBest(ctx))
		}
	}
	fresh, ancestor, err := f.link(ctx, latest, safe, near)
	if err != nil {
		return false, err
	}
	return true, f.store(ctx, fresh, ancestor, safe)
}

// walk is how many blocks are linked with their parents in one part. What was linked is in the ledger, so a failure costs no more than that, and
// what is final is read meanwhile.
const walk = 256

// ahead reads the blocks of one part by their numbers, some at a time, and returns the last one. Whether they are each other's parents is seen by link.
func (f *headFollower) ahead(ctx context.Context, base uint64, near map[hash]source.Block) (last source.Block, err error) {
	list := make([]source.Block, walk)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * fetchers)
	for i := range list {
		group.Go(func() (err error) {
			list[i], err = f.source.Block(ctx, base+1+uint64(i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return last, fmt.Errorf("blocks %d to %d: %w", base+1, base+walk, err)
	}
	for _, b := range list {
		near[b.Hash] = b
	}
	return list[walk-1], nil
}

// compare takes the highest head that any endpoint has shown.
func (f *headFollower) compare(number uint64) {
	at := time.Now()
	if highest, shown := f.source.Highest(); !shown.IsZero() && highest >= number {
		number, at = highest, shown
	}
	if number > max(f.best, f.head) || f.bestAt.IsZero() {
		f.bestAt = at
	}
	f.best = max(number, f.head) // it falls with a reorganisation, and not because an endpoint is behind
}

// storeBest writes the highest head where it is not among what is stored.
func (f *headFollower) storeBest(ctx context.Context) error {
	if f.best == f.told {
		return nil
	}
	err := f.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error { return f.tellIn(ctx, tx, now) })
	if err == nil {
		f.told = f.best
	}
	return err
}

func (f *headFollower) tellIn(ctx context.Context, tx *ledger.Tx, now int64) error {
	_, err := tx.Exec(ctx, "UPDATE watch_chains SET best = $1, best_at = $2, pace = $3 WHERE chain = $4 AND owner = $5",
		int64(f.best), now-time.Since(f.bestAt).Microseconds(), f.blockTime().Milliseconds(), int64(f.chain.ID), f.owner)
	return err
}

// blockTime is how long the chain takes for a block, by the times of those that can still be replaced; 0: nobody knows, or nobody waits for one.
func (f *headFollower) blockTime() time.Duration {
	if len(f.blocks) < 2 || f.chain.dev() {
		return 0
	}
	first := slices.Min(slices.Collect(maps.Keys(f.blocks)))
	if first == 0 && len(f.blocks) > 2 {
		first = 1 // block 0 was not made at its time
	}
	last := f.blocks[f.head]
	if last.Number <= first || last.Time <= f.blocks[first].Time {
		return 0
	}
	return time.Duration(last.Time-f.blocks[first].Time) * time.Second / time.Duration(last.Number-first)
}

// late tells for how long the highest head has stood, and whether that is too long.
func (f *headFollower) late() (age time.Duration, late bool) {
	age = time.Since(f.bestAt)
	return age, overdue(age, f.blockTime()) > 0
}

const (
	// lateBlocks is how many blocks are due before a head is said to stand, and lateAtLeast how long it stands then: blocks of a fraction of a second
	// come in bursts.
	lateBlocks  = 5
	lateAtLeast = 10 * time.Second
)

// overdue is how many blocks a chain should have made since its head was shown, if that is worth talking about.
func overdue(age, blockTime time.Duration) uint64 {
	if blockTime <= 0 || age < lateAtLeast || age < lateBlocks*blockTime {
		return 0
	}
	return uint64(age / blockTime)
}

// safeBlock returns the highest block that cannot be replaced, below a head: what the chain says is final. A chain that has no such thing
// is taken at its depth. A call that fails says neither.
func (f *headFollower) safeBlock(ctx context.Context, head uint64) (uint64, error) {
	if f.finalized.IsZero() || time.Since(f.finalized) >= finalityEvery {
		final, err := f.source.Finalized(ctx)
		switch {
		case err == nil:
			f.finalized, f.says, f.silent = time.Now(), true, false
			if final.Number <= head {
				return max(f.safe, final.Number), nil
			}
		case !f.says && errors.Is(err, source.ErrNotFound): // it says that it has none, or does not know the tag
			f.finalized, f.silent = time.Now(), true
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case f.finalized.IsZero() && f.safe == 0:
			return 0, fmt.Errorf("what is final: %w", err)
		}
	}
	if f.silent && head > f.chain.Finality {
		return max(f.safe, head-f.chain.Finality), nil
	}
	return f.safe, nil
}

// link reads the parents of a block down to one that is known, or to what is safe. It returns the blocks that are new in
// ascending order, and the number of the block that they stand on.
func (f *headFollower) link(ctx context.Context, latest source.Block, safe uint64, near map[hash]source.Block) (fresh []source.Block, ancestor uint64, err error) {
	for b := latest; ; {
		fresh = append(fresh, b)
		if b.Number == 0 {
			break
		}
		parent, known := f.blocks[b.Number-1]
		if known && parent.Hash == b.Parent {
			break
		}
		if known && b.Number-1 <= f.safe && f.safe > 0 {
			if err := f.confirm(ctx, parent); err != nil {
				return nil, 0, err
			}
			return nil, 0, fmt.Errorf("%w: block %d of chain %d was %s and is %s; %s", ErrDeepFork, b.Number-1, f.chain.ID, parent.Hash, b.Parent, f.resetHint())
		}
		if !known && b.Number-1 < safe {
			break // what lies below is read by number
		}
		hash := b.Parent
		if read, is := near[hash]; is {
			b = read
			continue
		}
		if b, err = f.source.BlockByHash(ctx, hash); err != nil {
			return nil, 0, fmt.Errorf("parent %s: %w", hash, err)
		}
	}
	last := fresh[len(fresh)-1]
	ancestor = max(last.Number, 1) - 1
	slices.Reverse(fresh)
	return fresh, ancestor, nil
}

// errTurned means that an endpoint has turned to another chain or fork, and another one has not: its blocks are none here.
var errTurned = errors.New("an endpoint has another block where one was final, and the chain does not")

// confirm asks once more for a block that was final, where one endpoint seems to have another: it may have turned to another chain or fork since it was
// compared. It returns nil if whoever can be asked has another.
func (f *headFollower) confirm(ctx context.Context, final source.Block) error {
	if b, known := f.blocks[f.safe]; known {
		final = b // none above it was named to the endpoints
	}
	if !f.chain.dev() {
		f.source.Anchor(final)
	}
	switch b, err := f.source.Block(ctx, final.Number); {
	case err != nil:
		return fmt.Errorf("block %d, which was final: %w", final.Number, err)
	case b.Hash == final.Hash:
		return errTurned
	}
	return nil
}

// store writes new blocks, and a reorganisation if they replace others.
func (f *headFollower) store(ctx context.Context, fresh []source.Block, ancestor, safe uint64) error {
	replaced := false
	for number := range f.blocks {
		replaced = replaced || number > ancestor
	}
	fork := f.fork
	if replaced {
		fork++
	}
	head := fresh[len(fresh)-1].Number
	err := f.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		n, err := tx.Exec(ctx, "UPDATE watch_chains SET head = $1, safe = $2, fork = $3, says = $6 WHERE chain = $4 AND owner = $5",
			int64(head), int64(safe), fork, int64(f.chain.ID), f.owner, int64(bit(f.says)))
		if err != nil {
			return err
		}
		if n != 1 {
			return errDeposed
		}
		if err := f.tellIn(ctx, tx, now); err != nil {
			return err
		}
		if replaced {
			if _, err := tx.Exec(ctx, "DELETE FROM watch_blocks WHERE chain = $1 AND number > $2", int64(f.chain.ID), int64(ancestor)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO watch_forks (chain, id, ancestor, at) VALUES ($1, $2, $3, $4)", int64(f.chain.ID), fork, int64(ancestor), now); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM watch_blocks WHERE chain = $1 AND number < $2", int64(f.chain.ID), int64(safe)); err != nil {
			return err
		}
		return insertBlocks(ctx, tx, f.chain.ID, fresh)
	})
	if err != nil {
		return err
	}
	if replaced {
		f.log.WarnContext(ctx, "the chain was reorganised", "chain", f.chain.ID, "ancestor", ancestor, "head", head)
	}
	for number := range f.blocks {
		if number > ancestor || number < safe {
			delete(f.blocks, number)
		}
	}
	for _, b := range fresh {
		f.blocks[b.Number] = b
		f.pace.seen(b.Time)
	}
	f.head, f.safe, f.fork, f.told = head, safe, fork, f.best
	if final, known := f.blocks[safe]; known {
		f.chain.anchor(f.source, chainState{safe: safe, safeHash: final.Hash.Hex()})
	}
	return nil
}

// pace chooses when to look for the next block: rarely right after one, often when one is due.
type pace struct {
	least    time.Duration // between two questions, as the plan wants it
	last     time.Time     // when the newest block was seen
	interval time.Duration // between blocks, smoothed
	stamp    uint64
}

const (
	shortestPoll = 20 * time.Millisecond
	longestPoll  = time.Second
	quietPoll    = 110 * time.Millisecond // of a chain whose blocks come at once, when none comes
)

// seen notes a block.
func (p *pace) seen(stamp uint64) {
	now := time.Now()
	if !p.last.IsZero() && p.stamp != stamp {
		gap := min(now.Sub(p.last), 30*time.Second)
		p.interval += (gap - p.interval) / 4
	}
	p.last, p.stamp = now, stamp
}

// wait is how long to wait before the next question: until the next block is nearly due, and from then on a while that grows as it is late. A
// chain with a block every twelve seconds is asked less than once a second, and one on which nothing happens ten times.
func (p *pace) wait() time.Duration {
	due := p.last.Add(p.interval * 19 / 20)
	left := time.Until(due)
	if left <= 0 {
		left = max(p.interval/40, min(-left/4, max(p.interval/12, quietPoll)))
	}
	return max(min(max(left, shortestPoll), p.idle()), p.least)
}

// idle is the longest that a chain is left alone, whether it is due or announces its blocks: two seconds where they come every twelve.
func (p *pace) idle() time.Duration { return max(longestPoll, p.interval/6, p.least) }
