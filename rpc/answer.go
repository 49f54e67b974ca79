package rpc

import (
	"net/http"

	"lockstep/internal/eth"
)

// serve runs the calls of a request and answers them.
func (req *httpRequest) serve(body []byte) {
	ex := req.s.d.begin(req, TransportHTTP, &req.request, body)
	if ex.pending > 0 {
		ex.suspend()
	}
	ex.respond(req)
}

// respond runs what has to wait, and answers.
func (ex *exchange) respond(req *httpRequest) {
	answer := ex.finish(req)
	status, retry := ex.httpStatus(), 0
	if status != http.StatusOK {
		retry = ex.retryAfter(status)
	}
	req.answer(status, retry, answer)
	ex.settle(true)
	ex.observeHTTP(req, status)
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
