package rpc

import "net/http"

// header is the fields that came with a request.
type header interface {
	// First returns the value of the first field of a name in its canonical form.
	First(name string) (value string, ok bool)
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

// identify tells what is known of a request before it is read. The remote address is that
// of the socket.
func (s *HTTPServer) identify(h header, remote string) Request {
	return Request{
		ID:        requestID(h),
		IP:        clientIP(h, remote, s.d.config.TrustProxyHeaders),
		Transport: TransportHTTP,
	}
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
