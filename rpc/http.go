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
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/clientip"
	"lockstep/internal/eth"
	"lockstep/internal/httpserve"
	"lockstep/internal/relay/capacity"
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
	limit    int // bytes of a body
	leaving  atomic.Bool

	closeSlack time.Duration // for the answers to calls that were cancelled when the server stopped
}

const (
	jsonType    = "application/json; charset=utf-8"
	retryHeader = "Retry-After"
)

// NewHTTPServer makes a server for d's methods.
func NewHTTPServer(d *Dispatcher, o HTTPOptions) *HTTPServer {
	return &HTTPServer{
		d:          d,
		handlers:   o.Handlers,
		upgrade:    o.Upgrade,
		limit:      d.config.HTTP.InputSizeLimit * megabyte,
		closeSlack: closeSlack,
	}
}

// Leave makes every later answer end its connection, so that clients go elsewhere before the port closes.
// Requests are answered as before.
func (s *HTTPServer) Leave() { s.leaving.Store(true) }

// ServeHTTP routes a request.
func (s *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if s.leaving.Load() {
		h.Set("Connection", "close")
	}
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", "*")
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
		h.Set("Content-Type", jsonType)
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
	h.Set("Access-Control-Allow-Methods", "GET,POST")
	if names := r.Header["Access-Control-Request-Headers"]; len(names) > 0 {
		h["Access-Control-Allow-Headers"] = names
	}
	w.WriteHeader(http.StatusNoContent)
}

// httpRequest is a request, and where its answer goes.
type httpRequest struct {
	requestContext
	s *HTTPServer
	w http.ResponseWriter
}

func (s *HTTPServer) serveCalls(w http.ResponseWriter, r *http.Request) {
	req := &httpRequest{s: s, w: w, requestContext: requestContext{Context: r.Context()}}
	s.begin(&req.requestContext, r.Header, r.RemoteAddr)
	defer s.end(&req.requestContext)
	w.Header().Set("X-Request-Id", req.request.ID)
	w.Header().Set("Content-Type", jsonType)

	var f fault
	var ok bool
	if req.request.holder, f, ok = s.d.identify(r.Header); !ok {
		req.refuse(f)
		return
	}
	body, err := readBody(r, s.limit, req.request.holding)
	if err != nil {
		s.refuseBody(req, err)
		return
	}
	req.serve(body)
}

// answer sends the pieces of the answer one after the other. The client should ask again after retry seconds; 0 means
// that this is not known.
func (req *httpRequest) answer(status, retry int, answer [][]byte) {
	length := 0
	for _, part := range answer {
		length += len(part)
	}
	if length > 2048 { // below that net/http knows the length itself
		req.w.Header().Set("Content-Length", strconv.Itoa(length))
	}
	if retry > 0 {
		req.w.Header().Set(retryHeader, strconv.Itoa(retry))
	}
	if status == http.StatusUnauthorized {
		req.w.Header().Set(authenticateHeader, "Bearer")
	}
	if status != http.StatusOK {
		req.w.WriteHeader(status)
	}
	for _, part := range answer {
		req.s.write(req.w, part)
	}
}

// write sends the last piece of an answer. If it fails the client is gone, so nobody is told.
func (s *HTTPServer) write(w http.ResponseWriter, answer []byte) {
	_, _ = w.Write(answer)
}

// refuseBody answers a body that could not be read.
func (s *HTTPServer) refuseBody(req *httpRequest, err error) {
	status, f := http.StatusBadRequest, known(eth.ErrParse)
	switch exceeded := (*capacity.Exceeded)(nil); {
	case errors.As(err, &exceeded):
		f = overCapacity(exceeded)
		status = s.d.config.Profile.httpStatus(f, s.d.config.ValidCallStatus)
		req.w.Header().Set(retryHeader, "1")
		req.w.Header().Set("Connection", "close") // or net/http would wait for the rest first
	case errors.Is(err, errBodyEncoding):
		status = http.StatusUnsupportedMediaType
	case errors.Is(err, errBodyTooLarge) && s.d.config.Profile == ProfileEthereum:
		status = http.StatusRequestEntityTooLarge
	}
	var c call
	answer := s.d.faultAnswer(&req.request, &c, f)
	req.w.WriteHeader(status)
	s.write(req.w, answer)
	s.d.metrics.methodResponse.WithLabelValues("undefined", strconv.Itoa(status)).Observe(0)
	s.d.log.DebugContext(req, "request body refused", "request_id", req.request.ID, "error", err)
}

// Slack after the request time-out: the server's own deadlines, which cut the connection, must come after the
// time-out's answer.
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
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	server := s.d.server(calls, s)
	server.WriteTimeout = 2*c.RequestTimeout.Duration() + writeSlack
	server.RegisterOnShutdown(func() { time.AfterFunc(c.DrainTimeout.Duration(), cancelCalls) })
	err := httpserve.Until(ctx, server, s.d.guard(server, ln), c.DrainTimeout.Duration()+s.closeSlack)
	if err == nil && calls.Err() != nil {
		err = errors.New("requests were still in progress")
	}
	if err != nil {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// server is what the servers of both transports have in common. The context is that of their requests.
func (d *Dispatcher) server(requests context.Context, handler http.Handler) *http.Server {
	c := &d.config.HTTP
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: min(c.HeadersTimeout.Duration(), c.RequestTimeout.Duration()),
		ReadTimeout:       c.RequestTimeout.Duration() + readSlack,
		IdleTimeout:       c.KeepAliveTimeout.Duration(),
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
}

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
