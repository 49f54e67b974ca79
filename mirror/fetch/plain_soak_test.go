package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
)

// hostile is a server that breaks connections in all ways and says what nobody asked. Each
// answer names the request that it is for.
type hostile struct {
	listener net.Listener
	serving  sync.WaitGroup
	gone     chan struct{}

	// quiet is held for reading by whoever makes a request, and for writing while the server
	// says what nobody asked: on the wire the two could not be told apart.
	quiet sync.RWMutex

	mu   sync.Mutex
	idle map[net.Conn]bool // guarded by mu; those with an answer behind them
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{listener: listener, gone: make(chan struct{}), idle: map[net.Conn]bool{}}
	h.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.serving.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(func() {
		close(h.gone)
		_ = listener.Close()
		h.mu.Lock()
		for conn := range h.idle {
			_ = conn.Close()
		}
		h.mu.Unlock()
		h.serving.Wait()
	})
	return h
}

func (h *hostile) note(conn net.Conn, idle bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if idle {
		h.idle[conn] = true
	} else {
		delete(h.idle, conn)
	}
}

// serve answers the requests of a connection, until it has broken it.
func (h *hostile) serve(conn net.Conn) {
	tcp := conn.(*net.TCPConn)
	defer func() {
		h.note(conn, false)
		_ = conn.Close()
	}()
	h.note(conn, true) // so that it is closed at the end
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		id := r.URL.Query().Get("id")
		if rand.IntN(8) == 0 { // the answer comes before the request is read
			_, _ = io.WriteString(conn, answerFor(id))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if !h.answer(tcp, id) {
			return
		}
	}
}

// answerFor is an answer in one of the forms that there are.
func answerFor(id string) string {
	switch rand.IntN(4) {
	case 0:
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(id), id)
	case 1:
		return fmt.Sprintf("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(id), id)
	default:
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(id), id)
	}
}

// answer answers, or does something else; it is false when the connection is to end.
func (h *hostile) answer(conn *net.TCPConn, id string) bool {
	text := answerFor(id)
	switch rand.IntN(12) {
	case 0: // reset without an answer
		_ = conn.SetLinger(0)
		return false
	case 1: // reset within the answer
		_, _ = io.WriteString(conn, text[:rand.IntN(len(text))])
		_ = conn.SetLinger(0)
		return false
	case 2: // the end within the answer
		_, _ = io.WriteString(conn, text[:rand.IntN(len(text))])
		return false
	case 3: // a half-close after the answer, and then nothing for a while
		_, _ = io.WriteString(conn, text)
		_ = conn.CloseWrite()
		_, _ = conn.Read(make([]byte, 1))
		return false
	case 4: // an answer too many, at once
		_, _ = io.WriteString(conn, text+answerFor("nobody"))
	case 5: // nothing, until the client gives up
		_, _ = conn.Read(make([]byte, 1))
		return false
	case 6: // in pieces
		for _, piece := range strings.SplitAfter(text, "\r\n") {
			_, _ = io.WriteString(conn, piece)
		}
	case 7: // what is no HTTP
		_, _ = io.WriteString(conn, "hello\r\n\r\n"+text)
		return false
	default:
		_, _ = io.WriteString(conn, text)
	}
	return true
}

// shout writes to idle connections what nobody asked: answers, and the beginnings of some.
func (h *hostile) shout() {
	h.quiet.Lock()
	defer h.quiet.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.idle {
		text := answerFor("nobody")
		switch rand.IntN(4) {
		case 0:
			_, _ = io.WriteString(conn, text)
		case 1:
			_, _ = io.WriteString(conn, text[:rand.IntN(len(text))])
		case 2:
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}

// soakTime is how long a soak lasts: LOCKSTEP_SOAK_TIME, or a moment.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LOCKSTEP_SOAK_TIME")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever a server does to its connections, nobody gets an answer but his own: through
// resets, half-closes, answers too many and answers to nothing. LOCKSTEP_SOAK_TIME sets how
// long that is tried.
func TestConnectionSoak(t *testing.T) {
	server := newHostile(t)
	config := Config{
		Timeout: envx.Millis(time.Second), KeepAlive: true, MaxSockets: 8, MaxTotalSockets: 8, SocketTimeout: envx.Millis(time.Minute),
	}
	client := httpClient(&config, nil)
	deadline, stuck := time.Now().Add(soakTime(t)), time.Now().Add(soakTime(t)+patience)
	var right, failed atomic.Int64
	// The soak lasts longer where it takes longer to see both.
	lasts := func() bool {
		now := time.Now()
		return !t.Failed() && (now.Before(deadline) || now.Before(stuck) && (right.Load() == 0 || failed.Load() == 0))
	}
	var clients sync.WaitGroup
	for worker := range 16 {
		clients.Go(func() {
			for i := 0; lasts(); i++ {
				id := fmt.Sprintf("%d-%d", worker, i)
				server.quiet.RLock()
				body, err := askHostile(client.Transport, server.listener.Addr().String(), id)
				server.quiet.RUnlock()
				switch {
				case err != nil:
					failed.Add(1)
				case body == id:
					right.Add(1)
				default:
					t.Errorf("the answer to %s is %q", id, body)
				}
			}
		})
	}
	clients.Go(func() {
		for lasts() {
			server.shout()
			<-time.After(time.Millisecond)
		}
	})
	clients.Wait()
	if right.Load() == 0 || failed.Load() == 0 {
		t.Errorf("%d answers and %d failures: not much was tried", right.Load(), failed.Load())
	}
	t.Logf("%d answers, %d failures", right.Load(), failed.Load())
	transport := client.Transport.(*plainTransport)
	client.CloseIdleConnections()
	transport.mu.Lock()
	defer transport.mu.Unlock()
	if transport.idle != 0 {
		t.Errorf("%d connections are idle", transport.idle)
	}
}

func askHostile(transport http.RoundTripper, address, id string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+rand.IntN(200))*time.Millisecond)
	defer cancel()
	method, body := http.MethodGet, io.Reader(nil)
	if rand.IntN(3) == 0 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("x", 1<<rand.IntN(18)))
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/x?id="+id, body)
	if err != nil {
		return "", err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if rand.IntN(10) == 0 {
		return "", errors.New("the caller is not interested any more")
	}
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
