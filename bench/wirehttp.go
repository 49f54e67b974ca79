package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/sleep"
)

// httpLink is an HTTP/1.1 client that writes requests in the order given. A general
// client hands each request to goroutines, whose scheduling would shuffle a burst
// before it reaches the wire; here the sending goroutine itself writes, on a
// connection that is already open, and each connection has a goroutine that reads.
type httpLink struct {
	address string
	tls     *tls.Config // nil for plain text
	head    []byte      // request line and headers up to the content length
	timeout time.Duration

	idle    chan *httpConn
	perReq  bool            // a connection carries one request
	budget  atomic.Int64    // then: how many may still be opened
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
	readers sync.WaitGroup
}

// The states of a connection. Idle connections lie in httpLink.idle; the sender that
// takes one makes it busy, the reader that has the answer puts it back.
const (
	connIdle int32 = iota
	connBusy
	connDead
)

type httpConn struct {
	net.Conn
	br    *bufio.Reader
	state atomic.Int32
	x     *exchange     // written before state becomes busy, read after
	taken chan struct{} // closed by the sender that took a dead one
	err   error         // why there is no connection; Conn is nil then
}

// dialHTTP opens the connections of a link, some at a time, and fails when the first
// of them fails: a target that is not there should say so before the clock starts.
func dialHTTP(ctx context.Context, u *url.URL, conns, perRequest int, timeout time.Duration) (*httpLink, error) {
	l := &httpLink{
		address: u.Host,
		timeout: timeout,
		perReq:  perRequest > 0,
		idle:    make(chan *httpConn, conns),
		head:    requestHead(u, perRequest > 0),
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		l.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if u.Port() == "" {
		l.address = net.JoinHostPort(u.Hostname(), port)
	}
	l.budget.Store(int64(perRequest - conns))
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))

	var group sync.WaitGroup
	var mu sync.Mutex
	var failure error
	gate := make(chan struct{}, 32)
	opened := make([]*httpConn, 0, conns)
	for range conns {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			c, err := l.open(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = errors.Join(failure, err)
				return
			}
			opened = append(opened, c)
		})
		mu.Lock()
		stop := failure != nil
		mu.Unlock()
		if stop {
			break
		}
	}
	group.Wait()
	if failure != nil {
		for _, c := range opened {
			_ = c.Close()
		}
		l.cancel()
		return nil, transportError{failure}
	}
	for _, c := range opened {
		l.readers.Go(func() { l.serve(c) })
	}
	return l, nil
}

func requestHead(u *url.URL, closing bool) []byte {
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: lockstep-bench\r\n", u.RequestURI(), u.Host)
	head.WriteString("Accept: application/json\r\nContent-Type: application/json\r\n")
	if u.User != nil {
		password, _ := u.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		fmt.Fprintf(&head, "Authorization: Basic %s\r\n", token)
	}
	if closing {
		head.WriteString("Connection: close\r\n")
	}
	head.WriteString("Content-Length: ")
	return head.Bytes()
}

// open dials one connection.
func (l *httpLink) open(ctx context.Context) (*httpConn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(l.timeout, 10*time.Second))
	defer cancel()
	var conn net.Conn
	var err error
	if l.tls != nil {
		conn, err = (&tls.Dialer{Config: l.tls}).DialContext(ctx, "tcp", l.address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	}
	if err != nil {
		return nil, err
	}
	return &httpConn{
		Conn:  conn,
		br:    bufio.NewReaderSize(conn, 1024),
		taken: make(chan struct{}),
	}, nil
}

func (l *httpLink) send(ctx context.Context, x *exchange) {
	x.start = time.Now()
	c, err := l.take(ctx, x)
	if err != nil {
		x.done(reply{at: time.Now(), err: err})
		return
	}
	msg := make([]byte, 0, len(l.head)+len(x.body)+24)
	msg = append(msg, l.head...)
	msg = strconv.AppendInt(msg, int64(len(x.body)), 10)
	msg = append(msg, "\r\n\r\n"...)
	msg = append(msg, x.body...)
	// The reader owns x from here on. It also reports a failed write, because the
	// connection is closed under it.
	if _, err := c.Write(msg); err != nil {
		_ = c.Close()
	}
}

