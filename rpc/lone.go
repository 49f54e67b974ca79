package rpc

import (
	"bytes"
	"context"
	"time"
)

// loneExchange is an exchange with its one call, in one piece.
type loneExchange struct {
	exchange
	call [1]call
}

// setAside makes ready for a long wait, if all that ex has to wait for is the second
// half of one call: it returns an exchange in place of ex that holds on to nothing but
// what finish needs, not even the body. Thousands may wait at the same time, and what
// each of them keeps is what the server needs. It returns nil, and does nothing, for
// everything else.
func (ex *exchange) setAside() *exchange {
	if ex.batch || ex.pending != 1 || ex.calls[0].second == nil {
		return nil
	}
	c := &ex.calls[0]
	aside := &loneExchange{call: [1]call{{
		message:      message{object: true, version: true, hasMethod: true, id: bytes.Clone(c.id)},
		entry:        c.entry,
		notification: c.notification,
		second:       c.second,
	}}}
	aside.exchange = exchange{
		d: ex.d, face: ex.face, request: ex.request, started: ex.started,
		lone: true, calls: aside.call[:],
	}
	ex.pending = 0
	ex.release()
	return &aside.exchange
}

// runLone runs the second half of the one call where it is: there is nobody to answer
// in its place, so no time-out, no second goroutine, and no buffer until it ends.
func (ex *exchange) runLone(ctx context.Context) {
	c := &ex.calls[0]
	second := c.second
	ex.out = ex.d.produce(nil, ex.request, c, func() (any, error) { return second(ctx) })
	c.elapsed = time.Since(ex.started)
	if c.notification {
		ex.out = nil
	}
}
