package rpc

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/budget"
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
	memory *budget.Memory
	idle   *idleConns
}

// idleConns are the connections that wait for a request, since when.
type idleConns struct {
	mu    sync.Mutex
	since map[*headConn]time.Time // guarded by mu
}

func (i *idleConns) add(c *headConn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since[c] = time.Now()
}

func (i *idleConns) remove(c *headConn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.since, c)
}

// longest takes the one out that has been idle for longest, of some that are looked at; nil: there is none.
func (i *idleConns) longest() (found *headConn) {
	const looks = 256
	i.mu.Lock()
	defer i.mu.Unlock()
	looked := 0
	for c, since := range i.since {
		if found == nil || since.Before(i.since[found]) {
			found = c
		}
		if looked++; looked == looks {
			break
		}
	}
	delete(i.since, found)
	return found
}

// headsOf makes a listener of a server headed.
func headsOf(server *http.Server, ln net.Listener, memory *budget.Memory) headed {
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, ok := conn.(*headConn); ok {
			c.changed(state)
		}
	}
	return headed{ln, memory, &idleConns{since: make(map[*headConn]time.Time)}}
}

// shed closes the connection that has been idle for longest. It tells whether there was one.
func (l headed) shed() bool {
	c := l.idle.longest()
	if c == nil {
		return false
	}
	_ = c.Close() // the server notices
	return true
}

// Accept returns the next connection.
func (l headed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Socket: plainhttp.Socket{Conn: conn}, memory: l.memory, idle: l.idle}, nil
}

// headConn is a connection of a headed listener. But for past its fields belong to the goroutine that serves it.
type headConn struct {
	plainhttp.Socket
	memory  *budget.Memory
	idle    *idleConns
	account *budget.Account // of the head at hand; nil: it is short
	cost    int             // of the head at hand, in bytes of memory
	blank   bool            // nothing but a line's end has come since the last one
	past    atomic.Bool     // what comes is no head
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
	if c.account == nil {
		before = 0
		c.account = c.memory.Open(socketIP(c.RemoteAddr().String()))
	}
	return c.account.Take(c.cost-before) == nil
}

// changed is told what the server does with the connection. A head is in memory until its request is over.
func (c *headConn) changed(state http.ConnState) {
	switch state {
	case http.StateNew:
		return
	case http.StateActive:
		c.idle.remove(c)
		return
	case http.StateIdle:
		c.past.Store(false)
		c.idle.add(c)
	case http.StateHijacked, http.StateClosed:
		c.past.Store(true)
		c.idle.remove(c)
	}
	c.account.Close()
	c.account, c.cost, c.blank = nil, 0, false
}
