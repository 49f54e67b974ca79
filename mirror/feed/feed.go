package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/sleep"
)

// Source gives blocks.
type Source[B any] interface {
	// NextBlocks returns blocks from a number on, in ascending order; none if there are
	// none yet. The first may have a higher number if the source misses some.
	NextBlocks(ctx context.Context, first uint64) ([]B, error)
	// Pushes tells whether NextBlocks waits for a block.
	Pushes() bool
}

// Position is from where on blocks are wanted.
type Position struct {
	Active bool   // anybody wants blocks
	Epoch  uint64 // of this position's beginning
	Next   uint64 // number of the first block not told of
}

// Sink is told of blocks. Its methods are safe for concurrent use.
type Sink[B, E any] interface {
	// Wanted returns the position, and a function that reads the wanted content of a block. Several calls of that
	// function may run at the same time.
	Wanted() (Position, func(ctx context.Context, block B) (E, error))
	// Number is the number of a block.
	Number(block B) uint64
	// Tell tells of a block and moves the position behind it. It does nothing, and returns
	// false, if the epoch has ended. Of a block that was given up, events is what Wanted's
	// function returned with its error.
	Tell(epoch uint64, block B, events E) bool
	// Temporary tells whether an error may end by itself.
	Temporary(err error) bool
}

// ErrIncomplete says that a source lists a block but not its content yet: one of several servers behind an
// address can lag. The events that come with it are told when the block is given up.
var ErrIncomplete = errors.New("a block is listed, and not yet what is in it")

// Config is how blocks are followed.
type Config struct {
	Interval time.Duration // maximum between two looks for new blocks; while one is due they are closer
	Log      *slog.Logger
	Failed   func() // is called for each attempt that failed
	Skipped  func() // is called for each block that was given up and could not be read
}

const (
	// readAhead is how many blocks of a backlog are read at the same time.
	readAhead = 8
	// longestBackoff bounds the wait between attempts while the source fails.
	longestBackoff = 5 * time.Second
	// The maximum number of attempts to read a block's content: if the fault may end by itself, and if not. Then
	// the block is given up, because all later ones wait for it.
	maxAttempts, maxHopelessAttempts = 250, 5
)

// Follower reads one block after the other. Its position is the sink's.
type Follower[B, E any] struct {
	cfg      Config
	source   Source[B]
	sink     Sink[B, E]
	rhythm   rhythm
	failures int    // in a row
	stuck    uint64 // block that could not be read
	attempts int    // at reading it
}

// New makes a follower. It starts nothing.
func New[B, E any](cfg Config, source Source[B], sink Sink[B, E]) *Follower[B, E] {
	return &Follower[B, E]{cfg: cfg, source: source, sink: sink, rhythm: rhythm{interval: cfg.Interval}}
}

// Run follows the chain whenever it is woken, as long as the sink wants blocks, until the
// context ends. It returns nil.
func (f *Follower[B, E]) Run(ctx context.Context, wake <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			f.failures, f.attempts = 0, 0
			f.rhythm.lose()
			f.follow(ctx)
		}
	}
}

// follow returns when nobody needs blocks any more.
func (f *Follower[B, E]) follow(ctx context.Context) {
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
		case told > 0 && (f.source.Pushes() || told >= readAhead):
		default:
			f.rhythm.saw(began, told)
			pause = time.Until(f.rhythm.next(began))
		}
		if err == nil && f.failures > 0 {
			f.cfg.Log.InfoContext(ctx, "new blocks are read again", "failures", f.failures)
			f.failures = 0
		}
		if pause > 0 {
			sleep.For(ctx, pause)
		}
	}
}

// failed notes a failure and returns how long to wait.
func (f *Follower[B, E]) failed(ctx context.Context, err error) time.Duration {
	f.cfg.Failed()
	if f.failures++; f.failures == 1 {
		f.cfg.Log.WarnContext(ctx, "new blocks cannot be read; subscribers will get them later", "error", err)
	}
	return max(f.cfg.Interval, min(longestBackoff, f.cfg.Interval*time.Duration(f.failures)))
}

// advance tells of the blocks there are. active is false when nobody needs them.
func (f *Follower[B, E]) advance(ctx context.Context) (told int, active bool, err error) {
	at, _ := f.sink.Wanted()
	if !at.Active {
		return 0, false, nil
	}
	blocks, err := f.source.NextBlocks(ctx, at.Next)
	if err != nil {
		return 0, true, err
	}
	if len(blocks) > 0 && f.sink.Number(blocks[0]) != at.Next {
		f.cfg.Log.WarnContext(ctx, "the source of blocks has left some out", "first", at.Next, "last", f.sink.Number(blocks[0])-1)
	}
	for len(blocks) > 0 {
		// This is asked only now, so that subscribers who came while the source was waiting get these blocks.
		// Later subscribers came after the blocks.
		now, read := f.sink.Wanted()
		if !now.Active || now.Epoch != at.Epoch {
			return told, now.Active, nil
		}
		group := blocks[:min(len(blocks), readAhead)]
		blocks = blocks[len(group):]
		n, err := f.deliver(ctx, at.Epoch, read, group)
		told += n
		if err != nil {
			return told, true, err
		}
	}
	return told, true, nil
}

// deliver reads what is in some blocks, all at once, and tells of them in order.
func (f *Follower[B, E]) deliver(ctx context.Context, epoch uint64, read func(context.Context, B) (E, error), blocks []B) (told int, err error) {
	events := make([]E, len(blocks))
	failures := make([]error, len(blocks))
	var group errgroup.Group // a failure does not end the others
	for i, b := range blocks {
		group.Go(func() error {
			events[i], failures[i] = safely(ctx, read, b)
			return nil
		})
	}
	_ = group.Wait() // never fails
	for i, b := range blocks {
		if failures[i] != nil && !f.givesUp(ctx, b, failures[i]) {
			return told, failures[i]
		}
		if !f.sink.Tell(epoch, b, events[i]) {
			return told, nil
		}
		told++
	}
	return told, nil
}

// safely turns a panic into an error: a mistake in reading a block must not end the process.
func safely[B, E any](ctx context.Context, read func(context.Context, B) (E, error), b B) (events E, err error) {
	defer func() {
		if p := recover(); p != nil {
			var none E
			events, err = none, fmt.Errorf("panic while reading a block: %v", p)
		}
	}()
	return read(ctx, b)
}

// givesUp decides about a block that the source lists without giving its content.
func (f *Follower[B, E]) givesUp(ctx context.Context, b B, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	number := f.sink.Number(b)
	if f.stuck != number {
		f.stuck, f.attempts = number, 0
	}
	f.attempts++
	limit := maxHopelessAttempts
	if f.sink.Temporary(err) {
		limit = maxAttempts
	}
	if f.attempts < limit {
		return false
	}
	if !errors.Is(err, ErrIncomplete) {
		f.cfg.Skipped()
		f.cfg.Log.ErrorContext(ctx, "a block cannot be read and subscribers do not get it", "block", number, "error", err)
	}
	return true
}
