package plainhttp

import (
	"errors"
	"os"
	"sync"
	"time"
)

// unwatched is how long an answer takes before somebody checks whether the client is
// still there. Looking costs a goroutine and more time than most answers take.
const unwatched = 5 * time.Millisecond

// watch is a read that goes on while a request is slow: the end of the connection ends
// the context. If the next request comes instead, the read has its first byte, and nobody
// looks any more.
type watch struct {
	on    bool // owned by the connection's goroutine
	timer *time.Timer
	ended chan struct{}

	mu      sync.Mutex
	stopped bool // guarded by mu

	// Owned by the reader, and by the connection's goroutine after ended.
	next [1]byte
	got  bool // next has been read
}

func (c *conn) startWatch() {
	w := &c.watch
	if w.on {
		return
	}
	w.on, w.stopped, w.got = true, false, false
	if w.timer == nil {
		w.ended = make(chan struct{}, 1)
		w.timer = time.AfterFunc(unwatched, c.look)
		return
	}
	w.timer.Reset(unwatched)
}

// look reads until something comes or stopWatch ends it.
func (c *conn) look() {
	w := &c.watch
	defer func() { w.ended <- struct{}{} }()
	if !c.mayLook() {
		return
	}
	n, err := c.tcp.Read(w.next[:])
	w.got = n > 0
	if !w.got && !errors.Is(err, os.ErrDeadlineExceeded) { // the end of the connection, or of what the client sends
		c.cancel()
	}
}

// mayLook lifts the deadline of reading, unless it is too late for it.
func (c *conn) mayLook() bool {
	w := &c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	c.readBy.exactly(time.Time{})
	return true
}

// stopWatch ends the read, if there is one.
func (c *conn) stopWatch() {
	w := &c.watch
	if !w.on {
		return
	}
	w.on = false
	if w.timer.Stop() {
		return
	}
	w.interrupt(c)
	<-w.ended
	c.readBy.exactly(time.Time{})
	if w.got {
		c.in.add(w.next[0])
	}
}

func (w *watch) interrupt(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	c.readBy.exactly(time.Unix(1, 0))
}
