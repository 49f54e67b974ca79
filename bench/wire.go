package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
)

// maxReplyBytes bounds one answer of a target.
const maxReplyBytes = 32 << 20

// A link carries JSON-RPC messages to one URL. Messages leave in the order of the
// send calls of one goroutine: this is what makes the load's nonce order a fact about
// the target and not about the generator.
type link interface {
	// send writes x to the wire and returns. x.done is called exactly once, from any
	// goroutine, possibly before send returns.
	send(ctx context.Context, x *exchange)
	// close drops the connections; what is unanswered fails with errClosed. It returns
	// when every done has been called.
	close()
}

// An exchange is one call and its answer.
type exchange struct {
	body  []byte
	id    uint64
	lane  int // a WebSocket link keeps the messages of a lane on one connection
	start time.Time
	done  func(reply)
}

// A reply is the answer to an exchange, or the reason why there is none.
type reply struct {
	message
	at  time.Time
	err error
}

// A message is one JSON-RPC response.
type message struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is the error object of a response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, printable(e.Message)) }

var (
	errClosed     = errors.New("cancelled before the answer")
	errTimeout    = errors.New("no answer in time")
	errNotJSONRPC = errors.New("the answer is not JSON-RPC")
	errTooLong    = errors.New("the answer is too long")
)

// statusError is an HTTP status whose body is not JSON-RPC.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

// id returns the numeric id of m; ok is false for null and foreign ids.
func (m message) id() (id uint64, ok bool) {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	return id, err == nil
}

// parseReply decodes a response.
func parseReply(body []byte) (m message, err error) {
	if err = json.Unmarshal(body, &m); err == nil && m.Result == nil && m.Error == nil {
		err = errNotJSONRPC
	}
	return m, err
}

// linkOptions say what a link is to have.
type linkOptions struct {
	conns   int // connections, all of them open when dial returns
	largest int // bytes of the largest message over HTTP
	timeout time.Duration
}

// dial opens a link to rawURL.
func dial(ctx context.Context, rawURL string, o linkOptions) (link, error) {
	u, err := parseURL(rawURL, targetSchemes...)
	if err != nil {
		return nil, err
	}
	if overWS(u) {
		return dialWS(ctx, u, o.conns, o.timeout)
	}
	return dialHTTP(ctx, u, o)
}

// transportError is a failure of the transport that may be shown: it has the name of its
// class for a message.
type transportError struct{ err error }

func (e transportError) Error() string { return transportClass(e.err) }
func (e transportError) Unwrap() error { return e.err }

// transportClass names a failure of the transport by its kind: a bounded set, and
// without the addresses that the messages of package net contain.
func transportClass(err error) string {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var netErr net.Error
	var status statusError
	var closing *websocket.CloseError
	switch {
	case errors.As(err, &status), errors.Is(err, errNotJSONRPC), errors.Is(err, errTooLong):
		return err.Error()
	case errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return errClosed.Error()
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return errTimeout.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.As(err, &closing) && closing.Code != websocket.CloseAbnormalClosure: // which no server sends
		return fmt.Sprintf("WebSocket closed with code %d", closing.Code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "connection closed without an answer"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "out of file descriptors here"
	case errors.As(err, &certificate), errors.As(err, &record):
		return "TLS refused"
	case errors.As(err, &dns):
		return "unknown host"
	}
	return "transport failure"
}

// httpLink sends requests over HTTP/1.1 in the order given. net/http hands each request to goroutines of its own, whose
// scheduling would shuffle a burst before it reaches the wire: so a send returns when its request is written.
type httpLink struct {
	url     string
	client  *http.Client
	timeout time.Duration
	dialled time.Time
	ready   chan net.Conn   // opened before the clock starts, and not used yet
	ctx     context.Context // ends with close
	cancel  context.CancelCauseFunc
	answers sync.WaitGroup
}

const (
	connectTimeout = 10 * time.Second
	// readyFor is how long a connection may lie before its first use: servers close those on which nothing comes.
	readyFor = 5 * time.Second
	// headRoom is more than the head of a request takes.
	headRoom = 4 << 10
)

// wireConn says when a request is written. One that fits the buffer of net/http is written at once.
type wireConn struct {
	net.Conn
	wrote func() // of the request that it carries
}

func (c *wireConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote()
	return n, err
}

// dialHTTP opens the connections of a link, some at a time, and fails when the first
// of them fails: a target that is not there should say so before the clock starts.
func dialHTTP(ctx context.Context, u *url.URL, o linkOptions) (*httpLink, error) {
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), u.Scheme) // whose port has that name
	}
	dial := new(net.Dialer).DialContext
	if u.Scheme == "https" {
		dial = (&tls.Dialer{Config: &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}).DialContext
	}
	open := func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, min(o.timeout, connectTimeout))
		defer cancel()
		conn, err := dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &wireConn{Conn: conn}, nil
	}
	l := &httpLink{url: u.String(), timeout: o.timeout, ready: make(chan net.Conn, o.conns)}
	next := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case conn := <-l.ready:
			if time.Since(l.dialled) < readyFor {
				return conn, nil
			}
			_ = conn.Close()
		default:
		}
		return open(ctx)
	}
	l.client = &http.Client{
		Transport: &http.Transport{
			DialContext: next, DialTLSContext: next, MaxConnsPerHost: o.conns, MaxIdleConnsPerHost: o.conns,
			DisableCompression: true, WriteBufferSize: o.largest + headRoom,
		},
		CheckRedirect: noRedirect,
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	group, opening := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for range o.conns {
		group.Go(func() error {
			conn, err := open(opening)
			if err == nil {
				l.ready <- conn
			}
			return err
		})
	}
	err := group.Wait()
	if l.dialled = time.Now(); err != nil {
		l.close()
		return nil, transportError{err}
	}
	return l, nil
}

