package watch

import (
	"context"
	"slices"

	"lockstep/watch/source"
)

// ahead is a long range that is read while the one before it is written. It is one range, not more, and nobody but the
// next step sees it: a step whose plan differs reads for itself.
type ahead struct {
	span   span
	cancel context.CancelFunc
	done   chan struct{} // closed when the rest is there
	found  []*occurrence
	last   source.Block
	err    error
}

// readAhead begins to read what follows a span that was read up to a block.
func (w *worker) readAhead(ctx context.Context, s span, last source.Block, safe uint64) {
	next := s
	next.from = last.Number + 1
	next.to = min(next.from+w.longest()-1, safe)
	if s.blocks != nil || next.from > next.to {
		return
	}
	a := &ahead{span: next, done: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	w.ahead = a
	go func() {
		defer close(a.done)
		a.found, a.last, a.err = w.read(ctx, next)
	}()
}

// dropAhead ends what is read ahead, and returns when it has ended.
func (w *worker) dropAhead() {
	if w.ahead != nil {
		w.ahead.cancel()
		<-w.ahead.done
		w.ahead = nil
	}
}

// fetch reads the events of a span, unless they were read ahead. A long range may come out shorter.
func (w *worker) fetch(ctx context.Context, s span) ([]*occurrence, source.Block, error) {
	a := w.ahead
	if a == nil || !a.covers(s) {
		w.dropAhead()
		return w.read(ctx, s)
	}
	<-a.done
	w.dropAhead()
	return a.found, a.last, a.err
}

// covers tells whether what is read ahead is what a span begins with, for the same contracts.
func (a *ahead) covers(s span) bool {
	if s.blocks != nil || s.from != a.span.from || s.to < a.span.to || !slices.Equal(s.units, a.span.units) || len(s.contracts) != len(a.span.contracts) {
		return false
	}
	known := make(map[*contract]struct{}, len(s.contracts))
	for _, c := range a.span.contracts {
		known[c] = struct{}{}
	}
	return !slices.ContainsFunc(s.contracts, func(c *contract) bool { _, in := known[c]; return !in })
}
