package rpc

import (
	"context"
	"net/http"
	"time"

	"lockstep/internal/eth"
)

// waiter is an HTTP client that waits for an answer.
type waiter interface {
	// slow says that the answer may take a while.
	slow()
	// forget says that the body will not be read again.
	forget()
	// leave tells whether serve may return before the answer. expire is then called some seconds after the deadline
	// at the latest, or when the client has gone, or all are to go. done follows the answer.
	leave(deadline time.Time, expire func()) bool
	done()
	// answer sends the pieces of the answer one after the other. The client should ask again after
	// retry seconds; 0 means that this is not known.
	answer(status, retry int, answer [][]byte)
}

// served is what is left to do for a request when serve returns.
type served int

const (
	servedReuse  served = iota // the caller may use the body's memory again
	servedKeep                 // a call still reads the body, or the waiter was told to forget it
	servedParked               // nothing: the request is answered later, and the waiter was told to forget its body
)

// serve runs the calls of an HTTP request and answers them. The context must carry r.
func (d *Dispatcher) serve(ctx context.Context, r *Request, body []byte, w waiter) served {
	ex := d.begin(ctx, TransportHTTP, r, body)
	if ex.pending > 0 {
		s := ex.suspend()
		if s != nil {
			w.forget()
			if s.park(ctx, w) {
				return servedParked
			}
			ex = s.resumeOrdered()
		}
		w.slow()
	}
	if ex.respond(ctx, w) {
		return servedReuse
	}
	return servedKeep
}

// respond runs what has to wait, answers, and gives the exchange back. The result is that of release.
func (ex *exchange) respond(ctx context.Context, w waiter) (bodyToo bool) {
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
