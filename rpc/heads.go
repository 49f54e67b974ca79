package rpc

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"lockstep/internal/clientip"
	"lockstep/internal/relay/capacity"
)

const (
	// shortHead is the part of the head of a request that is not counted, in bytes of memory.
	shortHead = 4 << 10
	// fieldCost is about what net/http needs for one field of a head, besides its text, in bytes.
	fieldCost = 160
)

// guarded is a listener of net/http whose connections pass admission, and that counts the heads of requests against the memory of
// their clients. net/http bounds a head in bytes of text, but a text of 32 KB can have eight thousand fields, which take more than
// a megabyte for as long as the request lasts.
type guarded struct {
	net.Listener
	d *Dispatcher
}

// guard puts the listener of a server behind the limits of connections and of their heads.
func (d *Dispatcher) guard(server *http.Server, ln net.Listener) net.Listener {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*guardedConn); ok {
			c.changed(state)
		}
	}
	return guarded{ln, d}
}

// Accept returns the next connection that is let in.
func (l guarded) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.d.admission.enter(conn); ok {
			return &guardedConn{Conn: conn, leave: leave, memory: l.d.memory}, nil
		}
	}
}

// guardedConn is a connection of a guarded listener. Its fields but for past belong to the goroutine that serves it.
type guardedConn struct {
	net.Conn
	leave   func() // of admission
	memory  *capacity.Memory
	holding *capacity.Holding // of the head at hand; nil: it is short
	cost    int               // of the head at hand, in bytes of memory
	blank   bool              // nothing but a line's end has come since the last one
	past    atomic.Bool       // what comes is no head
	muted   bool              // it is a WebSocket's, whose send queue writes to Conn
	spoke   bool              // the WebSocket library wanted to write, for the client broke the protocol
}

// Close closes the connection.
func (c *guardedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// errMuted is what the WebSocket library gets for what it writes after the handshake: it answers a client that breaks the protocol by
// itself, and that would come into the middle of a frame of the send queue.
var errMuted = errors.New("the send queue writes")

// Write writes.
func (c *guardedConn) Write(p []byte) (int, error) {
	if c.muted {
		c.spoke = true
		return 0, errMuted
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn.
func (c *guardedConn) SetWriteDeadline(t time.Time) error {
	if c.muted {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite closes the side of the server. net/http does so before it closes a connection whose request it has not read, since
// the client would lose the answer otherwise.
func (c *guardedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read reads, and fails if the head at hand takes more memory than there is for its client.
func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.past.Load() {
		return n, err
	}
	if !c.count(p[:n]) {
		return 0, errLongHead
	}
	return n, err
}

var errLongHead = errors.New("the head of a request takes more memory than there is for its client")

// count counts some of a head. The result tells whether there is memory for it.
func (c *guardedConn) count(text []byte) bool {
	before := c.cost
	for i := 0; i < len(text) && !c.past.Load(); i++ {
		c.cost++
		switch text[i] {
		case '\r':
		case '\n':
			c.cost += fieldCost
			c.past.Store(c.blank) // the empty line behind a head
			c.blank = true
		default:
			c.blank = false
		}
	}
	if c.cost <= shortHead {
		return true
	}
	if c.holding == nil {
		before = 0
		c.holding = c.memory.Open(clientip.Of(nil, c.RemoteAddr().String(), nil))
	}
	return c.holding.Take(c.cost-before) == nil
}

// changed is told what the server does with the connection. A head is in memory until its request is over.
func (c *guardedConn) changed(state http.ConnState) {
	switch state {
	case http.StateNew, http.StateActive:
		return
	case http.StateIdle:
		c.past.Store(false)
	case http.StateHijacked, http.StateClosed:
		c.past.Store(true)
	}
	c.holding.Close()
	c.holding, c.cost, c.blank = nil, 0, false
}
