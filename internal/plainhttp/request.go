package plainhttp

import (
	"context"
	"time"

	"lockstep/internal/capacity"
)

// Request is a plain request that waits for its answer.
type Request struct {
	head
	c        *conn
	answered bool
	forgot   bool
	kept     bool
	holding  *capacity.Holding // nil: none was opened
	counted  int               // bytes of the body that it holds
}

// Holding is the holding that holds the body, nil if that is short. Who answers the request
// closes it.
func (r *Request) Holding() *capacity.Holding { return r.holding }

// count has the request's holding hold the room for what has arrived of a long body, and that
// for what is read next. The result is false if it cannot.
func (r *Request) count(in []byte) bool {
	const long = 8 << 10
	if r.length <= long {
		return true
	}
	if r.holding == nil {
		r.holding = r.c.l.Handler.Holding(r)
	}
	room := cap(in)
	if len(in) == room {
		room = grown(room, r.size+r.length)
	}
	more := min(room-r.size, r.length) - r.counted
	if r.holding.Take(more) != nil {
		return false
	}
	r.counted += more
	return true
}

// Context ends with the connection, and not before. That the client has gone is noticed
// after Slow.
func (r *Request) Context() context.Context { return r.c.ctx }

// RemoteAddr is the client's address and port.
func (r *Request) RemoteAddr() string { return r.c.remote }

// First returns the value of the first field of a name, which is of letters and hyphens
// in any case.
func (r *Request) First(name string) (value string, ok bool) {
	text, ok := r.first(r.c.in.bytes, name)
	return string(text), ok
}

// Last returns the value of the last field of a name, which is of letters and hyphens in
// any case.
func (r *Request) Last(name string) (value string, ok bool) {
	text, ok := r.last(r.c.in.bytes, name)
	return string(text), ok
}

// Body is the body, valid until Forget or the end of the request, and after Keep for as
// long as anybody wants it.
func (r *Request) Body() []byte {
	return r.c.in.bytes[r.size : r.size+r.length : r.size+r.length]
}

// Slow says that the answer may take a while: if the client goes meanwhile, the context
// ends.
func (r *Request) Slow() { r.c.startWatch() }

// Later says that the request may be answered after ServePlain has returned. expire is called once, in a goroutine
// of its own, if there is no answer by the deadline, or if the client goes or the context of all requests ends before.
// Either is noticed within some seconds.
func (r *Request) Later(deadline time.Time, expire func()) {
	r.c.deadline, r.c.expire = deadline, expire
}

// Done ends a request that ServePlain left to be answered later. It comes once, after Respond or instead of it, and
// nobody uses the request any more.
func (r *Request) Done() {
	if r.c.meet() {
		go r.c.resume()
	}
}

// Keep says that the body will be read even after the request.
func (r *Request) Keep() { r.kept = true }

// Forget says that neither body nor fields will be read any more, so that a request that
// waits holds no memory of them.
func (r *Request) Forget() {
	if r.forgot {
		return
	}
	r.forgot = true
	in := &r.c.in
	in.discard(r.size + r.length)
	in.release()
}

// parse tells what in begins with.
func (r *Request) parse(in []byte) verdict {
	v := r.head.parse(in)
	l := r.c.l
	switch {
	case v != plain:
		return v
	case r.length > l.BodyLimit || !l.Handler.Takes(r.path.of(in)):
		return odd
	case !r.count(in):
		return odd
	case len(in) < r.size+r.length:
		return partial
	}
	return plain
}

// finish releases the request. An answer that was not given leaves the client waiting
// for nothing, so its connection ends.
func (r *Request) finish() {
	c := r.c
	c.failed = c.failed || !r.answered
	switch {
	case r.forgot:
	case r.kept:
		c.in.leave(r.size + r.length)
	default:
		c.in.discard(r.size + r.length)
	}
	r.answered, r.forgot, r.kept = false, false, false
	r.holding, r.counted = nil, 0
}
