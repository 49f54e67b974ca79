package watchtest

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/must"
)

// Line is a TCP connection to a server that can be cut.
type Line struct {
	Addr string

	mu     sync.Mutex
	target string
	down   bool
	open   map[net.Conn]bool
	hung   map[net.Conn]bool // what is written to them is lost
}

// NewLine listens, and passes on what comes to the host of a URL.
func NewLine(t testing.TB, url string) *Line {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	_, host, _ := strings.Cut(url, "://")
	l := &Line{Addr: listener.Addr().String(), target: host, open: map[net.Conn]bool{}, hung: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); l.Cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.pass(conn)
		}
	}()
	return l
}

// Cut ends all connections and refuses new ones.
func (l *Line) Cut() { l.set(true) }

// Hang leaves all connections half-open: they stay, and nothing comes through any more. New ones pass. It returns how many there were.
func (l *Line) Hang() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for c := range l.open {
		if !l.hung[c] {
			l.hung[c] = true
			n++
		}
	}
	return n / 2
}

// end is one end of a connection.
type end struct {
	net.Conn
	line *Line
}

// Write implements io.Writer.
func (e end) Write(p []byte) (int, error) {
	e.line.mu.Lock()
	lost := e.line.hung[e.Conn]
	e.line.mu.Unlock()
	if lost {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

// Mend lets connections pass again.
func (l *Line) Mend() { l.set(false) }

func (l *Line) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if down {
		for c := range l.open {
			_ = c.Close()
		}
		clear(l.open)
	}
}

// hold remembers a connection, or closes it if the line is cut.
func (l *Line) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = c.Close()
		return false
	}
	l.open[c] = true
	return true
}

func (l *Line) pass(in net.Conn) {
	if !l.hold(in) {
		return
	}
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.target)
	if err != nil || !l.hold(out) {
		_ = in.Close()
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(end{pair[0], l}, pair[1]) // until one side is gone
			_, _ = pair[0].Close(), pair[1].Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, in)
	delete(l.open, out)
	delete(l.hung, in)
	delete(l.hung, out)
}
