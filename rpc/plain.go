package rpc

import "lockstep/internal/plainhttp"

// plainServer answers the requests that net/http is not needed for.
type plainServer struct{ *HTTPServer }

// plainRequest is what such a request needs on the heap, in one piece.
type plainRequest struct {
	requestContext
	r *plainhttp.Request
}

// Takes leaves the paths of other handlers to net/http.
func (s plainServer) Takes(path []byte) bool {
	_, other := s.handlers[string(path)]
	return !other
}

// ServePlain is serveCalls for plain requests.
func (s plainServer) ServePlain(r *plainhttp.Request) {
	inFlight := s.d.httpInFlight
	inFlight.Inc()
	defer inFlight.Dec()
	req := &plainRequest{r: r, requestContext: requestContext{
		Context: r.Context(),
		request: s.identify(r, r.RemoteAddr()),
	}}
	if !s.d.serve(req, &req.request, r.Body(), req) {
		r.Keep()
	}
}

func (req *plainRequest) slow()   { req.r.Slow() }
func (req *plainRequest) forget() { req.r.Forget() }

func (req *plainRequest) answer(status int, answer []byte) {
	req.r.Respond(status, answer, "Access-Control-Allow-Origin: "+anyOrigin+"\r\n"+
		"Content-Type: "+jsonType+"\r\n"+
		"Vary: "+varyOrigin+"\r\n"+
		"X-Request-Id: ", req.request.ID, "\r\n")
}
