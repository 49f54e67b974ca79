package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

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
