package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
)

// pipeNet is a network of pipes: each dialled connection is served by a script.
type pipeNet struct {
	dialled atomic.Int64
	serve   func(conn net.Conn)
}

func (n *pipeNet) fetcher(t *testing.T) *Fetcher {
	t.Helper()
	config := defaults(t)
	config.URL, config.Timeout, config.BreakerFailures = "http://mirror", envx.Millis(time.Second), 0
	var servers sync.WaitGroup
	transport := httpClient(&config, nil).Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		n.dialled.Add(1)
		near, far := net.Pipe()
		servers.Go(func() {
			defer func() { _ = far.Close() }()
			n.serve(far)
		})
		return near, nil
	}
	t.Cleanup(func() { transport.CloseIdleConnections(); servers.Wait() })
	return newFetcher(t, config, Deps{Transport: transport})
}

const okText = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// get asks for something, by GET or with a body by POST.
func get(ctx context.Context, f *Fetcher, body []byte) (string, error) {
	value, err := f.Do(ctx, Request{Label: "x", Path: "x", Body: body}, func(text []byte) (any, uint64, error) { return string(text), 0, nil })
	text, _ := value.(string)
	return text, err
}

// answering serves every request of a connection with the same text.
func answering(text string) func(net.Conn) {
	return func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// A whole answer is read, whatever its form, and its connection is used again. One that is cut, endless or no HTTP is an
// error, and its connection is not used again.
func TestAnswersOfAllForms(t *testing.T) {
	for name, test := range map[string]struct {
		text, body string // no body: an error
		dialled    int64  // by two requests after each other
	}{
		"length":          {okText, "ok", 1},
		"chunks":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok", 1},
		"interim answers": {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okText, "ok", 1},
		"last one":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", 2},
		"no HTTP":         {"hello\r\n\r\n", "", 2},
		"endless header":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*longestHeader) + "\r\n\r\n", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := &pipeNet{serve: answering(test.text)}
			f := n.fetcher(t)
			for range 2 {
				if body, err := get(t.Context(), f, nil); body != test.body || (err == nil) != (test.body != "") {
					t.Errorf("%q, %v", body, err)
				}
			}
			if got := n.dialled.Load(); got != test.dialled {
				t.Errorf("%d connections, want %d", got, test.dialled)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		n := &pipeNet{serve: func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, okText[:len(okText)-1])
		}}
		f := n.fetcher(t)
		for range 2 {
			if body, err := get(t.Context(), f, nil); err == nil {
				t.Errorf("%q", body)
			}
		}
		if got := n.dialled.Load(); got != 2 {
			t.Errorf("%d connections, want 2", got)
		}
	})
}

// A connection that ended while it was idle, or just as the next request was sent, costs that request nothing, a POST
// included: it is made over another one. A new connection that ends is an error.
func TestStaleConnection(t *testing.T) {
	var refusing atomic.Bool
	n := &pipeNet{serve: func(conn net.Conn) {
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil || refusing.Load() {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(conn, okText)
		_, _ = in.ReadByte() // the next request has begun
	}}
	f := n.fetcher(t)
	for i, body := range [][]byte{nil, nil, []byte("{}"), []byte("{}")} {
		if text, err := get(t.Context(), f, body); text != "ok" || err != nil || n.dialled.Load() != int64(i+1) {
			t.Fatalf("request %d: %q, %v, over connection %d", i, text, err, n.dialled.Load())
		}
	}
	refusing.Store(true)
	if _, err := get(t.Context(), f, nil); err == nil {
		t.Error("an answer without a mirror node")
	}
}

// A request ends with its context, wherever it is, and with it its connection.
func TestRequestEndsWithItsContext(t *testing.T) {
	for name, text := range map[string]string{
		"before the answer": "",
		"in the header":     "HTTP/1.1 200 OK\r\nContent-",
		"in the body":       okText[:len(okText)-1],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{}, 1)
				n := &pipeNet{serve: func(conn net.Conn) {
					in := bufio.NewReader(conn)
					_, _ = http.ReadRequest(in)
					_, _ = io.WriteString(conn, text)
					_, _ = in.ReadByte() // until the other side ends it
					ended <- struct{}{}
				}}
				f := n.fetcher(t)
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
					if _, err := get(ctx, f, nil); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
					<-ended
				}
			})
		})
	}
}

// Bytes that arrive on an idle connection answer nothing: the connection is closed, and the next request is made over
// another one and gets its own answer.
func TestUnsolicitedBytes(t *testing.T) {
	for name, bytes := range map[string]string{
		"an answer":        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nothers",
		"a part of one":    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\noth",
		"an empty line":    "\r\n",
		"a time-out":       "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
		"nothing, the end": "",
	} {
		t.Run(name, func(t *testing.T) {
			idle, closed := make(chan struct{}), make(chan struct{}, 2)
			n := &pipeNet{serve: func(conn net.Conn) {
				in := bufio.NewReader(conn)
				_, _ = http.ReadRequest(in)
				_, _ = io.WriteString(conn, okText)
				<-idle
				_, _ = io.WriteString(conn, bytes)
				if bytes == "" {
					_ = conn.Close()
				}
				_, _ = in.ReadByte() // until the other side ends it
				closed <- struct{}{}
			}}
			f := n.fetcher(t)
			for i := range int64(2) {
				if got, err := get(t.Context(), f, nil); got != "ok" || err != nil || n.dialled.Load() != i+1 {
					t.Errorf("request %d: %q, %v, over connection %d", i, got, err, n.dialled.Load())
				}
				if i == 0 {
					close(idle)
					<-closed
				}
			}
		})
	}
}
