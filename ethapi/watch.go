package ethapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/eth"
	"lockstep/mirror"
)

// NewBlocks is where new blocks are learnt of.
type NewBlocks interface {
	// Head returns the newest block, asked for anew.
	Head(ctx context.Context) (*mirror.Block, error)
	// NextBlocks returns blocks from a number on, in ascending order; none if there are
	// none yet.
	NextBlocks(ctx context.Context, first uint64) ([]*mirror.Block, error)
	// Pushes tells whether NextBlocks waits for a block.
	Pushes() bool
}

const (
	// buildAhead is how many blocks of a backlog are read at the same time.
	buildAhead = 8
	// longestBackoff bounds the wait between attempts while the mirror node fails.
	longestBackoff = 5 * time.Second
	// Attempts to read what is in a block that the mirror node lists. If the fault is
	// one that repetition does not mend, fewer; then the block is given up, because
	// all later ones wait for it.
	stubborn, hopeless = 250, 5
)

// watch follows the chain. While nobody needs blocks it asks for none.
func (s *Subscriptions) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hub.wake:
			f := follower{s: s}
			f.follow(ctx)
		}
	}
}

// follower reads one block after the other, from a position that only moves when a
// block has been told: what fails is tried again, and after an outage everything that
// was missed comes in order.
type follower struct {
	s        *Subscriptions
	failures int    // in a row
	stuck    uint64 // block that could not be read
	attempts int    // at reading it
}

