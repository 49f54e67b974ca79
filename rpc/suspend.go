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

// suspend gives ex back for reuse and returns what has to be kept of it. If the request waits for anything else
// than the second phase of one call, suspend does nothing and returns nil.
func (ex *exchange) suspend() *suspended {
	if m := ex.mode(); m != ordered && m != detached {
		return nil
	}
	c := &ex.calls[0]
	s := &suspended{
		d: ex.d, endpoint: ex.endpoint, request: ex.request, started: ex.started,
		route: c.route, second: c.second, id: bytes.Clone(c.id), notification: c.notification,
	}
	ex.pending = 0
	ex.release()
	return s
}

// await calls f in a goroutine of its own: when the call's turn has come, or at once if the
// call cannot tell that.
func await(ctx context.Context, second Finish, f func()) {
	if p, ok := second.(Patient); ok && p.Notify(ctx, f) {
		return
	}
	go f()
}

// resume returns an exchange in place of the one that was suspended, for a call over WebSocket whose turn has come. It is
// one of those that are used again.
func (s *suspended) resume() *exchange {
	ex := s.d.exchanges.Get().(*exchange)
	s.restore(ex, extend(ex.calls), detached)
	return ex
}

// resumeOrdered returns an exchange in place of the one that was suspended. It is kept while the call
// waits, so it has room for one call only. The client waits no longer than for other calls.
func (s *suspended) resumeOrdered() *exchange {
	small := &struct {
		exchange
		call [1]call
	}{}
	s.restore(&small.exchange, small.call[:], ordered)
	small.pending = 1
	return &small.exchange
}

// restore puts what was kept into an exchange, whose only call is the first of calls.
func (s *suspended) restore(ex *exchange, calls []call, m mode) {
	ex.d, ex.endpoint, ex.request, ex.started, ex.calls = s.d, s.endpoint, s.request, s.started, calls
	c := &calls[0]
	c.message = message{object: true, version: true, hasMethod: true, id: s.id}
	c.route, c.second, c.notification, c.mode = s.route, s.second, s.notification, m
}

// runDetached runs the second phase of the one call in this goroutine. The call has no time-out, so
// no other goroutine has to answer for it.
func (ex *exchange) runDetached(ctx context.Context) {
	c := &ex.calls[0]
	ex.answer(c, func() (any, error) { return c.second.Run(ctx) })
}
