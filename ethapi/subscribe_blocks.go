package ethapi

import (
	"context"
	"encoding/json"
	"errors"

	"lockstep/internal/eth"
	"lockstep/mirror"
	"lockstep/mirror/feed"
)

// NewBlocks gives new blocks.
type NewBlocks interface {
	// Head asks for the newest block again.
	Head(ctx context.Context) (*mirror.Block, error)
	// NextBlocks returns blocks from a number on, in ascending order; none if there are
	// none yet.
	NextBlocks(ctx context.Context, first uint64) ([]*mirror.Block, error)
	// Pushes tells whether NextBlocks waits for a block.
	Pushes() bool
}

// follower makes the follower of the chain for the subscriptions.
func (s *Subscriptions) follower() *feed.Follower[*mirror.Block, *blockEvents] {
	return feed.New[*mirror.Block, *blockEvents](feed.Config{
		Interval: s.cfg.PollingInterval.Duration(), Log: s.log, Failed: s.metrics.failures.Inc, Skipped: s.metrics.skipped.Inc,
	}, s.api.mirror, blockSink{s})
}

// blockSink tells the hub of blocks.
type blockSink struct{ s *Subscriptions }

// Wanted implements feed.Sink.
func (k blockSink) Wanted() (feed.Position, func(context.Context, *mirror.Block) (*blockEvents, error)) {
	at, demanded := k.s.hub.demand()
	return feed.Position{Active: at.active, Epoch: at.epoch, Next: at.next}, func(ctx context.Context, b *mirror.Block) (*blockEvents, error) {
		return k.s.api.events(ctx, b, demanded)
	}
}

// Number implements feed.Sink.
func (blockSink) Number(b *mirror.Block) uint64 { return b.Number }

// Tell implements feed.Sink.
func (k blockSink) Tell(epoch uint64, b *mirror.Block, events *blockEvents) bool {
	if events == nil {
		events = &blockEvents{number: b.Number}
	}
	return k.s.hub.publishBlock(epoch, events)
}

// Temporary implements feed.Sink.
func (blockSink) Temporary(err error) bool {
	var upstream *mirror.Error
	return errors.As(err, &upstream) && (upstream.Status >= 500 || upstream.Status == 429)
}

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

// events reads what is wanted of a block. With feed.ErrIncomplete it also returns the events that it could read.
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
		return e, feed.ErrIncomplete
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
