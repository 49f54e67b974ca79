package fetch

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
	"sync/atomic"
	"syscall"
	"time"

	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
)

// longestHeader bounds an answer's status line and headers, in bytes.
const longestHeader = 256 << 10

func httpClient(config *Config, transport http.RoundTripper) *http.Client {
	if transport == nil {
		dialer := &net.Dialer{Timeout: config.Timeout.Duration(), KeepAlive: config.KeepAliveInterval.Duration()}
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      !config.KeepAlive,
			MaxConnsPerHost:        config.MaxSockets,
			MaxIdleConnsPerHost:    config.MaxSockets,
			MaxIdleConns:           config.MaxTotalSockets,
			IdleConnTimeout:        config.SocketTimeout.Duration(),
			TLSHandshakeTimeout:    config.Timeout.Duration(),
			ResponseHeaderTimeout:  config.Timeout.Duration(),
			MaxResponseHeaderBytes: longestHeader,
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

// NewestBlock is the path of a list of the newest block alone, which probes ask for.
const NewestBlock = "blocks?limit=1&order=desc"

// Request is one exchange with a mirror node.
type Request struct {
	Label    string // the path with its variables left out, for metrics
	Service  Service
	Outside  bool   // Path is not below /api/v1/
	Path     string // with its query
	Body     []byte // nil for GET
	Retries  int    // the minimum, whatever is configured
	MaxBytes int64  // of the answer; 0: as many as is configured
	Waits    bool   // a slow answer is normal: no hedge
	Zipped   bool   // the mirror node sends this only compressed

	probe bool // no caller learns its result
}

// attempt sends a request to one mirror node, and gives the body of a success to read. It repeats the request if
// the answer is of a history that is gone.
func (f *Fetcher) attempt(ctx context.Context, u *upstream, q Request, read Read) (value any, err error) {
	const maxAttempts = 3
	for range maxAttempts {
		if value, err = f.attemptOnce(ctx, u, q, read); err != errGone { //nolint:errorlint // made in checkGeneration, never wrapped
			return value, err
		}
	}
	return nil, f.unanswered(ctx, errGone)
}

func (f *Fetcher) attemptOnce(ctx context.Context, u *upstream, q Request, read Read) (value any, err error) {
	slot, err := f.slot(ctx, u.address(q.Service), q)
	if err != nil {
		return nil, err
	}
	defer slot.free()
	started := time.Now()
	status := 0
	ctx, span := telemetry.StartCall(ctx, q.Label)
	defer func() {
		f.metrics.observe(ctx, q.Label, status, err, time.Since(started))
		endSpan(span, u, status, err)
		f.settle(ctx, u, q, started, err)
	}()

	timed, cancel := context.WithTimeout(ctx, f.config.Timeout.Duration())
	defer cancel()
	answer, err := f.send(timed, u.address(q.Service).base, q)
	if err != nil {
		return nil, f.unanswered(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	status = answer.StatusCode

	text := &body{all: &f.answers, request: capacity.FromContext(ctx)}
	defer text.free()
	longest := f.config.MaxBody
	if q.MaxBytes > 0 {
		longest = min(longest, q.MaxBytes)
	}
	if err := text.read(answer, longest); err != nil {
		return nil, f.unanswered(ctx, err)
	}
	if err := f.checkGeneration(answer.Header); err != nil {
		return nil, err
	}
	switch {
	case status == http.StatusNotFound && !q.Outside && !itsWord(text.text):
		return nil, &Error{Status: StatusUnreadable, Message: "unreadable answer", Detail: errForeign.Error(), cause: errForeign}
	case status == http.StatusNotFound && q.Body == nil:
		return nil, ErrNotFound
	case status < 200 || status > 299:
		e := errorOf(status, text.text)
		e.retryAfter = sleep.RetryAfter(answer.Header.Get("Retry-After"), time.Now(), longestThrottle)
		if status == http.StatusTooManyRequests && e.retryAfter == 0 {
			e.retryAfter = usualThrottle
		}
		return nil, e
	}
	value, newest, err := read(text.text)
	if err != nil {
		return nil, &Error{Status: StatusUnreadable, Message: "unreadable answer", Detail: err.Error(), cause: err}
	}
	if newest > 0 {
		u.knows(newest)
		f.floor.saw(newest, !q.probe)
	}
	return value, nil
}

// endSpan ends the span of a request to a mirror node. That something does not exist is no failure.
func endSpan(span telemetry.Span, u *upstream, status int, err error) {
	if !span.Recorded() {
		return
	}
	span.Text("server.address", u.name)
	if status != 0 {
		span.Number("http.response.status_code", int64(status))
	}
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	span.End(err)
}

func (f *Fetcher) send(ctx context.Context, base string, q Request) (*http.Response, error) {
	if q.Outside {
		base = strings.TrimSuffix(base, APIPrefix) + "/"
	}
	method, body := http.MethodGet, io.Reader(nil)
	if q.Body != nil {
		method, body = http.MethodPost, bytes.NewReader(q.Body)
	}
	r, err := http.NewRequestWithContext(ctx, method, base+q.Path, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", errors.Unwrap(err))
	}
	if q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.URL.Scheme == "http" && !q.Zipped {
		r.Header.Set("Accept-Encoding", "identity") // in a cluster the time to pack and unpack costs more than the bytes
	}
	// All requests may be made twice: then net/http makes one again over another connection, if the idle one that it took has
	// ended. Without a value this is not sent.
	r.Header["Idempotency-Key"] = nil
	r.Header.Set("User-Agent", "lockstep")
	f.setHeaders(ctx, r.Header)
	return f.http.Do(r)
}

func (f *Fetcher) setHeaders(ctx context.Context, h http.Header) {
	if f.config.AuthHeader != "" {
		h.Set("Authorization", f.config.AuthHeader.Reveal())
	}
	if f.config.APIKey != "" {
		h.Set("X-Api-Key", f.config.APIKey.Reveal())
	}
	if f.config.Modularized != "" {
		h.Set("Is-Modularized", f.config.Modularized)
	}
	telemetry.Inject(ctx, h)
	if f.deps.Origin == nil {
		return
	}
	origin := f.deps.Origin(ctx)
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

// unanswered classifies a request without an answer. If the caller gave up, that is the reason. The transport's
// text may name hosts and stays inside.
func (f *Fetcher) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if aboutUs(err) && !errors.Is(err, errCrowded) && !errors.Is(err, errNoSlot) {
		return err // the holding's own error says what the request may hold
	}
	e := &Error{Status: StatusNoAnswer, Message: "no answer", cause: err}
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		e.Status = StatusTimeout
		e.Message = fmt.Sprintf("timeout of %dms exceeded", f.config.Timeout.Duration().Milliseconds())
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = "connection refused"
	case errors.Is(err, errCrowded), errors.Is(err, errNoSlot):
		e.Status, e.Message = http.StatusServiceUnavailable, err.Error()
	case errors.Is(err, ErrTooLong):
		e.Status, e.Message = StatusUnreadable, ErrTooLong.Error()
	case errors.Is(err, errRedirects), errors.Is(err, errRedirectHost):
		e.Status, e.Message = StatusUnreadable, "redirect refused"
	}
	return e
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

// errCrowded says that too many long answers are being read at once. The cause is in this process, not in the
// mirror node.
var errCrowded = errors.New("too many long answers of the mirror node at once")

const (
	// shortAnswer is the part of every answer that is not counted: most answers are shorter.
	shortAnswer = 128 << 10
	// pieceOfAnswer is the first room for an answer whose length is not known.
	pieceOfAnswer = 16 << 10
)

// answerBytes bounds the bytes of all answers that are being read.
type answerBytes struct {
	most int64
	held atomic.Int64
}

// body is an answer while it is read, with the bytes that it takes from the limits of the process and of its
// request.
type body struct {
	text    []byte
	all     *answerBytes
	request *capacity.Holding // nil: nobody's
	taken   int               // bytes that count
}

// grow makes room for some more bytes, if the process and the request may hold them.
func (b *body) grow(more int) error {
	length, before := len(b.text), b.taken
	if counted := length + more - shortAnswer; counted > 0 { // the old room stays until the new one is filled
		if err := b.take(counted); err != nil {
			return err
		}
	}
	b.text = append(make([]byte, 0, length+more), b.text...)
	b.give(before)
	return nil
}

func (b *body) take(more int) error {
	if b.all.held.Add(int64(more)) > b.all.most {
		b.all.held.Add(-int64(more))
		return errCrowded
	}
	if err := b.request.Take(more); err != nil {
		b.all.held.Add(-int64(more))
		return err
	}
	b.taken += more
	return nil
}

func (b *body) give(bytes int) {
	b.all.held.Add(-int64(bytes))
	b.request.Give(bytes)
	b.taken -= bytes
}

// free gives back what was taken.
func (b *body) free() { b.give(b.taken) }

// read reads an answer. It refuses one with more bytes than the maximum.
func (b *body) read(answer *http.Response, longest int64) error {
	room := pieceOfAnswer
	switch length := answer.ContentLength; {
	case length > longest:
		return ErrTooLong
	case length >= 0:
		room = int(length) + 1 // one more, to see the end
	}
	for {
		if len(b.text) == cap(b.text) {
			if err := b.grow(room); err != nil {
				return err
			}
		}
		n, err := answer.Body.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
		length := int64(len(b.text))
		switch {
		case length > longest:
			return ErrTooLong
		case err == io.EOF: //nolint:errorlint // the contract of io.Reader
			return nil
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		}
		room = int(min(max(length, pieceOfAnswer), longest+1-length)) // as much again
	}
}

// aboutUs tells whether a request failed for a reason that is not the mirror node's fault.
func aboutUs(err error) bool {
	return errors.Is(err, errCrowded) || errors.Is(err, errNoSlot) || ofRequest(err)
}

// ofRequest tells whether a read failed because of what its own request, or that request's client, may hold.
func ofRequest(err error) bool {
	var exceeded *capacity.Exceeded
	return errors.As(err, &exceeded) || errors.Is(err, capacity.ErrClosed)
}
