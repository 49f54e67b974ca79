package rpc

import (
	"net/http"

	"lockstep/internal/capacity"
)

// header is the header fields of a request.
type header interface {
	// First returns the value of the first field of a name in its canonical form.
	First(name string) (value string, ok bool)
	// Last returns the value of the last field of that name.
	Last(name string) (value string, ok bool)
}

// netHeader is the header of a request of net/http.
type netHeader http.Header

// First implements header.
func (h netHeader) First(name string) (string, bool) {
	if list := h[name]; len(list) > 0 {
		return list[0], true
	}
	return "", false
}

// Last implements header.
func (h netHeader) Last(name string) (string, bool) {
	if list := h[name]; len(list) > 0 {
		return list[len(list)-1], true
	}
	return "", false
}

// begin gives a request of any front its identity and its holding, and counts it. remote is the socket's address.
// The holding is nil unless it was opened already, for a long body. Call end after the answer.
func (s *HTTPServer) begin(c *requestContext, h header, remote string, holding *capacity.Holding) {
	s.d.httpInFlight.Inc()
	c.request = Request{
		ID:        requestID(h),
		IP:        clientIP(h, remote, s.d.proxies),
		Transport: TransportHTTP,
		holding:   holding,
	}
	if holding == nil {
		c.open(s.d)
	}
	if s.d.tracer.Enabled() {
		c.beginSpan(s.d, h, remote)
	}
}

// end ends a request that has begun.
func (s *HTTPServer) end(c *requestContext) {
	c.request.holding.Close()
	c.request.span.End(nil)
	s.d.httpInFlight.Dec()
}

// requestID takes the client's id for the request, or makes one.
func requestID(h header) string {
	for _, name := range [...]string{"Query", "Request-Id", "X-Request-Id"} {
		if id, ok := h.First(name); ok && usableRequestID(id) {
			return id
		}
	}
	return newRequestID()
}
