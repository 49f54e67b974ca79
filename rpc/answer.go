package rpc

import (
	"context"
	"net/http"
)

// waiter is a client of HTTP that waits for an answer.
type waiter interface {
	// slow says that the answer may take a while.
	slow()
	// forget says that nobody will read the body any more.
	forget()
	// answer sends the answer.
	answer(status int, answer []byte)
}

// serve runs the calls of a HTTP request and has them answered. The context must carry r.
// The result tells whether the body's memory may be used again now; if not, it is in other
// hands, or the waiter has forgotten it already.
func (d *Dispatcher) serve(ctx context.Context, r *Request, body []byte, w waiter) (reuse bool) {
	ex := d.begin(ctx, TransportHTTP, r, body)
	if ex.pending > 0 {
		w.slow()
		if a := ex.setAside(); a != nil {
			ex = a.limited()
			w.forget()
		}
	}
	answer := ex.finish(ctx)
	status := ex.httpStatus()
	w.answer(status, answer)
	ex.settle(true)
	ex.observeHTTP(ctx, status)
	return ex.release()
}

// httpStatus is the status of the answer.
func (ex *exchange) httpStatus() int {
	if f, failed := ex.outcome(); failed {
		return ex.d.config.Profile.httpStatus(f, ex.d.config.ValidCallStatus)
	}
	return http.StatusOK
}
