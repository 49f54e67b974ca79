package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
)

// plainNet is a network of pipes: each dialled connection is served by a script.
type plainNet struct {
	dialled atomic.Int64
	serve   func(t *testing.T, conn net.Conn)
}

func (n *plainNet) transport(t *testing.T) *plainTransport {
	var servers sync.WaitGroup
	transport := &plainTransport{
		others: http.NewFileTransport(http.Dir(t.TempDir())), // answers, unlike plainNet, with a 404
		proxy:  func(*http.Request) (*url.URL, error) { return nil, nil },
		dial: func(context.Context, string, string) (net.Conn, error) {
			n.dialled.Add(1)
			near, far := net.Pipe()
			servers.Go(func() {
				defer func() { _ = far.Close() }()
				n.serve(t, far)
			})
			return near, nil
		},
		keepAlive: true, idleTime: time.Minute, maxIdle: 10,
	}
	t.Cleanup(func() { transport.CloseIdleConnections(); servers.Wait() })
	return transport
}

// answering serves every request of a connection with the same text, after a while.
func answering(text string, while time.Duration) func(*testing.T, net.Conn) {
	return func(_ *testing.T, conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(while) //nolint:forbidigo // fake time
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

const okText = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// fetch makes a request and reads the answer, or fails.
func fetch(ctx context.Context, transport http.RoundTripper) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://mirror/api/v1/x?a=1", nil)
	if err != nil {
		return "", err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func TestPlainAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		text, body string // no body: an error
		dialled    int64  // by two requests after each other
	}{
		"length":          {okText, "ok", 1},
		"chunks":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok", 1},
		"interim answers": {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + okText, "ok", 1},
		"last one":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", 2},
		"more than asked": {okText + okText, "ok", 2},
		"no HTTP":         {"hello\r\n\r\n", "", 2},
		"endless header":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", longestHeader) + "\r\n\r\n", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := &plainNet{serve: answering(test.text, 0)}
			transport := n.transport(t)
			for range 2 {
				if body, err := fetch(t.Context(), transport); body != test.body || (err == nil) != (test.body != "") {
					t.Errorf("%q, %v", body, err)
				}
			}
			if got := n.dialled.Load(); got != test.dialled {
				t.Errorf("%d connections, want %d", got, test.dialled)
			}
		})
	}
}

// An answer that ends too early is an error, and its connection is not used again.
func TestPlainCutAnswer(t *testing.T) {
	n := &plainNet{serve: func(_ *testing.T, conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, okText[:len(okText)-1])
	}}
	transport := n.transport(t)
	for range 2 {
		if body, err := fetch(t.Context(), transport); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q, %v", body, err)
		}
	}
	if got := n.dialled.Load(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

// A connection that ended while it was idle is noticed with the next request, which is
// made over another. A new connection that ends is an error.
func TestPlainStaleConnection(t *testing.T) {
	var refusing atomic.Bool
	n := &plainNet{}
	n.serve = func(_ *testing.T, conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		if !refusing.Load() {
			_, _ = io.WriteString(conn, okText)
		}
	}
	transport := n.transport(t)
	for want := range int64(3) {
		if body, err := fetch(t.Context(), transport); body != "ok" || err != nil || n.dialled.Load() != want+1 {
			t.Fatalf("%q, %v, over connection %d; want %d", body, err, n.dialled.Load(), want+1)
		}
	}
	refusing.Store(true)
	if _, err := fetch(t.Context(), transport); !errors.Is(err, io.EOF) || n.dialled.Load() != 4 {
		t.Errorf("%v after %d connections", err, n.dialled.Load())
	}
}

// A request ends with its context, wherever it is.
func TestPlainCancel(t *testing.T) {
	for name, text := range map[string]string{
		"before the answer": "",
		"in the header":     "HTTP/1.1 200 OK\r\nContent-",
		"in the body":       okText[:len(okText)-1],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{}, 1)
				n := &plainNet{serve: func(_ *testing.T, conn net.Conn) {
					in := bufio.NewReader(conn)
					_, _ = http.ReadRequest(in)
					_, _ = io.WriteString(conn, text)
					_, _ = in.ReadByte() // until the other side ends it
					ended <- struct{}{}
				}}
				transport := n.transport(t)
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if _, err := fetch(ctx, transport); err == nil || ctx.Err() == nil {
						t.Errorf("%v, %v", err, ctx.Err())
					}
					cancel()
					<-ended
				}
			})
		})
	}
}