// follow returns when nobody needs blocks any more.
func (f *follower) follow(ctx context.Context) {
	interval := f.s.cfg.PollingInterval.Duration()
	for ctx.Err() == nil {
		began := time.Now()
		told, active, err := f.advance(ctx)
		pause := interval - time.Since(began)
		switch {
		case !active || ctx.Err() != nil:
			return
		case err != nil:
			pause = f.failed(ctx, err)
		case told > 0 && (f.s.api.mirror.Pushes() || told >= buildAhead):
			pause = 0
		}
		if err == nil && f.failures > 0 {
			f.s.log.InfoContext(ctx, "new blocks are read again", "failures", f.failures)
			f.failures = 0
		}
		if pause > 0 {
			rest(ctx, pause)
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// failed notes a failure and returns how long to wait.
func (f *follower) failed(ctx context.Context, err error) time.Duration {
	f.s.metrics.failures.Inc()
	if f.failures++; f.failures == 1 {
		f.s.log.WarnContext(ctx, "new blocks cannot be read; subscribers will get them later", "error", err)
	}
	interval := f.s.cfg.PollingInterval.Duration()
	return max(interval, min(longestBackoff, interval*time.Duration(f.failures)))
}

// advance tells of the blocks there are. active is false when nobody needs them.
func (f *follower) advance(ctx context.Context) (told int, active bool, err error) {
	at, _ := f.s.hub.wanted()
	if !at.active {
		return 0, false, nil
	}
	blocks, err := f.s.api.mirror.NextBlocks(ctx, at.next)
	if err != nil {
		return 0, true, err
	}
	if len(blocks) > 0 && blocks[0].Number != at.next {
		f.s.log.WarnContext(ctx, "the mirror node misses blocks", "first", at.next, "last", blocks[0].Number-1)
	}
	for len(blocks) > 0 {
		// Asked only now: whoever came while the mirror node was waiting is to get
		// these blocks, and whoever comes from now on came after them.
		now, wanted := f.s.hub.wanted()
		if !now.active || now.epoch != at.epoch {
			return told, now.active, nil
		}
		group := blocks[:min(len(blocks), buildAhead)]
		blocks = blocks[len(group):]
		n, err := f.tell(ctx, at.epoch, wanted, group)
		told += n
		if err != nil {
			return told, true, err
		}
	}
	return told, true, nil
}

// tell reads what is in some blocks, all at once, and tells of them in order.
func (f *follower) tell(ctx context.Context, epoch uint64, wanted wanted, blocks []*mirror.Block) (told int, err error) {
	built := make([]*blockEvents, len(blocks))
	failures := make([]error, len(blocks))
	err = each(ctx, buildAhead, blocks, func(ctx context.Context, i int, b *mirror.Block) error {
		built[i], failures[i] = f.build(ctx, b, wanted)
		return nil // the others go on
	})
	if err != nil {
		return 0, err
	}
	for i, events := range built {
		if failures[i] != nil && !f.givesUp(ctx, blocks[i], failures[i]) {
			return told, failures[i]
		}
		if events == nil {
			events = &blockEvents{number: blocks[i].Number}
		}
		if !f.s.hub.tell(epoch, events) {
			return told, nil
		}
		told++
	}
	return told, nil
}

// build reads what is wanted of a block. A mistake in how a block is read must not end
// the process, nor the blocks after it.
func (f *follower) build(ctx context.Context, b *mirror.Block, wanted wanted) (events *blockEvents, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, fmt.Errorf("panic while reading a block: %v", p)
		}
	}()
	return f.s.api.events(ctx, b, wanted)
}

// givesUp decides what becomes of a block that the mirror node lists but whose
// content it does not give.
func (f *follower) givesUp(ctx context.Context, b *mirror.Block, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if f.stuck != b.Number {
		f.stuck, f.attempts = b.Number, 0
	}
	f.attempts++
	limit := hopeless
	var upstream *mirror.Error
	if errors.As(err, &upstream) && (upstream.Status >= 500 || upstream.Status == 429) {
		limit = stubborn
	}
	if f.attempts < limit {
		return false
	}
	if !errors.Is(err, errIncomplete) {
		f.s.metrics.skipped.Inc()
		f.s.log.ErrorContext(ctx, "a block cannot be read and subscribers do not get it", "block", b.Number, "error", err)
	}
	return true
}

// wanted is what anybody wants of blocks.
type wanted struct {
	heads, fullHeads, logs bool
}

// blockEvents is what there is to tell of a block.
type blockEvents struct {
	number         uint64
	head, fullHead []byte // JSON; nil if not wanted
	logs           eth.Logs
}

// errIncomplete: the block's header says that there is something in it, and there is
// nothing. One of several mirror nodes behind an address can be behind the others.
var errIncomplete = errors.New("the mirror node lists a block and not yet what is in it")

// events reads what is wanted of a block. With errIncomplete there are events all the
// same, such as they are.
func (a *API) events(ctx context.Context, b *mirror.Block, w wanted) (*blockEvents, error) {
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

func (a *API) encodeHeads(ctx context.Context, e *blockEvents, c *contents, w wanted) (err error) {
	if w.heads {
		if e.head, err = c.block(false).AppendJSON(nil); err != nil {
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
	e.fullHead, err = c.block(true).AppendJSON(nil)
	return err
}

// wanted returns the position and what anybody wants.
func (h *hub) wanted() (position, wanted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.position, wanted{
		heads:     h.streams[want{event: eventHeads}.key()] != nil,
		fullHeads: h.streams[want{event: eventHeads, full: true}.key()] != nil,
		logs:      len(h.logs) > 0,
	}
}

// tell gives a block to its subscribers and moves on. It does nothing, and returns
// false, if those for whom the block was read have all gone.
func (h *hub) tell(epoch uint64, e *blockEvents) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.position.active || h.position.epoch != epoch {
		return false
	}
	h.position.next = e.number + 1
	h.tellHead(false, e.head)
	h.tellHead(true, e.fullHead)
	for _, l := range e.logs {
		h.tellLog(l)
	}
	h.metrics.newest.Set(float64(e.number))
	return true
}

// tellHead needs mu.
func (h *hub) tellHead(full bool, head []byte) {
	if s := h.streams[want{event: eventHeads, full: full}.key()]; s != nil && head != nil {
		h.publish(s, head)
	}
}

// tellLog needs mu. The log is encoded when the first stream wants it.
func (h *hub) tellLog(l *eth.Log) {
	var text []byte
	h.logs.find(l, func(s *stream) {
		if text == nil {
			text, _ = l.AppendJSON(nil) // has no way to fail
		}
		h.publish(s, text)
	})
}
