package rpc

import (
	"net/http"

	"lockstep/internal/eth"
)

// serve runs the calls of a request and answers them.
func (req *httpRequest) serve() {
	ex := req.s.d.begin(req, TransportHTTP, &req.request, req.body)
	if ex.pending > 0 {
		if s := ex.suspend(); s != nil {
			req.forget()
			ex = s.resumeOrdered()
		}
	}
	if ex.respond(req) {
		req.forget()
	}
}

// respond runs what has to wait, answers, and gives the exchange back. The result is that of release.
func (ex *exchange) respond(req *httpRequest) (bodyToo bool) {
	answer := ex.finish(req)
	status, retry := ex.httpStatus(), 0
	if status != http.StatusOK {
		retry = ex.retryAfter(status)
	}
	req.answer(status, retry, answer)
	ex.settle(true)
	ex.observeHTTP(req, status)
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
