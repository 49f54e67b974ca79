package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
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

// bodyOf is an answer with a body of so many bytes, of which the length is told or not.
func bodyOf(length int, told bool) *http.Response {
	answer := &http.Response{ContentLength: -1, Body: io.NopCloser(io.LimitReader(endless{}, int64(length)))}
	if told {
		answer.ContentLength = int64(length)
	}
	return answer
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func newBodyOf(most int64, request *capacity.Holding) *body {
	return &body{all: &answerBytes{most: most}, request: request}
}

// An answer is read whole, however long; what it holds is counted while it is read, and given
// back. What is too much for itself, for the process or for its request fails.
func TestBodies(t *testing.T) {
	const most, perRequest = 4 << 20, 4 << 20
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 300, Client: 200, Request: perRequest >> 20})
	for _, told := range []bool{true, false} {
		for length, want := range map[int]error{
			0: nil, 1: nil, pieceOfAnswer - 1: nil, pieceOfAnswer: nil, pieceOfAnswer + 1: nil, shortAnswer: nil,
			1_000_000: nil, 1_000_001: ErrTooLong, 5_000_000: ErrTooLong,
		} {
			b := newBodyOf(most, nil)
			if err := b.read(bodyOf(length, told), 1_000_000); !errors.Is(err, want) || err == nil && len(b.text) != length { //nolint:bodyclose // no connection is behind it
				t.Errorf("%d bytes (told: %v): %v, %d read; want %v", length, told, err, len(b.text), want)
			}
			if held := b.all.held.Load(); held > 3_100_000 || held != int64(b.taken) {
				t.Errorf("%d bytes hold %d", length, held)
			}
			if b.free(); b.all.held.Load() != 0 {
				t.Errorf("%d bytes are still held", b.all.held.Load())
			}
		}
		b := newBodyOf(most, nil)
		if err := b.read(bodyOf(10_000_000, told), 1<<30); !errors.Is(err, errCrowded) { //nolint:bodyclose // no connection is behind it
			t.Errorf("more than the process may hold: %v", err)
		}
		holding := memory.Open("192.0.2.1")
		b = newBodyOf(1<<30, holding)
		var exceeded *capacity.Exceeded
		if err := b.read(bodyOf(3*perRequest, told), 1<<30); !errors.As(err, &exceeded) || exceeded.Scope != capacity.ScopeRequest { //nolint:bodyclose // no connection is behind it
			t.Errorf("more than the request may hold: %v", err)
		}
		if b.free(); holding.Held() != 0 || b.all.held.Load() != 0 {
			t.Errorf("%d bytes of the request are still held", holding.Held())
		}
	}
}

// Answers of any length, as many at once as somebody likes, hold not much more memory
// than the settings say by default, garbage included; and the mirror node is not blamed for those that did not fit.
func TestOversizedAnswersAreBounded(t *testing.T) {
	var peak atomic.Uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		for now := peak.Load(); m.HeapInuse > now && !peak.CompareAndSwap(now, m.HeapInuse); now = peak.Load() {
		}
	}
	piece := []byte(strings.Repeat(" ", 1<<20))
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 128 {
			if _, err := w.Write(piece); err != nil {
				return
			}
			look()
		}
	}))
	defer node.Close()
	config := defaults(t)
	config.URL, config.Timeout = secret.URL(node.URL), envx.Millis(patience)
	fetcher := newFetcher(t, config, Deps{})
	runtime.GC()
	look()
	before := peak.Load()
	var readers sync.WaitGroup
	for range 12 {
		readers.Go(func() {
			_, err := fetcher.Do(t.Context(), Request{Label: "x", Path: "x"}, ignored)
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrTooLong) && !errors.Is(err, errCrowded) {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	// Garbage is collected when the machine finds time for it. Without the bound it would be twelve answers of 64 MiB and their garbage.
	if more := int64(peak.Load()) - int64(before); more > 5*config.MaxBodies {
		t.Errorf("12 answers of 128 MiB take %d MiB of memory", more>>20)
	}
	if held := fetcher.answers.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
	if failures := fetcher.upstreams[0].rest.failures; failures != 0 {
		t.Errorf("the mirror node is blamed %d times", failures)
	}
}
