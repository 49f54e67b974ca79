package plainhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/capacity"
)

// patienceOfTests is how long anything may take that does happen.
const patienceOfTests = 2 * time.Minute

// echo answers with what it was asked, in the same way to net/http and to a Listener.
// Requests for /other are not plain; those for /slow wait.
type echo struct {
	plain, other atomic.Int64 // requests of each kind
	open         atomic.Int64 // connections
	slow         func(ctx context.Context)
	later        bool             // requests for /slow are answered later
	serve        func(r *Request) // in place of ServePlain
	serveLater   func(r *Request) // in place of ServePlain; it calls Later
	memory       *capacity.Memory // nil: no limit
	impatient    bool             // who does not send a request at once is net/http's
}

const echoFields = "Request-Id"

func (e *echo) Takes(path []byte) bool { return string(path) != "/other" }

// admit counts the connections that are open.
func (e *echo) admit(net.Conn) (leave func(), ok bool) {
	e.open.Add(1)
	return sync.OnceFunc(func() { e.open.Add(-1) }), true
}

func (e *echo) Holding(*Request) *capacity.Holding { return e.memory.Open("client") }

func (e *echo) ServePlain(r *Request) (later bool) {
	e.plain.Add(1)
	if e.serve != nil {
		e.serve(r)
		return false
	}
	if e.serveLater != nil {
		e.serveLater(r)
		return true
	}
	path := string(r.path.of(r.c.in.bytes))
	id, ok := r.First(echoFields)
	answer := echoAnswer("POST", path, id, ok, r.Body())
	respond := func() { r.Respond(echoStatus(path), [][]byte{answer}, "Content-Type: text/plain\r\n") }
	wait := func(context.Context) {}
	switch path {
	case "/wait":
		wait = linger
		if len(answer)%2 == 0 {
			r.Forget()
			later = true
		}
	case "/slow":
		r.Forget()
		wait, later = e.slow, e.later
	}
	if !later {
		r.Slow()
		wait(r.Context())
		respond()
		return false
	}
	ctx, gone := context.WithCancel(context.Background())
	r.Later(time.Now().Add(patienceOfTests), gone)
	go func() {
		defer gone()
		wait(ctx)
		respond()
		r.Done()
	}()
	return true
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.other.Add(1)
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ids, ok := r.Header[echoFields]
	answer := echoAnswer(r.Method, r.URL.Path, strings.Join(ids[:min(len(ids), 1)], ""), ok, body)
	if r.URL.Path == "/wait" {
		linger(r.Context())
	}
	w.WriteHeader(echoStatus(r.URL.Path))
	w.Write(answer)
}

// linger takes so long that somebody looks whether the client is still there.
func linger(ctx context.Context) {
	timer := time.NewTimer(3 * unwatched)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func echoAnswer(method, path, id string, ok bool, body []byte) []byte {
	return fmt.Appendf(nil, "%s %.50s %.50q %t %.50q %d %x\n", method, path, id, ok, body, len(body), crc32.ChecksumIEEE(body))
}

func echoStatus(path string) int {
	if path == "/missing" {
		return http.StatusNotFound
	}
	return http.StatusOK
}

// limitOfTests is the BodyLimit.
const limitOfTests = 64 << 10

// served is a server under test.
type served struct {
	*Listener
	server *http.Server
	echo   *echo
	stop   context.CancelFunc // ends the contexts of requests
}

func (s *served) address() string { return s.Addr().String() }

// serve runs a server for the test's duration.
func serve(t testing.TB, e *echo, change func(*http.Server)) *served {
	t.Helper()
	return serveOn(t, listen(t), e, change)
}

func serveOn(t testing.TB, ln net.Listener, e *echo, change func(*http.Server)) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := quiet(e)
	if change != nil {
		change(server)
	}
	l := New(ctx, ln, Config{Server: server, Handler: e, BodyLimit: limitOfTests, Logger: slog.New(slog.DiscardHandler), Admit: e.admit})
	l.restTime = patienceOfTests
	if e.impatient {
		l.restTime = 10 * time.Millisecond
	}
	ended := make(chan error, 1)
	ran := make(chan struct{})
	go func() { l.Run(); close(ran) }()
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		l.Abort()
		if err := l.Wait(deadlineOf(t)); err != nil {
			t.Errorf("connections have not ended: %v", err)
		}
		<-ended
		<-ran
	})
	return &served{Listener: l, server: server, echo: e, stop: cancel}
}

// quiet makes a http.Server that does not log what it refuses.
func quiet(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
}

func deadlineOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	t.Cleanup(cancel)
	return ctx
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// client is a raw connection to a server.
type client struct {
	t testing.TB
	*net.TCPConn
	in *bufio.Reader
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patienceOfTests))
	return &client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the status line's code and the body of the next answer, and whether it
// is said to be the last.
func (c *client) receive() (status int, body string, last bool) {
	c.t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Close
}

// expect fails unless the next answer is an echo of the request.
func (c *client) expect(path, body string) {
	c.t.Helper()
	status, answer, _ := c.receive()
	if want := string(echoAnswer("POST", path, "", false, []byte(body))); answer != want {
		c.t.Fatalf("got %d %q, want %q", status, answer, want)
	}
}

// ended fails unless the server has closed the connection, or does it now.
func (c *client) ended() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); len(rest) > 0 || isTimeout(err) {
		c.t.Fatalf("got %q, %v, want the end", rest, err)
	}
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// request is a plain one.
func request(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.Now().Add(patienceOfTests)
	for !holds() {
		if time.Now().After(limit) {
			t.Fatalf("%s: still not", what)
		}
		<-time.After(time.Millisecond)
	}
}
