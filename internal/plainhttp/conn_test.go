package plainhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/capacity"
)

// waiting is an echo whose slow requests wait until the test or their context ends.
func waiting() (e *echo, begun chan context.Context, release chan struct{}) {
	begun, release = make(chan context.Context, 10), make(chan struct{})
	return &echo{slow: func(ctx context.Context) {
		begun <- ctx
		select {
		case <-release:
		case <-ctx.Done():
		}
	}}, begun, release
}

// ways runs a test with slow requests that are answered before ServePlain returns, and with such that are
// answered later.
func ways(t *testing.T, test func(t *testing.T, later bool)) {
	for name, later := range map[string]bool{"in ServePlain": false, "later": true} {
		t.Run(name, func(t *testing.T) { test(t, later) })
	}
}

// TestIdle: a connection without a request ends with its time-out, the first one and
// those after a request.
func TestIdle(t *testing.T) {
	for name, change := range map[string]func(*http.Server){
		"first": func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 20*time.Millisecond, time.Hour },
		"later": func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = time.Hour, 20*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, serve(t, &echo{}, change).address())
			if name == "later" {
				c.send(request("/a", "x"))
				c.expect("/a", "x")
				c.send("\r\n")
			}
			c.ended()
		})
	}
}

// TestSlowIsHandedOver: who does not finish a request is left to the time-outs of
// net/http, head or body, and whoever is merely slow is answered.
func TestSlowIsHandedOver(t *testing.T) {
	whole := request("/", "body")
	for name, part := range map[string]string{"head": whole[:20], "body": whole[:len(whole)-2]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, &echo{impatient: true}, func(s *http.Server) {
				s.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew { // it was handed over
						s.ReadHeaderTimeout, s.ReadTimeout = 50*time.Millisecond, 50*time.Millisecond
					}
				}
			})
			c := dial(t, s.address())
			c.send(part)
			if said, err := io.ReadAll(c.in); !strings.HasPrefix(string(said), "HTTP/1.1 400") || err != nil {
				t.Errorf("got %q, %v", said, err)
			}
			if s.echo.plain.Load() > 0 {
				t.Error("half a request was taken")
			}
		})
	}
	t.Run("answered", func(t *testing.T) {
		t.Parallel()
		handed := make(chan struct{}, 1)
		s := serve(t, &echo{impatient: true}, func(s *http.Server) {
			s.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					handed <- struct{}{}
				}
			}
		})
		c := dial(t, s.address())
		c.send(whole[:20])
		<-handed
		c.send(whole[20:])
		c.expect("/", "body")
		c.send(request("/again", "x"))
		c.expect("/again", "x")
		if s.echo.plain.Load() > 0 {
			t.Error("the connection came back")
		}
	})
}