// send starts the clock of x when there is a connection: waiting for one shows as lag, not as latency.
func (l *httpLink) send(ctx context.Context, x *exchange) {
	x.start = time.Now()
	asking, end := context.WithCancelCause(l.ctx)
	waits := context.AfterFunc(ctx, func() { end(errClosed) })
	written := make(chan struct{})
	wrote := sync.OnceFunc(func() { close(written) })
	late := time.AfterFunc(math.MaxInt64, func() { end(errTimeout) })
	asking = httptrace.WithClientTrace(asking, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		waits()
		x.start = time.Now()
		late.Reset(l.timeout)
		got.Conn.(*wireConn).wrote = wrote
	}})
	l.answers.Go(func() {
		defer end(nil)
		defer late.Stop()
		rep := l.ask(asking, x.body)
		rep.at = time.Now()
		waits()
		wrote()
		x.done(rep)
	})
	<-written
}

// ask sends a request and reads its answer.
func (l *httpLink) ask(ctx context.Context, body []byte) (rep reply) {
	fail := func(err error) reply {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		rep.err = err
		return rep
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header = http.Header{"User-Agent": {"lockstep-bench"}, "Accept": {"application/json"}, "Content-Type": {"application/json"}}
	resp, err := l.client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes+1))
	if err != nil {
		return fail(err)
	}
	if len(text) > maxReplyBytes {
		return fail(errTooLong)
	}
	if rep.message, err = parseReply(text); err != nil {
		rep.err = statusError(resp.StatusCode)
		if resp.StatusCode == http.StatusOK {
			rep.err = errNotJSONRPC
		}
	}
	return rep
}

func (l *httpLink) close() {
	l.cancel(errClosed)
	l.answers.Wait()
	l.client.CloseIdleConnections()
	for {
		select {
		case conn := <-l.ready:
			_ = conn.Close()
		default:
			return
		}
	}
}

// wsLink multiplexes messages over a fixed set of WebSocket connections; a lane stays
// on one of them, so its messages arrive in the order sent. A connection that drops is
// not replaced: what was planned for it goes unanswered, and the report says so.
type wsLink struct {
	conns   []*wsConn
	readers sync.WaitGroup
}

type wsConn struct {
	conn    *websocket.Conn
	timeout time.Duration

	writing sync.Mutex // one message is written at a time

	mu      sync.Mutex
	waiting map[uint64]wsCall // by id; guarded by mu
	failure error             // why the connection is over; guarded by mu
}

// A wsCall is an exchange that waits. Whoever removes it from waiting calls done.
type wsCall struct {
	*exchange
	timer *time.Timer
}

func dialWS(ctx context.Context, u *url.URL, conns int, timeout time.Duration) (*wsLink, error) {
	header := http.Header{"User-Agent": {"lockstep-bench"}}
	target := *u
	if u.User != nil {
		password, _ := u.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		header.Set("Authorization", "Basic "+token)
		target.User = nil
	}
	dialer := websocket.Dialer{HandshakeTimeout: min(timeout, 10*time.Second)}
	l := &wsLink{}
	for range conns {
		conn, resp, err := dialer.DialContext(ctx, target.String(), header)
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		if err != nil {
			l.close()
			if resp != nil {
				return nil, statusError(resp.StatusCode)
			}
			return nil, transportError{err}
		}
		conn.SetReadLimit(maxReplyBytes)
		c := &wsConn{conn: conn, timeout: timeout, waiting: make(map[uint64]wsCall)}
		l.conns = append(l.conns, c)
		l.readers.Go(c.read)
	}
	return l, nil
}

func (l *wsLink) send(ctx context.Context, x *exchange) {
	l.conns[x.lane%len(l.conns)].send(ctx, x)
}

func (l *wsLink) close() {
	for _, c := range l.conns {
		c.fail(errClosed)
	}
	l.readers.Wait()
}

func (c *wsConn) send(ctx context.Context, x *exchange) {
	c.writing.Lock()
	defer c.writing.Unlock()
	x.start = time.Now()
	if err := c.enter(ctx, x); err != nil {
		x.done(reply{at: time.Now(), err: err})
		return
	}
	_ = c.conn.SetWriteDeadline(x.start.Add(c.timeout))
	if err := c.conn.WriteMessage(websocket.TextMessage, x.body); err != nil {
		c.fail(err)
	}
}

// enter registers x for its answer.
func (c *wsConn) enter(ctx context.Context, x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return errClosed
	}
	if c.failure != nil {
		return c.failure
	}
	c.waiting[x.id] = wsCall{x, time.AfterFunc(c.timeout, func() { c.finish(x.id, reply{err: errTimeout}) })}
	return nil
}

// finish answers the call with that id unless something else did.
func (c *wsConn) finish(id uint64, rep reply) {
	c.mu.Lock()
	call, waits := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if waits {
		call.timer.Stop()
		rep.at = time.Now()
		call.done(rep)
	}
}

// fail ends the connection and everything that waits on it. The first reason stays.
func (c *wsConn) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	reason, calls := c.failure, slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	_ = c.conn.Close()
	for _, id := range calls {
		c.finish(id, reply{err: reason})
	}
}

// read hands out answers until the connection ends.
func (c *wsConn) read() {
	for {
		_, body, err := c.conn.ReadMessage()
		if err != nil {
			if _, closing := errors.AsType[*websocket.CloseError](err); closing {
				err = errors.Join(err, net.ErrClosed)
			}
			c.fail(err)
			return
		}
		// What is no answer to a call nobody can be told; the time-out speaks for it.
		if m, err := parseReply(body); err == nil {
			if id, ok := m.id(); ok {
				c.finish(id, reply{message: m})
			}
		}
	}
}
