package rpc

import (
	"bytes"
	"context"
	"time"
)

// aside is what is kept of an exchange while all that it has to wait for is the second
// half of one call. Thousands may wait at the same time, and what each of them keeps is
// what the server needs: so it is neither the body nor, if the call is Patient, a
// goroutine.
type aside struct {
	d            *Dispatcher
	face         *face
	request      *Request
	entry        *entry
	second       Finish
	id           Value
	started      time.Time
	notification bool
}

// setAside gives ex back for reuse and returns what has to be kept of it meanwhile. It
// returns nil, and does nothing, if there is more to wait for than one second half.
func (ex *exchange) setAside() *aside {
	if ex.batch || ex.pending != 1 || ex.calls[0].second == nil {
		return nil
	}
	c := &ex.calls[0]
	a := &aside{
		d: ex.d, face: ex.face, request: ex.request, started: ex.started,
		entry: c.entry, second: c.second, id: bytes.Clone(c.id), notification: c.notification,
	}
	ex.pending = 0
	ex.release()
	return a
}

// await calls f in a goroutine of its own: when the call's turn has come, if that can be
// told, else at once.
func await(ctx context.Context, second Finish, f func()) {
	if p, ok := second.(Patient); ok && p.Notify(ctx, f) {
		return
	}
	go f()
}

// resume returns an exchange in place of the one that was set aside, ready for finish.
func (a *aside) resume() *exchange {
	ex := a.d.exchanges.Get().(*exchange)
	ex.lone = true
	a.restore(ex, extend(ex.calls))
	return ex
}

// limited returns an exchange in place of the one that was set aside, for a client that
// waits no longer than for other calls. It is held meanwhile, so it is as small as can be.
func (a *aside) limited() *exchange {
	small := &struct {
		exchange
		call [1]call
	}{}
	a.restore(&small.exchange, small.call[:])
	small.pending, small.call[0].pending = 1, true
	return &small.exchange
}

// restore puts what was kept into an exchange, whose only call is the first of calls.
func (a *aside) restore(ex *exchange, calls []call) {
	ex.d, ex.face, ex.request, ex.started, ex.calls = a.d, a.face, a.request, a.started, calls
	c := &calls[0]
	c.message = message{object: true, version: true, hasMethod: true, id: a.id}
	c.entry, c.second, c.notification = a.entry, a.second, a.notification
}

// runLone runs the second half of the one call where it is: there is nobody to answer
// in its place, so no time-out and no second goroutine.
func (ex *exchange) runLone(ctx context.Context) {
	c := &ex.calls[0]
	ex.answer(c, func() (any, error) { return c.second.Run(ctx) })
}
