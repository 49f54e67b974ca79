package rpc

import (
	"sync"
	"time"

	"lockstep/internal/eth"
)

// collect gives the calls that have not ended in time their answer.
func (ex *exchange) collect() {
	for i := range ex.calls {
		c := &ex.calls[i]
		if c.mode != inline && c.own == nil {
			ex.d.metrics.abandoned.WithLabelValues(c.name()).Inc()
			ex.answerFault(c, known(eth.ErrRequestTimeout()))
		}
		if c.notification {
			c.own = nil
		}
	}
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