// take waits for an idle connection and gives it x to answer. It starts the clock of
// x: waiting for a connection shows as lag, not as latency.
func (l *httpLink) take(ctx context.Context, x *exchange) (*httpConn, error) {
	for {
		var c *httpConn
		select {
		case c = <-l.idle:
		case <-ctx.Done():
			return nil, errClosed
		case <-l.ctx.Done():
			return nil, errClosed
		}
		if c.Conn != nil {
			x.start = time.Now()
			c.x = x
			_ = c.SetDeadline(x.start.Add(l.timeout))
			if c.state.CompareAndSwap(connIdle, connBusy) {
				return c, nil
			}
		}
		close(c.taken) // its reader may open the next one
		if c.err != nil {
			return nil, c.err
		}
	}
}

// serve reads one connection after another until the link closes.
func (l *httpLink) serve(c *httpConn) {
	for c != nil {
		l.converse(c)
		c = l.replace()
	}
}

// converse answers exchanges on c for as long as it lives.
func (l *httpLink) converse(c *httpConn) {
	defer context.AfterFunc(l.ctx, func() { _ = c.Close() })()
	defer func() { _ = c.Close() }()
	for {
		c.state.Store(connIdle)
		l.idle <- c // never blocks: there is a place for each reader
		_, err := c.br.Peek(1)
		if c.state.CompareAndSwap(connIdle, connDead) {
			l.waitTaken(c) // the server closed it between two requests
			l.budget.Add(1)
			return
		}
		x := c.x
		rep, keep := l.read(c.br, err)
		rep.at = time.Now()
		_ = c.SetDeadline(time.Time{})
		x.done(rep)
		if !keep || l.perReq {
			return
		}
	}
}

// read takes one response off the connection; err is what waiting for it gave. keep
// tells whether the connection can carry another request.
func (l *httpLink) read(br *bufio.Reader, err error) (rep reply, keep bool) {
	fail := func(err error) (reply, bool) {
		if l.ctx.Err() != nil {
			err = errClosed
		}
		rep.err = err
		return rep, false
	}
	if err != nil {
		return fail(err)
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = resp.Body.Close() }()
	rep.status = resp.StatusCode
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes+1))
	if err != nil {
		return fail(err)
	}
	if len(body) > maxReplyBytes {
		return fail(errTooLong)
	}
	if rep.messages, err = parseReply(body); err != nil {
		rep.err = statusError(resp.StatusCode)
		if resp.StatusCode == http.StatusOK {
			rep.err = errNotJSONRPC
		}
	}
	return rep, !resp.Close
}

// replace opens the next connection of a reader, or returns nil when there is to be
// none. A failure to connect is handed to a sender, whose request fails with it.
func (l *httpLink) replace() *httpConn {
	const firstPause, longestPause = 20 * time.Millisecond, time.Second
	for pause := firstPause; l.ctx.Err() == nil; pause = min(2*pause, longestPause) {
		if l.perReq && !l.spend() {
			return nil
		}
		c, err := l.open(l.ctx)
		if err == nil {
			return c
		}
		failed := &httpConn{err: err, taken: make(chan struct{})}
		l.idle <- failed
		l.waitTaken(failed)
		sleep.For(l.ctx, pause)
	}
	return nil
}

// spend takes one connection from the budget, if there is any left: a reader that finds
// none must not put another, which gives one back, into its debt.
func (l *httpLink) spend() bool {
	for {
		left := l.budget.Load()
		if left <= 0 {
			return false
		}
		if l.budget.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func (l *httpLink) waitTaken(c *httpConn) {
	select {
	case <-c.taken:
	case <-l.ctx.Done():
	}
}

func (l *httpLink) close() {
	l.cancel()
	l.readers.Wait()
}
