package rpc

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
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

var (
	errBodyTooLarge = errors.New("request body is over the size limit")
	errBodyEncoding = errors.New("unsupported content encoding")
)

// readBody reads a request's body, decompressed. Neither the body as sent nor the decompressed
// body may be longer than limit bytes. Memory grows with what has arrived, not with what was announced.
func readBody(r *http.Request, limit int, holding *capacity.Holding) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, errBodyTooLarge
	}
	encoding := r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return readAll(r.Body, limit, holding)
	}
	src, err := decompress(encoding, io.LimitReader(r.Body, int64(limit)))
	if err != nil {
		return nil, err
	}
	return readAll(src, limit, holding)
}

func decompress(encoding string, src io.Reader) (io.Reader, error) {
	in := bufio.NewReader(src)
	switch strings.ToLower(encoding) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip body: %w", err)
		}
		return z, nil
	case "deflate":
		// Senders disagree whether deflate has the zlib header.
		head, err := in.Peek(2)
		if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			z, err := zlib.NewReader(in)
			if err != nil {
				return nil, fmt.Errorf("deflate body: %w", err)
			}
			return z, nil
		}
		return flate.NewReader(in), nil
	}
	return nil, errBodyEncoding
}

// readAll reads src to its end, or fails once it is longer than limit bytes, or than the
// holding allows.
func readAll(src io.Reader, limit int, holding *capacity.Holding) (buf []byte, err error) {
	counted := 0
	hold := func(bytes int) error {
		more := bytes - counted
		counted = max(counted, bytes)
		return holding.Take(more)
	}
	for {
		if len(buf) == cap(buf) {
			room := max(2*cap(buf), 512)
			if room > limit {
				room = limit + 1 // to see that it is too long
			}
			if over := hold(room); over != nil {
				return buf, over
			}
			buf = append(make([]byte, 0, room), buf...)
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if over := hold(len(buf)); over != nil {
			return buf, over
		}
		switch {
		case len(buf) > limit:
			return buf, errBodyTooLarge
		case err == io.EOF: //nolint:errorlint // the contract of io.Reader
			return buf, nil
		case err != nil:
			return buf, fmt.Errorf("read body: %w", err)
		}
	}
}

const (
	// shortHead is the part of the head of a request that is not counted, in bytes of memory.
	shortHead = 4 << 10
	// fieldCost is about what net/http needs for one field of a head, besides its text, in bytes.
	fieldCost = 160
)

// guarded is a listener of net/http whose connections pass admission, and that counts the heads of requests against the memory of
// their clients. net/http bounds a head in bytes of text, but a text of 32 KB can have eight thousand fields, which take more than
// a megabyte for as long as the request lasts.
type guarded struct {
	net.Listener
	d *Dispatcher
}

// guard puts the listener of a server behind the limits of connections and of their heads.
func (d *Dispatcher) guard(server *http.Server, ln net.Listener) net.Listener {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*guardedConn); ok {
			c.changed(state)
		}
	}
	return guarded{ln, d}
}

// Accept returns the next connection that is let in.
func (l guarded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.d.admission.enter(conn); ok {
			return &guardedConn{Conn: conn, leave: leave, memory: l.d.memory}, nil
		}
	}
}

// guardedConn is a connection of a guarded listener. Its fields but for past belong to the goroutine that serves it.
type guardedConn struct {
	net.Conn
	leave   func() // of admission
	memory  *capacity.Memory
	holding *capacity.Holding // of the head at hand; nil: it is short
	cost    int               // of the head at hand, in bytes of memory
	blank   bool              // nothing but a line's end has come since the last one
	past    atomic.Bool       // what comes is no head
	muted   bool              // it is a WebSocket's, whose send queue writes to Conn
	spoke   bool              // the WebSocket library wanted to write, for the client broke the protocol
}

// Close closes the connection.
func (c *guardedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// errMuted is what the WebSocket library gets for what it writes after the handshake: it answers a client that breaks the protocol by
// itself, and that would come into the middle of a frame of the send queue.
var errMuted = errors.New("the send queue writes")

// Write writes.
func (c *guardedConn) Write(p []byte) (int, error) {
	if c.muted {
		c.spoke = true
		return 0, errMuted
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn.
func (c *guardedConn) SetWriteDeadline(t time.Time) error {
	if c.muted {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite closes the side of the server. net/http does so before it closes a connection whose request it has not read, since
// the client would lose the answer otherwise.
func (c *guardedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read reads, and fails if the head at hand takes more memory than there is for its client.
func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.past.Load() {
		return n, err
	}
	if !c.count(p[:n]) {
		return 0, errLongHead
	}
	return n, err
}

var errLongHead = errors.New("the head of a request takes more memory than there is for its client")

// count counts some of a head. The result tells whether there is memory for it.
func (c *guardedConn) count(text []byte) bool {
	before := c.cost
	for i := 0; i < len(text) && !c.past.Load(); i++ {
		c.cost++
		switch text[i] {
		case '\r':
		case '\n':
			c.cost += fieldCost
			c.past.Store(c.blank) // the empty line behind a head
			c.blank = true
		default:
			c.blank = false
		}
	}
	if c.cost <= shortHead {
		return true
	}
	if c.holding == nil {
		before = 0
		c.holding = c.memory.Open(clientip.Of(nil, c.RemoteAddr().String(), nil))
	}
	return c.holding.Take(c.cost-before) == nil
}

// changed is told what the server does with the connection. A head is in memory until its request is over.
func (c *guardedConn) changed(state http.ConnState) {
	switch state {
	case http.StateNew, http.StateActive:
		return
	case http.StateIdle:
		c.past.Store(false)
	case http.StateHijacked, http.StateClosed:
		c.past.Store(true)
	}
	c.holding.Close()
	c.holding, c.cost, c.blank = nil, 0, false
}
