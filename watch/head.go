package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockstep/internal/ledger"
	"lockstep/watch/source"
)

// ErrDeepFork means that blocks were replaced that the chain had called final, or that had the plan's finality. What was handed
// on cannot be taken back in order, so the chain is not followed any further.
var ErrDeepFork = errors.New("blocks were replaced that could not be replaced any more")

// ErrReset means that the chain begins with another block than it did.
var ErrReset = errors.New("this is another chain than the one that the cursors belong to")

// chainReader is what is read of a chain: package source's Pool.
type chainReader interface {
	Head(ctx context.Context) (source.Block, error)
	Finalized(ctx context.Context) (source.Block, error)
	Block(ctx context.Context, number uint64) (source.Block, error)
	BlockByHash(ctx context.Context, hash hash) (source.Block, error)
	LogsOfBlock(ctx context.Context, b source.Block, q source.Query) ([]source.Log, error)
	LogsOfRange(ctx context.Context, from, to uint64, q source.Query) ([]source.Log, source.Block, error)
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
}

// finalityEvery is how often the chain is asked what is final.
const finalityEvery = 5 * time.Second

// load reads the state of the chain, and makes it this process's.
func (f *headFollower) load(ctx context.Context) error {
	genesis, err := f.source.Block(ctx, 0)
	if err != nil {
		return err
	}
	f.blocks = map[uint64]source.Block{}
	return f.db.Write(ctx, func(tx *ledger.Tx) error {
		clear(f.blocks)
		var known string
		says := 0
		found, err := tx.One(ctx, "SELECT genesis, head, safe, says, fork FROM watch_chains WHERE chain = $1"+tx.ForUpdate(), []any{int64(f.chain.ID)}, &known, &f.head, &f.safe, &says, &f.fork)
		f.says = says == 1
		switch {
		case err != nil:
			return err
		case !found:
			f.head, f.safe, f.fork = 0, 0, 0
			_, err = tx.Exec(ctx, "INSERT INTO watch_chains (chain, genesis, head, safe, says, fork, owner) VALUES ($1, $2, 0, 0, 0, 0, $3)", int64(f.chain.ID), genesis.Hash.Hex(), f.owner)
			return err
		case known != genesis.Hash.Hex():
			return fmt.Errorf("%w: chain %d began with %s and begins with %s; if it was reset on purpose, stop all processes and run lockstep watch reset --chain %d, which forgets what was read of it", ErrReset, f.chain.ID, known, genesis.Hash, f.chain.ID)
		}
		if _, err := tx.Exec(ctx, "UPDATE watch_chains SET owner = $1 WHERE chain = $2", f.owner, int64(f.chain.ID)); err != nil {
			return err
		}
		return queryBlocks(ctx, tx, f.chain.ID, 0, func(b source.Block) { f.blocks[b.Number] = b })
	})
}

// advance looks for new blocks once. It tells whether there were any.
func (f *headFollower) advance(ctx context.Context) (bool, error) {
	latest, err := f.source.Head(ctx)
	if err != nil {
		return false, err
	}
	if known, ok := f.blocks[latest.Number]; ok && known.Hash == latest.Hash {
		return false, nil // nothing new, or an endpoint that is behind
	}
	if latest.Number < f.safe {
		return false, nil // far behind
	}
	safe, err := f.safeBlock(ctx, latest.Number)
	if err != nil {
		return false, err
	}
	fresh, ancestor, err := f.link(ctx, latest, safe)
	if err != nil {
		return false, err
	}
	return true, f.store(ctx, fresh, ancestor, safe)
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
func (f *headFollower) link(ctx context.Context, latest source.Block, safe uint64) (fresh []source.Block, ancestor uint64, err error) {
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
			return nil, 0, fmt.Errorf("%w: block %d of chain %d was %s and is %s", ErrDeepFork, b.Number-1, f.chain.ID, parent.Hash, b.Parent)
		}
		if !known && b.Number-1 < safe {
			break // what lies below is read by number
		}
		hash := b.Parent
		if b, err = f.source.BlockByHash(ctx, hash); err != nil {
			return nil, 0, fmt.Errorf("parent %s: %w", hash, err)
		}
	}
	last := fresh[len(fresh)-1]
	ancestor = max(last.Number, 1) - 1
	for i, j := 0, len(fresh)-1; i < j; i, j = i+1, j-1 {
		fresh[i], fresh[j] = fresh[j], fresh[i]
	}
	return fresh, ancestor, nil
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
	err := f.db.Write(ctx, func(tx *ledger.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE watch_chains SET head = $1, safe = $2, fork = $3, says = $6 WHERE chain = $4 AND owner = $5",
			int64(head), int64(safe), fork, int64(f.chain.ID), f.owner, int64(bit(f.says)))
		if err != nil {
			return err
		}
		if n != 1 {
			return errDeposed
		}
		if replaced {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
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
	f.head, f.safe, f.fork = head, safe, fork
	return nil
}

// pace chooses when to look for the next block: rarely right after one, often when one is due.
type pace struct {
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
	if left > 0 {
		return min(max(left, shortestPoll), max(longestPoll, p.interval/6))
	}
	return min(max(p.interval/40, min(-left/4, max(p.interval/12, quietPoll)), shortestPoll), longestPoll)
}
