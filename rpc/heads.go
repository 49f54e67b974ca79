package rpc

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"

	"lockstep/internal/capacity"
	"lockstep/internal/plainhttp"
)

const (
	// shortHead is the part of the head of a request that is not counted, in bytes of memory.
	shortHead = 4 << 10
	// fieldCost is about what net/http needs for one field of a head, besides its text, in bytes.
	fieldCost = 160
)

// headed is a listener of net/http that counts the heads of requests against the memory of their clients. net/http bounds a head
// in bytes of text, but a text of 32 KB can have eight thousand fields, which take more than a megabyte for as long as the request
// lasts.
type headed struct {
	net.Listener
	memory *capacity.Memory
}

// headsOf makes a listener of a server headed.
func headsOf(server *http.Server, ln net.Listener, memory *capacity.Memory) net.Listener {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*headConn); ok {
			c.changed(state)
		}
	}
	return headed{ln, memory}
}

// Accept returns the next connection.
func (l headed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Socket: plainhttp.Socket{Conn: conn}, memory: l.memory}, nil
}

// headConn is a connection of a headed listener. But for past its fields belong to the goroutine that serves it.
type headConn struct {
	plainhttp.Socket
	memory  *capacity.Memory
	holding *capacity.Holding // of the head at hand; nil: it is short
	cost    int               // of the head at hand, in bytes of memory
	blank   bool              // nothing but a line's end has come since the last one
	past    atomic.Bool       // what comes is no head
}

// Read reads, and fails if the head at hand takes more memory than there is for its client.
func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Socket.Read(p)
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
func (c *headConn) count(text []byte) bool {
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
		c.holding = c.memory.Open(socketIP(c.RemoteAddr().String()))
	}
	return c.holding.Take(c.cost-before) == nil
}

// changed is told what the server does with the connection. A head is in memory until its request is over.
func (c *headConn) changed(state http.ConnState) {
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
