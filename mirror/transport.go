package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func httpClient(config *Config, transport http.RoundTripper) *http.Client {
	if transport == nil {
		dialer := &net.Dialer{Timeout: config.Timeout.Duration(), KeepAlive: config.KeepAliveInterval.Duration()}
		transport = &plainTransport{
			others: &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           dialer.DialContext,
				ForceAttemptHTTP2:     true,
				DisableKeepAlives:     !config.KeepAlive,
				MaxConnsPerHost:       config.MaxSockets,
				MaxIdleConnsPerHost:   config.MaxSockets,
				MaxIdleConns:          config.MaxTotalSockets,
				IdleConnTimeout:       config.SocketTimeout.Duration(),
				TLSHandshakeTimeout:   config.Timeout.Duration(),
				ResponseHeaderTimeout: config.Timeout.Duration(),
			},
			proxy: http.ProxyFromEnvironment, dial: dialer.DialContext, keepAlive: config.KeepAlive,
			idleTime: config.SocketTimeout.Duration(), mostIdle: config.MaxTotalSockets, mostOpen: config.MaxSockets,
		}
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > config.MaxRedirects {
				return errRedirects
			}
			if first := via[0].URL; next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
				return errRedirectHost // our secrets and our requests go to one host
			}
			return nil
		},
	}
}

var (
	errRedirects    = errors.New("too many redirects")
	errRedirectHost = errors.New("redirected to another host")
)

// request is one exchange with a mirror node.
type request struct {
	label   string // the path with its variables left out, for metrics
	service service
	outside bool   // path is not below /api/v1/
	path    string // with its query
	body    []byte // nil for GET
	retries int    // at least this many, whatever is configured
	longest int64  // bytes of the answer; 0: as many as is configured
	waits   bool   // the mirror node may take its time: no hedge
	probe   bool   // no caller learns what it tells
	zipped  bool   // the mirror node gives it only to who takes it compressed
}

// attempt makes a request of one mirror node, once, and gives the body of a success to
// read. The reader and views of it end with read.
func (c *Client) attempt(ctx context.Context, u *upstream, q request, read func(*reader) any) (value any, err error) {
	started := time.Now()
	status := 0
	defer func() {
		c.metrics.observe(q.label, status, err, time.Since(started))
		c.settle(ctx, u, q, err)
	}()

	timed, cancel := context.WithTimeout(ctx, c.config.Timeout.Duration())
	defer cancel()
	answer, err := c.send(timed, u.door(q.service).base, q)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	status = answer.StatusCode

	buffer := c.spare()
	defer c.recycle(buffer)
	longest := c.config.MaxBody
	if q.longest > 0 {
		longest = min(longest, q.longest)
	}
	if err := readAll(buffer, answer, longest); err != nil {
		return nil, c.unanswered(ctx, err)
	}
	switch {
	case status == http.StatusNotFound && q.body == nil:
		return nil, ErrNotFound
	case status < 200 || status > 299:
		e := errorOf(status, buffer.Bytes())
		e.retryAfter = retryAfter(answer.Header, time.Now())
		return nil, e
	}
	r := reader{b: buffer.Bytes()}
	value = read(&r)
	if err := r.end(); err != nil {
		return nil, &Error{Status: StatusUnreadable, Message: "unreadable answer", Detail: err.Error(), cause: err}
	}
	if r.newest > 0 {
		u.saw(r.newest)
		c.tide.saw(r.newest, !q.probe)
	}
	return value, nil
}

func (c *Client) send(ctx context.Context, base string, q request) (*http.Response, error) {
	if q.outside {
		base = strings.TrimSuffix(base, apiPrefix) + "/"
	}
	method, body := http.MethodGet, io.Reader(nil)
	if q.body != nil {
		method, body = http.MethodPost, bytes.NewReader(q.body)
	}
	r, err := http.NewRequestWithContext(ctx, method, base+q.path, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", errors.Unwrap(err))
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.zipped {
		r.Header.Set(acceptEncoding, "gzip")
	}
	c.setHeaders(ctx, r.Header)
	answer, err := c.http.Transport.RoundTrip(r)
	if err != nil || answer.StatusCode/100 != 3 {
		return answer, err
	}
	// Redirects are rare and the machinery for them is not free: only now is it used.
	_ = answer.Body.Close()
	if r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, fmt.Errorf("repeat request: %w", err)
		}
	}
	return c.http.Do(r)
}

func (c *Client) setHeaders(ctx context.Context, h http.Header) {
	if c.config.AuthHeader != "" {
		h.Set("Authorization", c.config.AuthHeader.Reveal())
	}
	if c.config.APIKey != "" {
		h.Set("X-Api-Key", c.config.APIKey.Reveal())
	}
	if c.config.Modularized != "" {
		h.Set("Is-Modularized", c.config.Modularized)
	}
	if c.origin == nil {
		return
	}
	origin := c.origin(ctx)
	if origin.RequestID != "" {
		h.Set("Requestid", origin.RequestID)
	}
	if ip := net.ParseIP(origin.ClientIP); ip != nil {
		h.Set("Forwarded", forwarded(ip))
	}
}

func forwarded(ip net.IP) string {
	if ip.To4() == nil {
		return `for="[` + ip.String() + `]"`
	}
	return `for="` + ip.String() + `"`
}

// unanswered classifies a request without an answer. If the caller gave up, that
// is what happened. What the transport says may name hosts and stays inside.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Status: StatusNoAnswer, Message: "no answer", cause: err}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		e.Status = StatusTimeout
		e.Message = fmt.Sprintf("timeout of %dms exceeded", c.config.Timeout.Duration().Milliseconds())
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = "connection refused"
	case errors.Is(err, ErrTooLong):
		e.Status, e.Message = StatusUnreadable, ErrTooLong.Error()
	case errors.Is(err, errRedirects), errors.Is(err, errRedirectHost):
		e.Status, e.Message = StatusUnreadable, "redirect refused"
	}
	return e
}

// spare returns a buffer for an answer, used before where possible.
func (c *Client) spare() *bytes.Buffer {
	if b, ok := c.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

// recycle keeps a buffer of ordinary size.
func (c *Client) recycle(b *bytes.Buffer) {
	const largest = 1 << 20
	if b.Cap() <= largest {
		b.Reset()
		c.buffers.Put(b)
	}
}

func readAll(buffer *bytes.Buffer, answer *http.Response, longest int64) error {
	if length := answer.ContentLength; length > longest {
		return ErrTooLong
	} else if length > 0 {
		buffer.Grow(int(length) + bytes.MinRead)
	}
	n, err := buffer.ReadFrom(io.LimitReader(answer.Body, longest+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if n > longest {
		return ErrTooLong
	}
	return nil
}

func statusLabel(status int, err error) string {
	var e *Error
	switch {
	case status != 0:
		return strconv.Itoa(status)
	case errors.As(err, &e):
		return strconv.Itoa(e.Status)
	default:
		return "canceled"
	}
}
