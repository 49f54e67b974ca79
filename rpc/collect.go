package rpc

import (
	"sync"
	"time"

	"lockstep/internal/eth"
)

// collect puts the answers of all calls together, in the order of the request.
func (ex *exchange) collect() {
	at := ex.out
	ex.out = nil
	for i := range ex.calls {
		c := &ex.calls[i]
		switch {
		case c.mode != inline && c.own == nil:
			ex.d.metrics.abandoned.WithLabelValues(c.name()).Inc()
			ex.answerFault(c, known(eth.ErrRequestTimeout()))
		case c.notification:
		case c.mode != inline:
			ex.put(c.own)
			c.own = nil
		default:
			ex.separate()
			ex.out = append(ex.out, at[c.start:c.end]...)
		}
	}
}

// put adds an answer. A long one is a piece of its own, so that it is not copied.
func (ex *exchange) put(answer []byte) {
	const long = 16 << 10
	ex.separate()
	if len(answer) < long {
		ex.out = append(ex.out, answer...)
		return
	}
	if len(ex.out) > 0 {
		ex.parts = append(ex.parts, ex.out)
	}
	ex.parts = append(ex.parts, answer)
	ex.out = nil
}

// gate takes answers until it is closed. An answer that comes later cannot change what was sent
// instead of it.
type gate struct {
	mu     sync.Mutex
	left   int  // number of answers still to come; guarded by mu
	closed bool // guarded by mu

	done chan struct{} // closed when left is 0
}

func (g *gate) deliver(store func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	store()
	if g.left--; g.left == 0 {
		close(g.done)
	}
	return true
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) waitGrace() {
	t := time.NewTimer(answerGrace)
	defer t.Stop()
	select {
	case <-g.done:
	case <-t.C:
	}
}
