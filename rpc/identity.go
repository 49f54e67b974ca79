package rpc

import (
	"net/http"

	"github.com/google/uuid"

	"lockstep/internal/clientip"
)

// first returns the value of the first field of a name in its canonical form.
func first(h http.Header, name string) (string, bool) {
	if list := h[name]; len(list) > 0 {
		return list[0], true
	}
	return "", false
}

// begin gives a request its identity and its holding, and counts it. remote is the socket's address. Call end after the
// answer.
func (s *HTTPServer) begin(c *requestContext, h http.Header, remote string) {
	s.d.httpInFlight.Inc()
	c.request = Request{ID: requestID(h), IP: clientip.Of(h, remote, s.d.proxies), Transport: TransportHTTP}
	c.open(s.d)
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
func requestID(h http.Header) string {
	for _, name := range [...]string{"Query", "Request-Id", "X-Request-Id"} {
		if id, ok := first(h, name); ok && usableRequestID(id) {
			return id
		}
	}
	return uuid.NewString()
}
