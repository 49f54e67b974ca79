package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// plainTransport makes requests over HTTP/1.1 without TLS or proxy, for mirror nodes of the same cluster. A
// caller writes its request and reads the answer by itself. The transport of net/http hands both to goroutines of
// the connection, which for a short answer costs more than everything else. Other requests go there, such as
// those for a compressed answer.
type plainTransport struct {
	others    http.RoundTripper
	proxy     func(*http.Request) (*url.URL, error)
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	keepAlive bool
	idleTime  time.Duration
	maxIdle   int // overall

	mu    sync.Mutex
	hosts map[string]*plainHost // guarded by mu; by host as in the URL, nil: for others
	idle  int                   // guarded by mu
	sweep *time.Timer           // guarded by mu; nil while nothing is idle
}

// plainHost is the state of a host. The settings name all hosts.
type plainHost struct {
	address string
	idle    []*plainConn // guarded by plainTransport.mu; the last one was used last
}

// RoundTrip is that of http.RoundTripper. All requests may be made twice, so if an idle connection has ended, the
// request is made over another one.
func (t *plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	host := t.host(r)
	if host == nil || r.Header[acceptEncoding] != nil {
		r.Header.Del(acceptEncoding) // net/http sets and handles it by itself
		return t.others.RoundTrip(r)
	}
	text, err := requestText(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	for {
		conn, err := t.take(ctx, host)
		if err != nil {
			return nil, err
		}
		answer, err := conn.exchange(r, text)
		if err == nil {
			return answer, nil
		}
		conn.discard()
		if !conn.stale || ctx.Err() != nil {
			return nil, err
		}
	}
}

// host returns nil for requests that are not plain.
func (t *plainTransport) host(r *http.Request) *plainHost {
	if r.URL.Scheme != "http" || !canLook {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	host, known := t.hosts[r.URL.Host]
	if known {
		return host
	}
	if proxy, err := t.proxy(r); proxy == nil && err == nil {
		host = &plainHost{address: r.URL.Host}
		if r.URL.Port() == "" {
			host.address = net.JoinHostPort(r.URL.Hostname(), "80")
		}
	}
	if t.hosts == nil {
		t.hosts = make(map[string]*plainHost)
	}
	t.hosts[r.URL.Host] = host
	return host
}

// take returns an idle connection, or opens one. An idle connection on which something has arrived is closed,
// because those bytes cannot answer the next request.
func (t *plainTransport) take(ctx context.Context, host *plainHost) (*plainConn, error) {
	for conn := t.lastIdle(host); conn != nil; conn = t.lastIdle(host) {
		if quiet(conn.Conn) {
			return conn, nil
		}
		conn.discard()
	}
	conn, err := t.dial(ctx, "tcp", host.address)
	if err != nil {
		return nil, err
	}
	return newPlainConn(t, host, conn), nil
}

// lastIdle takes the idle connection that was used last, or returns nil.
func (t *plainTransport) lastIdle(host *plainHost) *plainConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(host.idle) - 1
	if last < 0 {
		return nil
	}
	conn := host.idle[last]
	host.idle = host.idle[:last]
	t.idle--
	return conn
}

// put keeps a connection for the next request, if there is room.
func (t *plainTransport) put(conn *plainConn) {
	t.mu.Lock()
	keep := t.keepAlive && t.idle < t.maxIdle
	if keep {
		conn.since = time.Now()
		conn.host.idle = append(conn.host.idle, conn)
		t.idle++
		if t.sweep == nil {
			t.sweep = time.AfterFunc(t.idleTime, t.closeOld)
		}
	}
	t.mu.Unlock()
	if !keep {
		conn.discard()
	}
}

// closeOld closes connections that have been idle for long.
func (t *plainTransport) closeOld() { t.closeSince(time.Now().Add(-t.idleTime)) }

// CloseIdleConnections is the method that http.Client looks for.
func (t *plainTransport) CloseIdleConnections() {
	t.closeSince(time.Now())
	if others, ok := t.others.(interface{ CloseIdleConnections() }); ok {
		others.CloseIdleConnections()
	}
}

// closeSince closes connections that have been idle since then or longer, and sets the timer for the oldest of
// the rest.
func (t *plainTransport) closeSince(then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var oldest time.Time
	for _, host := range t.hosts {
		if host == nil {
			continue
		}
		n := 0
		for ; n < len(host.idle) && !host.idle[n].since.After(then); n++ {
			host.idle[n].discard()
		}
		host.idle = slices.Delete(host.idle, 0, n)
		t.idle -= n
		if len(host.idle) > 0 && (oldest.IsZero() || host.idle[0].since.Before(oldest)) {
			oldest = host.idle[0].since
		}
	}
	switch {
	case t.sweep == nil:
	case t.idle == 0:
		t.sweep.Stop()
		t.sweep = nil
	default:
		t.sweep.Reset(time.Until(oldest.Add(t.idleTime)))
	}
}

const acceptEncoding = "Accept-Encoding"

var errBadTarget = errors.New("the path has a character that cannot be sent")

// requestText returns the bytes of a request.
func requestText(r *http.Request) ([]byte, error) {
	target := r.URL.RequestURI()
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f {
			return nil, errBadTarget
		}
	}
	var b bytes.Buffer
	b.Grow(512)
	b.WriteString(r.Method + " " + target + " HTTP/1.1\r\nHost: " + r.URL.Host + "\r\nUser-Agent: lockstep\r\n")
	if r.ContentLength > 0 {
		b.WriteString("Content-Length: " + strconv.FormatInt(r.ContentLength, 10) + "\r\n")
	}
	if err := r.Header.Write(&b); err != nil {
		return nil, fmt.Errorf("write headers: %w", err)
	}
	b.WriteString("\r\n")
	if r.Body == nil {
		return b.Bytes(), nil
	}
	defer func() { _ = r.Body.Close() }()
	if _, err := io.Copy(&b, r.Body); err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	return b.Bytes(), nil
}