func (l *Listener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// TestClientGoes: the context of a slow request ends with its client, and not before.
func TestClientGoes(t *testing.T) { ways(t, testClientGoes) }

func testClientGoes(t *testing.T, later bool) {
	e, begun, _ := waiting()
	e.later = later
	s := serve(t, e, nil)
	c := dial(t, s.address())
	c.send(request("/a", "x"))
	c.expect("/a", "x")
	c.send(request("/slow", "x"))
	ctx := <-begun
	if ctx.Err() != nil {
		t.Error("the context has ended while the client was there")
	}
	c.Close()
	<-ctx.Done()
	eventually(t, "the connection is forgotten", func() bool { return s.connections() == 0 })
}

// TestPipelinedWhileSlow: what comes while a request waits is answered afterwards, in
// order, whether the watch has read some of it or it was there before.
func TestPipelinedWhileSlow(t *testing.T) { ways(t, testPipelinedWhileSlow) }

func testPipelinedWhileSlow(t *testing.T, later bool) {
	e, begun, release := waiting()
	e.later = later
	s := serve(t, e, nil)
	long := strings.Repeat("x", 3*bufferSize)
	for _, before := range []bool{true, false} {
		c := dial(t, s.address())
		next := request("/a", "one") + request("/b", long) + request("/c", "")
		if before {
			c.send(request("/slow", "x") + next)
		} else {
			c.send(request("/slow", "x"))
		}
		ctx := <-begun
		if !before {
			// The watch takes its byte at any time: sending in two makes room for it.
			c.send(next[:1])
			<-time.After(2 * unwatched)
			c.send(next[1:])
		}
		if ctx.Err() != nil {
			t.Error("the context has ended while the client was there")
		}
		release <- struct{}{}
		c.expect("/slow", "x")
		c.expect("/a", "one")
		c.expect("/b", long)
		c.expect("/c", "")
	}
}

// TestIdleTimeoutSparesSlow: a request may wait for longer than a connection may idle, and
// its client is watched all the time.
func TestIdleTimeoutSparesSlow(t *testing.T) { ways(t, testIdleTimeoutSparesSlow) }

func testIdleTimeoutSparesSlow(t *testing.T, later bool) {
	t.Parallel()
	e, begun, _ := waiting()
	e.later = later
	const timeout = 2 * time.Second
	s := serve(t, e, func(s *http.Server) { s.IdleTimeout, s.ReadTimeout = timeout, timeout })
	var c *client
	var ctx context.Context
	for ctx == nil {
		c = dial(t, s.address())
		c.send(request("/a", "x"))
		c.expect("/a", "x")
		_, _ = io.WriteString(c, request("/slow", "x"))
		gone := make(chan struct{})
		go func() {
			_, _ = c.in.Peek(1)
			close(gone)
		}()
		select {
		case ctx = <-begun:
		case <-gone: // it idled for too long before: again
		}
	}
	<-time.After(timeout + timeout/4)
	if ctx.Err() != nil {
		t.Error("the context has ended")
	}
	c.Close()
	<-ctx.Done()
}

// TestWriteTimeout: a client that does not read its answers is not waited for.
func TestWriteTimeout(t *testing.T) {
	large := make([]byte, 16<<20)
	e := &echo{serve: func(r *Request) { r.Respond(200, [][]byte{large}) }}
	s := serve(t, e, func(s *http.Server) { s.WriteTimeout = 20 * time.Millisecond })
	c := dial(t, s.address())
	c.send(request("/", "x"))
	eventually(t, "the connection is forgotten", func() bool { return e.plain.Load() == 1 && s.connections() == 0 })
}

// TestLargeAnswer: an answer that is not copied arrives all the same.
func TestLargeAnswer(t *testing.T) {
	large := strings.Repeat("0123456789", 1<<20)
	e := &echo{serve: func(r *Request) { r.Respond(200, [][]byte{[]byte(large)}) }}
	c := dial(t, serve(t, e, nil).address())
	for range 2 {
		c.send(request("/", "x"))
		if _, answer, _ := c.receive(); answer != large {
			t.Fatalf("got %d bytes, want %d", len(answer), len(large))
		}
	}
}

// TestKeep: a body that was kept stays as it is while the connection goes on.
func TestKeep(t *testing.T) {
	var bodies [][]byte
	e := &echo{serve: func(r *Request) {
		bodies = append(bodies, r.Body())
		r.Keep()
		r.Respond(200, nil)
	}}
	c := dial(t, serve(t, e, nil).address())
	c.send(request("/", "first") + request("/", "second"))
	c.receive()
	c.receive()
	c.send(request("/", "third"))
	c.receive()
	for i, want := range []string{"first", "second", "third"} {
		if got := string(bodies[i]); got != want {
			t.Errorf("body %d: got %q, want %q", i, got, want)
		}
	}
}

// TestPanic: a panic, or no answer, costs the connection and nothing else.
func TestPanic(t *testing.T) {
	for name, serves := range map[string]func(*Request){
		"panic":     func(*Request) { panic("x") },
		"no answer": func(*Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &echo{serve: serves}, nil)
			for range 2 {
				c := dial(t, s.address())
				c.send(request("/", "x"))
				c.ended()
			}
			eventually(t, "the connections are forgotten", func() bool { return s.connections() == 0 })
		})
	}
}

// TestClose: idle connections end at once, with and without half a request, busy ones
// with their answer, which says so, and Wait waits for it.
func TestClose(t *testing.T) { ways(t, testClose) }

