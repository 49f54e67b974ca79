package rpc

import (
	"context"
	"net/http"

	"lockstep/internal/eth"
)

// waiter is an HTTP client that waits for an answer.
type waiter interface {
	// slow says that the answer may take a while.
	slow()
	// forget says that the body will not be read again.
	forget()
	// answer sends the pieces of the answer one after the other. The client should ask again after
	// retry seconds; 0 means that this is not known.
	answer(status, retry int, answer [][]byte)
}

// serve runs the calls of an HTTP request and answers them. The context must carry r. The result tells whether
// the caller may use the body's memory again. If not, a call still reads it, or the waiter was told to forget it.
func (d *Dispatcher) serve(ctx context.Context, r *Request, body []byte, w waiter) (reuse bool) {
	ex := d.begin(ctx, TransportHTTP, r, body)
	if ex.pending > 0 {
		w.slow()
		if s := ex.suspend(); s != nil {
			ex = s.resumeOrdered()
			w.forget()
		}
	}
	answer := ex.finish(ctx)
	status, retry := ex.httpStatus(), 0
	if status != http.StatusOK {
		retry = ex.retryAfter(status)
	}
	w.answer(status, retry, answer)
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

// retryAfter returns the seconds after which a refused client may try again; 0 if waiting changes nothing.
func (ex *exchange) retryAfter(status int) int {
	f, _ := ex.outcome()
	switch {
	case f.code == eth.CodeRateLimited && ex.request.holder != nil:
		return int(keyWindow.Seconds())
	case f.code == eth.CodeRateLimited:
		return max(1, int(ex.d.config.RateLimit.Window.Duration().Seconds()))
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return 1
	}
	return 0
}