// What is idle for long is closed; what was used meanwhile stays.
func TestPlainIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		n := &plainNet{serve: func(t *testing.T, conn net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			answering(okText, time.Second)(t, conn)
		}}
		transport := n.transport(t)
		ask := func() {
			if body, err := fetch(t.Context(), transport); body != "ok" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
		}
		var both sync.WaitGroup
		both.Go(ask)
		both.Go(ask)
		both.Wait()
		time.Sleep(transport.idleTime / 2) //nolint:forbidigo // fake time
		ask()
		time.Sleep(transport.idleTime * 3 / 4) //nolint:forbidigo // fake time
		synctest.Wait()
		if open.Load() != 1 || n.dialled.Load() != 2 {
			t.Errorf("%d connections are open, want the one that was used; %d were dialled", open.Load(), n.dialled.Load())
		}
		time.Sleep(transport.idleTime) //nolint:forbidigo // fake time
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections are open, want none", open.Load())
		}
	})
}

// Requests over TLS, over a proxy or for a compressed answer are left to net/http.
func TestPlainLeavesOthers(t *testing.T) {
	n := &plainNet{serve: answering(okText, 0)}
	transport := n.transport(t)
	ask := func(address string, headers ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range headers {
			r.Header.Set(name, "gzip")
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := ask("https://mirror/x"); got != http.StatusNotFound {
		t.Errorf("TLS: %d", got)
	}
	transport.proxy = func(r *http.Request) (*url.URL, error) { return &url.URL{Host: "proxy"}, nil }
	if got := ask("http://proxied/x"); got != http.StatusNotFound {
		t.Errorf("proxy: %d", got)
	}
	transport.proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	if got := ask("http://mirror/x", "X-Other"); got != http.StatusOK {
		t.Errorf("plain: %d", got)
	}
	if got := ask("http://mirror/x", "Accept-Encoding"); got != http.StatusNotFound {
		t.Errorf("compressed: %d", got)
	}
}

func TestPlainRequest(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://mirror:5551/api/v1/contracts/call", strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "one\r\ntwo")
	text, err := requestText(r)
	const want = "POST /api/v1/contracts/call HTTP/1.1\r\nHost: mirror:5551\r\nUser-Agent: lockstep\r\nContent-Length: 7\r\nX-Api-Key: one  two\r\n\r\n{\"a\":1}"
	if string(text) != want || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	r.URL.RawQuery = "a=1 HTTP/1.1\r\nHost: other"
	if text, err := requestText(r); !errors.Is(err, errBadTarget) {
		t.Errorf("%q, %v", text, err)
	}
}

// Bytes that arrive on an idle connection answer nothing: the next request is made over
// another connection, and gets its own answer.
func TestPlainUnsolicitedBytes(t *testing.T) {
	for name, bytes := range map[string]string{
		"an answer":        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nothers",
		"a part of one":    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\noth",
		"an empty line":    "\r\n",
		"a time-out":       "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
		"nothing, the end": "",
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			idle, sent, accepted := make(chan struct{}), make(chan struct{}), new(atomic.Int64)
			var servers sync.WaitGroup
			defer servers.Wait()
			defer func() { _ = listener.Close() }()
			servers.Go(func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				accepted.Add(1)
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, okText)
				<-idle
				_, _ = io.WriteString(conn, bytes)
				if bytes == "" {
					_ = conn.(*net.TCPConn).CloseWrite()
				}
				close(sent)
				another, err := listener.Accept()
				if err == nil {
					accepted.Add(1)
					answering(okText, 0)(t, another)
				}
				_ = conn.Close()
			})
			config := Config{Timeout: envx.Millis(patience), KeepAlive: true, MaxSockets: 2, MaxTotalSockets: 2, SocketTimeout: envx.Millis(time.Minute)}
			client := httpClient(&config, nil)
			ask := func() (string, error) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/x", nil)
				if err != nil {
					return "", err
				}
				answer, err := client.Transport.RoundTrip(r)
				if err != nil {
					return "", err
				}
				defer func() { _ = answer.Body.Close() }()
				text, err := io.ReadAll(answer.Body)
				return fmt.Sprint(answer.StatusCode, " ", string(text)), err
			}
			for i := range 2 {
				if got, err := ask(); got != "200 ok" || err != nil {
					t.Errorf("request %d: %q, %v", i, got, err)
				}
				if i == 0 {
					close(idle)
					<-sent
					arrived(t, client.Transport.(*plainTransport))
				}
			}
			if accepted.Load() != 2 {
				t.Errorf("%d connections, want 2", accepted.Load())
			}
			client.CloseIdleConnections()
		})
	}
}

// arrived waits until the network has brought what was sent on the one idle connection: it may take its time.
func arrived(t *testing.T, transport *plainTransport) {
	t.Helper()
	transport.mu.Lock()
	defer transport.mu.Unlock()
	for _, host := range transport.hosts {
		for _, conn := range host.idle {
			for end := time.Now().Add(patience); quiet(conn.Conn); {
				if time.Now().After(end) || !Pause(t.Context(), time.Millisecond) {
					t.Fatal("nothing has arrived")
				}
			}
		}
	}
}