func testClose(t *testing.T, later bool) {
	e, begun, release := waiting()
	e.later = later
	ln := listen(t)
	s := serveOn(t, ln, e, nil)
	fresh, used, half, busy := dial(t, s.address()), dial(t, s.address()), dial(t, s.address()), dial(t, s.address())
	used.send(request("/a", "x"))
	used.expect("/a", "x")
	half.send(request("/a", "x") + "POST")
	half.expect("/a", "x")
	busy.send(request("/slow", "x"))
	<-begun
	eventually(t, "all are there", func() bool { return s.connections() == 4 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fresh.ended()
	used.ended()
	half.ended()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a request in progress: got %v", err)
	}
	close(release)
	if _, _, last := busy.receive(); !last {
		t.Error("the answer does not say that it is the last")
	}
	busy.ended()
	if err := s.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
	// Another process may listen there by now.
	if err := ln.(*net.TCPListener).SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener after Close: %v", err)
	}
}

// TestAbort: requests in progress lose their connection and their context.
func TestAbort(t *testing.T) { ways(t, testAbort) }

func testAbort(t *testing.T, later bool) {
	e, begun, _ := waiting()
	e.later = later
	s := serve(t, e, nil)
	c := dial(t, s.address())
	c.send(request("/slow", "x"))
	ctx := <-begun
	s.Close()
	s.Abort()
	c.ended()
	<-ctx.Done()
	if err := s.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

// TestThousand: many connections at the same time, each with requests of all kinds.
func TestThousand(t *testing.T) { ways(t, testThousand) }

func testThousand(t *testing.T, later bool) {
	const count = 1000
	e := &echo{slow: func(context.Context) { <-time.After(unwatched) }, later: later}
	s := serve(t, e, nil)
	var all sync.WaitGroup
	for i := range count {
		c := dial(t, s.address())
		all.Go(func() {
			for _, path := range []string{"/a", "/slow", "/b"} {
				if _, err := io.WriteString(c, request(path, "x")); err != nil {
					t.Error(err)
					return
				}
				res, err := http.ReadResponse(c.in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			if i%2 == 0 {
				c.Close()
			}
		})
	}
	all.Wait()
	if got := e.plain.Load(); got != 3*count {
		t.Errorf("%d requests were taken, want %d", got, 3*count)
	}
	eventually(t, "half of them have gone", func() bool { return s.connections() == count/2 })
}

// TestLaterNeedsNoGoroutine: while requests are to be answered later, their connections have no goroutine. A deadline
// and the end of all requests' context are told.
func TestLaterNeedsNoGoroutine(t *testing.T) {
	const count = 200
	requests := make(chan *Request, count)
	expired := make(chan struct{}, count)
	deadline := time.Now().Add(patienceOfTests)
	e := &echo{serveLater: func(r *Request) {
		r.Forget()
		r.Later(deadline, func() { expired <- struct{}{} })
		requests <- r
	}}
	s := serve(t, e, nil)
	var clients []*client
	for range count {
		c := dial(t, s.address())
		c.send(request("/a", "x"))
		clients = append(clients, c)
	}
	var waiting []*Request
	for range count {
		waiting = append(waiting, <-requests)
	}
	eventually(t, "next to no goroutine serves", func() bool { return serving() < count/10 })

	for _, r := range waiting[:count/2] {
		r.Respond(http.StatusOK, [][]byte{[]byte("x")})
		r.Done()
	}
	eventually(t, "half of them are served again", func() bool { return serving() >= count/2 })
	s.stop()
	for range count / 2 {
		<-expired
	}
	for _, r := range waiting[count/2:] {
		r.Respond(http.StatusOK, [][]byte{[]byte("x")})
		r.Done()
	}
	for _, c := range clients {
		c.receive()
	}
	if len(expired) > 0 {
		t.Error("a request expired after its end")
	}
}

// serving counts the goroutines of connections.
func serving() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("plainhttp.(*conn).goOn("))
}

// TestLaterDeadline: a request that is not answered by its deadline is told so once, and can still be answered.
func TestLaterDeadline(t *testing.T) {
	expired := make(chan *Request, 2)
	e := &echo{serveLater: func(r *Request) { r.Later(time.Now(), func() { expired <- r }) }}
	c := dial(t, serve(t, e, nil).address())
	c.send(request("/a", "x"))
	r := <-expired
	r.Respond(http.StatusOK, [][]byte{[]byte("late")})
	r.Done()
	if _, body, _ := c.receive(); body != "late" {
		t.Errorf("got %q", body)
	}
	e.serveLater = nil
	c.send(request("/a", "x"))
	c.expect("/a", "x")
	if len(expired) > 0 {
		t.Error("the request expired twice")
	}
}

// piped is a connection that is not of TCP.
type piped struct{ net.Conn }

// script is a listener that returns what it was given, and then nothing.
type script struct {
	net.Listener
	first chan any // net.Conn or error
}

func (s *script) Accept() (net.Conn, error) {
	select {
	case v := <-s.first:
		if err, failed := v.(error); failed {
			return nil, err
		}
		return v.(net.Conn), nil
	default:
		return s.Listener.Accept()
	}
}

// TestOtherConnections: what is not of TCP is net/http's from the start.
func TestOtherConnections(t *testing.T) {
	ours, theirs := net.Pipe()
	ln := &script{listen(t), make(chan any, 1)}
	ln.first <- piped{theirs}
	s := serveOn(t, ln, &echo{}, nil)
	go io.WriteString(ours, request("/a", "x"))
	answer := make([]byte, 12)
	if _, err := io.ReadFull(ours, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("got %q, %v", answer, err)
	}
	ours.Close()
	if s.echo.plain.Load() > 0 {
		t.Error("it was taken here")
	}
}

// TestAcceptFails: an error that passes is left to net/http, which tries again.
func TestAcceptFails(t *testing.T) {
	ln := &script{listen(t), make(chan any, 1)}
	ln.first <- error(&net.OpError{Op: "accept", Err: syscall.EMFILE})
	c := dial(t, serveOn(t, ln, &echo{}, nil).address())
	c.send(request("/a", "x"))
	c.expect("/a", "x")
}

// TestHijack: a connection that was handed over is whole: what has come is there, and the
// rest comes, both ways.
func TestHijack(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, &echo{}, func(s *http.Server) {
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(ended)
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			line, _ := rw.ReadString('\n')
			io.WriteString(conn, "got "+line)
			conn.(interface{ CloseWrite() error }).CloseWrite()
			rest, _ := io.ReadAll(rw)
			if string(rest) != "bye" {
				t.Errorf("after the end of writing: got %q", rest)
			}
		})
	})
	c := dial(t, s.address())
	c.send(request("/a", "x") + "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\n")
	c.expect("/a", "x")
	c.send("a line\n")
	if rest, err := io.ReadAll(c.in); string(rest) != "got a line\n" || err != nil {
		t.Errorf("got %q, %v", rest, err)
	}
	c.send("bye")
	c.CloseWrite()
	<-ended
}

// TestTheRoomOfABodyIsCounted before it is made, and there is no more of it than was announced.
func TestTheRoomOfABodyIsCounted(t *testing.T) {
	const length, arrived, steps = 60_000, 33_000, 16 << 10
	room := make(chan int, 1)
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 8, Client: 8, Request: 8})
	e := &echo{memory: memory, serve: func(r *Request) {
		defer r.Holding().Close()
		room <- cap(r.c.in.bytes) - r.size
		r.Respond(200, nil)
	}}
	c := dial(t, serve(t, e, nil).address())
	text := request("/", strings.Repeat("x", length))
	c.send(text[:len(text)-length+arrived])
	eventually(t, "the room for the rest is counted", func() bool { return memory.Used() >= length })
	if used := memory.Used(); used > length+steps {
		t.Errorf("%d bytes are counted for a body of %d", used, length)
	}
	c.send(text[len(text)-length+arrived:])
	c.receive()
	if got := <-room; got > length+steps {
		t.Errorf("a room of %d bytes for a body of %d", got, length)
	}
}
