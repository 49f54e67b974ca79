package rpc

import (
	"net/http"
	"strconv"
	"time"

	"lockstep/internal/capacity"
	"lockstep/internal/plainhttp"
)

// plainServer answers the requests that do not need net/http.
type plainServer struct{ *HTTPServer }

// plainRequest is all that such a request needs on the heap, in one allocation.
type plainRequest struct {
	requestContext
	s plainServer
	r *plainhttp.Request
}

// Takes leaves the paths of other handlers to net/http.
func (s plainServer) Takes(path []byte) bool {
	_, other := s.handlers[string(path)]
	return !other
}

// Holding opens the holding of a request whose body is long.
func (s plainServer) Holding(r *plainhttp.Request) *capacity.Holding {
	return s.d.memory.Open(clientIP(r, r.RemoteAddr(), s.d.proxies))
}

// ServePlain answers a plain request.
func (s plainServer) ServePlain(r *plainhttp.Request) (later bool) {
	req := &plainRequest{s: s, r: r, requestContext: requestContext{Context: r.Context()}}
	s.begin(&req.requestContext, r, r.RemoteAddr(), r.Holding())
	defer func() {
		if !later {
			s.end(&req.requestContext)
		}
	}()
	var f fault
	var ok bool
	if req.request.holder, f, ok = s.d.identify(r); !ok {
		s.d.refuse(&req.request, f, req)
		return false
	}
	switch s.d.serve(req, &req.request, r.Body(), req) {
	case servedKeep:
		r.Keep()
	case servedParked:
		return true
	case servedReuse:
	}
	return false
}

func (req *plainRequest) leave(deadline time.Time, expire func()) bool {
	req.r.Later(deadline, expire)
	return true
}

// done ends a request that was answered later.
func (req *plainRequest) done() {
	req.s.end(&req.requestContext)
	req.r.Done()
}

func (req *plainRequest) slow()   { req.r.Slow() }
func (req *plainRequest) forget() { req.r.Forget() }

func (req *plainRequest) answer(status, retry int, answer [][]byte) {
	further := ""
	switch {
	case retry > 0:
		further = retryHeader + ": " + strconv.Itoa(retry) + "\r\n"
	case status == http.StatusUnauthorized:
		further = authenticateHeader + ": Bearer\r\n"
	}
	req.r.Respond(status, answer, further, "Access-Control-Allow-Origin: "+anyOrigin+"\r\n"+
		"Content-Type: "+jsonType+"\r\n"+
		"Vary: "+varyOrigin+"\r\n"+
		"X-Request-Id: ", req.request.ID, "\r\n")
}
