package rpc

import (
	"sync"
	"time"
)

// writers send what waits in the send queues of connections. An event goes to all connections at the same moment, and a goroutine for
// each would cost more than its bytes. So a few goroutines take the connections in their order. A goroutine whose client has no
// room for more stays with that client, and another one takes its place.
type writers struct {
	maximum int // of goroutines that take connections
	timeout time.Duration
	notice  string    // what begins each notification
	scratch sync.Pool // of *[]byte, of scratchSize

	mu      sync.Mutex
	waiting []*wsConn // each is there once; guarded by mu
	taking  int       // goroutines that take connections; guarded by mu
}

func newWriters(maximum int, timeout time.Duration, notice string) *writers {
	return &writers{
		maximum: maximum, timeout: timeout, notice: notice,
		scratch: sync.Pool{New: func() any { b := make([]byte, 0, scratchSize); return &b }},
	}
}

// add has a connection written to. It is not added again before its send queue says so (sendQueue.start).
func (ws *writers) add(c *wsConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.waiting = append(ws.waiting, c)
	ws.begin()
}

// begin starts a goroutine if one more may run; it needs mu.
func (ws *writers) begin() {
	if ws.taking < ws.maximum && len(ws.waiting) > 0 {
		ws.taking++
		go ws.run()
	}
}

// take returns the next connection; nil: there is none, and the goroutine ends.
func (ws *writers) take() *wsConn {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.waiting) == 0 {
		ws.taking--
		return nil
	}
	c := ws.waiting[0]
	ws.waiting[0] = nil
	ws.waiting = ws.waiting[1:] // append leaves behind what is before it, also while the line is never empty
	return c
}

// leave gives the place of a goroutine that has to wait to another one.
func (ws *writers) leave() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.taking--
	ws.begin()
}

func (ws *writers) run() {
	scratch := ws.scratch.Get().(*[]byte)
	defer ws.scratch.Put(scratch)
	left := false
	w := chunkWriter{timeout: ws.timeout, notice: ws.notice, buf: (*scratch)[:0]}
	w.waits = func() {
		if !left {
			left = true
			ws.leave()
		}
	}
	for !left {
		c := ws.take()
		if c == nil {
			return
		}
		w.conn, w.raw, w.buf = c.net, c.raw, w.buf[:0]
		c.write(&w)
	}
}
