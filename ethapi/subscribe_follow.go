package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
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
//     it is given up: what was read of it is told. What a new block still lacks is waited for until the block is a minute old.
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
	// The same for a block whose content is not listed yet: half a minute.
	maxIncompleteAttempts = 12
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
	limit, incomplete := maxHopelessAttempts, errors.Is(err, errIncomplete)
	if upstream, ok := errors.AsType[*mirror.Error](err); ok && (upstream.Status >= 500 || upstream.Status == 429) { // it may end by itself
		limit = maxAttempts
	} else if incomplete {
		limit = maxIncompleteAttempts
	}
	if f.attempts < limit || errors.Is(err, mirror.ErrImmature) && !b.Settled() {
		return false
	}
	if incomplete {
		f.log.WarnContext(ctx, "subscribers get a block without what must be in it: the mirror node does not list that", "block", b.Number)
	} else {
		f.metrics.skipped.Inc()
		f.log.ErrorContext(ctx, "a block cannot be read and subscribers do not get it", "block", b.Number, "error", err)
	}
	return true
}

// errIncomplete says that the mirror node lists a block but not its content yet: one of several behind an address can lag. The events that
// come with it are told when the block is given up.
var errIncomplete = errors.New("a block is listed, and not yet what is in it")

// demand is what all subscribers together want of blocks.
type demand struct {
	heads, fullHeads, logs bool
}

// blockEvents are the events of a block.
type blockEvents struct {
	number         uint64
	head, fullHead []byte // JSON; nil if not wanted
	logs           []*eth.Log
}

// events reads what is wanted of a block. With errIncomplete it also returns the events that it could read.
func (a *API) events(ctx context.Context, b *mirror.Block, w demand) (*blockEvents, error) {
	e := &blockEvents{number: b.Number}
	var c *contents
	var logs []*mirror.Log
	t, taskCtx := parallel(ctx, 2)
	if w.logs && b.Count > 0 {
		t.run(func() (err error) { logs, err = a.mirror.BlockLogs(taskCtx, b, mirror.LogsQuery{}); return err })
	}
	if w.heads || w.fullHeads {
		t.run(func() (err error) { c, err = a.contents(taskCtx, b); return err })
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	e.logs = buildLogs(logs)
	incomplete := w.logs && len(logs) == 0 && b.HasLogs() || c != nil && len(c.entries) == 0 && b.GasUsed > 0
	if c != nil {
		if err := a.encodeHeads(ctx, e, c, w); err != nil {
			return nil, err
		}
	}
	if incomplete {
		return e, errIncomplete
	}
	return e, nil
}

func (a *API) encodeHeads(ctx context.Context, e *blockEvents, c *contents, w demand) (err error) {
	if w.heads {
		if e.head, err = json.Marshal(c.block(false)); err != nil {
			return err
		}
	}
	if !w.fullHeads {
		return nil
	}
	c.learnSenders(a)
	if err := a.aliases(ctx, c.transactionAddresses()...); err != nil {
		return err
	}
	e.fullHead, err = json.Marshal(c.block(true))
	return err
}

// demand returns the position and what anybody wants.
func (h *hub) demand() (position, demand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.position, demand{
		heads:     h.streams[interest{event: eventHeads}.key()] != nil,
		fullHeads: h.streams[interest{event: eventHeads, full: true}.key()] != nil,
		logs:      len(h.logs) > 0,
	}
}

// publishBlock gives a block to its subscribers and moves on. It does nothing, and returns false, if all subscribers for
// whom the block was read have gone.
func (h *hub) publishBlock(epoch uint64, e *blockEvents) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.position.active || h.position.epoch != epoch {
		return false
	}
	h.position.next = e.number + 1
	h.publishHead(false, e.head)
	h.publishHead(true, e.fullHead)
	for _, l := range e.logs {
		h.publishLog(l)
	}
	h.metrics.newest.Set(float64(e.number))
	return true
}

// publishHead needs mu.
func (h *hub) publishHead(full bool, head []byte) {
	if s := h.streams[interest{event: eventHeads, full: full}.key()]; s != nil && head != nil {
		h.publish(head, s)
	}
}

// publishLog needs mu. The log is encoded if any stream wants it.
func (h *hub) publishLog(l *eth.Log) {
	wanted := h.matching[:0]
	h.logs.find(l, func(s *stream) { wanted = append(wanted, s) })
	if len(wanted) > 0 {
		text, _ := json.Marshal(l) // never fails
		h.publish(text, wanted...)
	}
	clear(wanted)
	h.matching = wanted
}

// rhythm tells when to look for the next block of a source that answers. Looks are never further apart than the interval. Most chains close
// blocks at an even pace, so a block is due some time after the one before it; around that moment looks are close
// together, and a block is found soon after it came. A chain without an even pace is looked at once in an interval.
type rhythm struct {
	interval time.Duration // between two looks when no block is due

	empty  time.Time     // of the latest look that found nothing
	came   time.Time     // when the latest block came, as far as known: up to one look too early or too late
	period time.Duration // from one block to the next, on average
	even   int           // blocks in a row that came when they were due
}

const (
	// closeLooks is how many looks there are in an interval in which a block is due.
	closeLooks = 8
	// enoughEven is how many blocks have to come evenly before the next one is said to be due.
	enoughEven = 3
	// minIntervals is how many intervals lie between two blocks, at least, for close looks to be worth their price. With a
	// block in four intervals there are six looks instead of four.
	minIntervals = 3
	// smoothing is the weight of the average over the latest gap between two blocks.
	smoothing = 8
)

// step is the time between two looks while a block is due.
func (r *rhythm) step() time.Duration { return r.interval / closeLooks }

// saw notes a look and how many blocks it found.
func (r *rhythm) saw(look time.Time, blocks int) {
	switch {
	case blocks == 0:
		r.empty = look
		return
	case blocks > 1: // a backlog says nothing about the pace
		r.lose()
		return
	}
	came := look
	if look.Sub(r.empty) > r.step()*3/2 {
		came = came.Add(-r.step()) // it came some time before this look: the next one is looked for earlier
	}
	if r.came.IsZero() {
		r.came = came
		return
	}
	gap := came.Sub(r.came)
	r.came = came
	if (gap - r.period).Abs() > r.interval { // a look that is not close tells a gap no better than this
		r.period, r.even = gap, 0
		return
	}
	r.period += (gap - r.period) / smoothing
	r.even++
}

// lose forgets the pace, after a failure or a backlog.
func (r *rhythm) lose() { *r = rhythm{interval: r.interval} }

// next returns when to look again after a look.
func (r *rhythm) next(look time.Time) time.Time {
	usual := look.Add(r.interval)
	if r.even < enoughEven || r.period < minIntervals*r.interval {
		return usual
	}
	due := r.came.Add(r.period)
	first := due.Add(-2 * r.step())
	switch {
	case !usual.After(first):
		return usual
	case look.Before(first):
		return first
	case look.Before(due.Add(r.interval)):
		return look.Add(r.step())
	default: // it is late: the chain has changed its pace, or stands still
		return usual
	}
}
