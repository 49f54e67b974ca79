package ethapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/sleep"
	"lockstep/mirror"
)

// follower follows the blocks of the chain for all subscriptions of the process. Watchers have their own (package watch), since the
// blocks of their chains may be replaced, and these never are.
//
//   - Blocks are told in order, each once, from the hub's position, which moves only when a block was told. What fails is
//     tried again; after an outage everything that was missed comes in order.
//   - Two looks for blocks are never further apart than the interval, unless the mirror node fails: then the pause grows to
//     five seconds. Where blocks come at an even pace, three intervals apart or more, it looks more often while one is due,
//     and finds it within an eighth of the interval (rhythm).
//   - Several blocks of a backlog are read at the same time, and told one after the other.
//   - Who came while the mirror node was waiting for a block gets that block: what is wanted is asked after the blocks are known.
//   - A block that is listed, and whose content cannot be read, holds up all later ones for a number of attempts. Then
//     it is given up: what was read of it is told.
//   - A mistake in how a block is read ends neither the process nor the blocks after it.
type follower struct {
	*Subscriptions
	rhythm   rhythm
	failures int    // in a row
	stuck    uint64 // block that could not be read
	attempts int    // at reading it
}

const (
	// readAhead is how many blocks of a backlog are read at the same time.
	readAhead = 8
	// longestBackoff bounds the wait between attempts while the mirror node fails.
	longestBackoff = 5 * time.Second
	// The maximum number of attempts to read a block's content: if the fault may end by itself, and if not. Then
	// the block is given up, because all later ones wait for it.
	maxAttempts, maxHopelessAttempts = 250, 5
)

func (s *Subscriptions) follower() *follower {
	return &follower{Subscriptions: s, rhythm: rhythm{interval: s.cfg.PollingInterval.Duration()}}
}

// run follows the chain whenever somebody begins to want blocks, until the context ends.
func (f *follower) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.hub.wake:
			f.failures, f.attempts = 0, 0
			f.rhythm.lose()
			f.follow(ctx)
		}
	}
}

// follow returns when nobody needs blocks any more.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		told, active, err := f.advance(ctx)
		var pause time.Duration
		switch {
		case !active || ctx.Err() != nil:
			return
		case err != nil:
			f.rhythm.lose()
			pause = f.failed(ctx, err)
		case told > 0 && (f.api.mirror.Pushes() || told >= readAhead):
		default:
			f.rhythm.saw(began, told)
			pause = time.Until(f.rhythm.next(began))
		}
		if err == nil && f.failures > 0 {
			f.log.InfoContext(ctx, "new blocks are read again", "failures", f.failures)
			f.failures = 0
		}
		if pause > 0 {
			sleep.For(ctx, pause)
		}
	}
}

// failed notes a failure and returns how long to wait.
func (f *follower) failed(ctx context.Context, err error) time.Duration {
	f.metrics.failures.Inc()
	if f.failures++; f.failures == 1 {
		f.log.WarnContext(ctx, "new blocks cannot be read; subscribers will get them later", "error", err)
	}
	return max(f.rhythm.interval, min(longestBackoff, f.rhythm.interval*time.Duration(f.failures)))
}

// advance tells of the blocks there are. active is false when nobody needs them.
func (f *follower) advance(ctx context.Context) (told int, active bool, err error) {
	at, _ := f.hub.demand()
	if !at.active {
		return 0, false, nil
	}
	blocks, err := f.api.mirror.NextBlocks(ctx, at.next)
	if err != nil {
		return 0, true, err
	}
	if len(blocks) > 0 && blocks[0].Number != at.next {
		f.log.WarnContext(ctx, "the source of blocks has left some out", "first", at.next, "last", blocks[0].Number-1)
	}
	for len(blocks) > 0 {
		// This is asked only now, so that subscribers who came while the mirror node was waiting get these blocks.
		// Later subscribers came after the blocks.
		now, wanted := f.hub.demand()
		if !now.active || now.epoch != at.epoch {
			return told, now.active, nil
		}
		group := blocks[:min(len(blocks), readAhead)]
		blocks = blocks[len(group):]
		n, err := f.deliver(ctx, at.epoch, wanted, group)
		told += n
		if err != nil {
			return told, true, err
		}
	}
	return told, true, nil
}

// deliver reads what is in some blocks, all at once, and tells of them in order.
func (f *follower) deliver(ctx context.Context, epoch uint64, wanted demand, blocks []*mirror.Block) (told int, err error) {
	events := make([]*blockEvents, len(blocks))
	failures := make([]error, len(blocks))
	var group errgroup.Group // a failure does not end the others
	for i, b := range blocks {
		group.Go(func() error {
			events[i], failures[i] = f.read(ctx, b, wanted)
			return nil
		})
	}
	_ = group.Wait() // never fails
	for i, b := range blocks {
		if failures[i] != nil && !f.givesUp(ctx, b, failures[i]) {
			return told, failures[i]
		}
		if events[i] == nil {
			events[i] = &blockEvents{number: b.Number}
		}
		if !f.hub.publishBlock(epoch, events[i]) {
			return told, nil
		}
		told++
	}
	return told, nil
}

// read turns a panic into an error: a mistake in reading a block must not end the process.
func (f *follower) read(ctx context.Context, b *mirror.Block, wanted demand) (events *blockEvents, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, fmt.Errorf("panic while reading a block: %v", p)
		}
	}()
	return f.api.events(ctx, b, wanted)
}

// givesUp decides about a block that is listed without its content.
func (f *follower) givesUp(ctx context.Context, b *mirror.Block, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if f.stuck != b.Number {
		f.stuck, f.attempts = b.Number, 0
	}
	f.attempts++
	limit := maxHopelessAttempts
	if upstream, ok := errors.AsType[*mirror.Error](err); ok && (upstream.Status >= 500 || upstream.Status == 429) { // it may end by itself
		limit = maxAttempts
	}
	if f.attempts < limit {
		return false
	}
	if !errors.Is(err, errIncomplete) {
		f.metrics.skipped.Inc()
		f.log.ErrorContext(ctx, "a block cannot be read and subscribers do not get it", "block", b.Number, "error", err)
	}
	return true
}
