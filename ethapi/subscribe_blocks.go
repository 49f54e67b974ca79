package ethapi

import (
	"context"
	"encoding/json"
	"errors"

	"lockstep/internal/eth"
	"lockstep/mirror"
)

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
