package rpc

import (
	"bytes"
	"context"
	"time"

	"lockstep/internal/jsonx"
)

// suspended is the rest of a request that is kept while its only call waits for its turn. Thousands of such calls
// may wait at the same time. So neither the body is kept nor, if the call is Patient, a goroutine.
type suspended struct {
	d            *Dispatcher
	endpoint     *endpoint
	request      *Request
	route        *route
	second       Finish
	id           jsonx.Value
	started      time.Time
	notification bool
}

// suspend returns what has to be kept of ex. If the request waits for anything else
// than the second phase of one call, suspend does nothing and returns nil.
func (ex *exchange) suspend() *suspended {
	if m := ex.mode(); m != ordered && m != detached {
		return nil
	}
	c := &ex.calls[0]
	return &suspended{
		d: ex.d, endpoint: ex.endpoint, request: ex.request, started: ex.started,
		route: c.route, second: c.second, id: bytes.Clone(c.id), notification: c.notification,
	}
}

// await calls f in a goroutine of its own: when the call's turn has come, or at once if the
// call cannot tell that.
func await(ctx context.Context, second Finish, f func()) {
	if p, ok := second.(Patient); ok && p.Notify(ctx, f) {
		return
	}
	go f()
}

// resume returns an exchange in place of the one that was suspended. It is kept while an ordered call waits, whose client
// waits no longer than for other calls; over WebSocket the call is detached, and its turn has come.
func (s *suspended) resume(m mode) *exchange {
	ex := &exchange{d: s.d, endpoint: s.endpoint, request: s.request, started: s.started, calls: []call{{
		message: message{object: true, version: true, hasMethod: true, id: s.id},
		route:   s.route, second: s.second, notification: s.notification, mode: m,
	}}}
	if m == ordered {
		ex.pending = 1
	}
	return ex
}

// runDetached runs the second phase of the one call in this goroutine. The call has no time-out, so
// no other goroutine has to answer for it.
func (ex *exchange) runDetached(ctx context.Context) {
	c := &ex.calls[0]
	ex.answer(c, func() (any, error) { return c.second.Run(ctx) })
}
