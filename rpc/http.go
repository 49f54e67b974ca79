package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/eth"
)

// HTTPOptions are what a HTTPServer serves besides JSON-RPC.
type HTTPOptions struct {
	// Handlers answer exact paths ("/metrics"), for all methods.
	Handlers map[string]http.Handler
	// Upgrade takes WebSocket upgrade requests on any other path, so that both
	// transports can share a port; nil refuses them.
	Upgrade http.Handler
}

// HTTPServer serves JSON-RPC over HTTP: POST to any path. It is a http.Handler;
// Run serves it on a listener.
type HTTPServer struct {
	d        *Dispatcher
	handlers map[string]http.Handler
	upgrade  http.Handler
	limit    int       // bytes of a body
	bodies   sync.Pool // of *[]byte

	// Header values that never change; nobody writes to them.
	anyOrigin, varyOrigin, jsonType, methods []string
}

// NewHTTPServer makes a server for d's methods.
func NewHTTPServer(d *Dispatcher, o HTTPOptions) *HTTPServer {
	return &HTTPServer{
		d:          d,
		handlers:   o.Handlers,
		upgrade:    o.Upgrade,
		limit:      d.config.HTTP.InputSizeLimit * megabyte,
		bodies:     sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }},
		anyOrigin:  []string{"*"},
		varyOrigin: []string{"Origin"},
		jsonType:   []string{"application/json; charset=utf-8"},
		methods:    []string{"GET,POST"},
	}
}

// ServeHTTP routes a request.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Vary"] = s.varyOrigin
	h["Access-Control-Allow-Origin"] = s.anyOrigin
	if handler, ok := s.handlers[r.URL.Path]; ok {
		handler.ServeHTTP(w, r)
		return
	}
	switch {
	case r.Method == http.MethodPost:
		s.serveCalls(w, r)
	case r.Method == http.MethodOptions:
		s.preflight(w, r)
	case s.upgrade != nil && isUpgrade(r):
		s.upgrade.ServeHTTP(w, r)
	default:
		h["Content-Type"] = s.jsonType
		h.Set("Allow", "POST, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
		s.write(w, []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid HTTP method: only POST is allowed"}}`))
	}
}

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// preflight answers CORS preflight requests: any page may call.
func (s *HTTPServer) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Header.Get("Access-Control-Request-Method") == "" {
		w.WriteHeader(http.StatusOK)
		s.write(w, []byte("OK"))
		return
	}
	h["Access-Control-Allow-Methods"] = s.methods
	if names := r.Header["Access-Control-Request-Headers"]; len(names) > 0 {
		h["Access-Control-Allow-Headers"] = names
	}
	w.WriteHeader(http.StatusNoContent)
}

// httpRequest is what one request needs on the heap, in one piece.
type httpRequest struct {
	requestContext
	header [1]string // the value of X-Request-Id
}

// open gives a request its identity.
func (s *HTTPServer) open(ctx context.Context, r *http.Request) (context.Context, *httpRequest) {
	req := &httpRequest{requestContext: requestContext{Context: ctx, request: Request{
		ID:        requestID(r.Header),
		IP:        clientIP(r, s.d.config.TrustProxyHeaders),
		Transport: TransportHTTP,
	}}}
	req.header[0] = req.request.ID
	return req, req
}

func (s *HTTPServer) serveCalls(w http.ResponseWriter, r *http.Request) {
	inFlight := s.d.httpInFlight
	inFlight.Inc()
	defer inFlight.Dec()

	ctx, req := s.open(r.Context(), r)
	h := w.Header()
	h["X-Request-Id"] = req.header[:]
	h["Content-Type"] = s.jsonType

	buf := s.bodies.Get().(*[]byte)
	body, err := readBody(r, *buf, s.limit)
	if err != nil {
		s.refuseBody(ctx, w, req, err)
		*buf = body[:0]
		s.bodies.Put(buf)
		return
	}
	ex := s.d.begin(ctx, TransportHTTP, &req.request, body)
	answer := ex.finish(ctx)
	status := ex.httpStatus()
	if len(answer) > 2048 { // below that net/http knows the length itself
		h["Content-Length"] = []string{strconv.Itoa(len(answer))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	s.write(w, answer)
	ex.settle(true)
	ex.observeHTTP(ctx, status)
	if ex.release() {
		s.recycle(buf, body)
	}
}

// recycle keeps a body's memory for the next request, unless it is unusually
// large.
func (s *HTTPServer) recycle(buf *[]byte, body []byte) {
	const largest = 64 << 10
	if cap(body) <= largest {
		*buf = body[:0]
		s.bodies.Put(buf)
	}
}

// write sends the last of an answer. If it fails the client is gone, and there is
// nobody to tell.
func (s *HTTPServer) write(w http.ResponseWriter, answer []byte) {
	_, _ = w.Write(answer)
}

// refuseBody answers a body that could not be read.
func (s *HTTPServer) refuseBody(ctx context.Context, w http.ResponseWriter, req *httpRequest, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, errBodyEncoding):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errBodyTooLarge) && s.d.config.Profile == ProfileEthereum:
		status = http.StatusRequestEntityTooLarge
	}
	var c call
	answer := s.d.appendFault(nil, &req.request, &c, known(eth.ErrParse()))
	w.WriteHeader(status)
	s.write(w, answer)
	s.d.metrics.methodResponse.WithLabelValues("undefined", strconv.Itoa(status)).Observe(0)
	s.d.log.DebugContext(ctx, "request body refused", "request_id", req.request.ID, "error", err)
}

// httpStatus is the status of the answer.
func (ex *exchange) httpStatus() int {
	if f, failed := ex.outcome(); failed {
		return ex.d.config.Profile.httpStatus(f, ex.d.config.ValidCallStatus)
	}
	return http.StatusOK
}

// requestID takes the client's id for the request, or makes one.
func requestID(h http.Header) string {
	for _, name := range [...]string{"Query", "Request-Id", "X-Request-Id"} {
		if list := h[name]; len(list) > 0 && usableRequestID(list[0]) {
			return list[0]
		}
	}
	return newRequestID()
}

// Slack around the request time-out, so that the server's own deadlines, which
// cut the connection, come after the answer that says the time is up.
const (
	readSlack  = 5 * time.Second
	writeSlack = 30 * time.Second
	closeSlack = 2 * time.Second
)

// Run serves on ln until ctx ends, then stops accepting and lets requests in
// progress finish for the drain time-out; after that their contexts are
// cancelled and the connections closed. It closes ln. The error is nil after a
// complete drain.
func (s *HTTPServer) Run(ctx context.Context, ln net.Listener) error {
	c := &s.d.config.HTTP
	timeout := c.RequestTimeout.Duration()
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: min(c.HeadersTimeout.Duration(), timeout),
		ReadTimeout:       timeout + readSlack,
		WriteTimeout:      2*timeout + writeSlack,
		IdleTimeout:       c.KeepAliveTimeout.Duration(),
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return calls },
		ErrorLog:          slog.NewLogLogger(s.d.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	return drainHTTP(calls, cancelCalls, server, c.DrainTimeout.Duration())
}

// drainHTTP stops the server as Run says. calls is the context of all requests.
func drainHTTP(calls context.Context, cancelCalls func(), server *http.Server, limit time.Duration) error {
	base := context.WithoutCancel(calls)
	patient, cancel := context.WithTimeout(base, limit)
	defer cancel()
	err := server.Shutdown(patient)
	if err == nil {
		return nil
	}
	cancelCalls()
	last, cancel := context.WithTimeout(base, closeSlack)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	return fmt.Errorf("drain http: %w", err)
}
