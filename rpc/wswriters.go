package rpc

import (
	"maps"
	"slices"
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
	waiting []*wsConn            // from next on; each is there once; guarded by mu
	next    int                  // in waiting: those before it are taken; guarded by mu
	taking  int                  // goroutines that take connections; guarded by mu
	slow    map[*wsConn]struct{} // that keep a goroutine waiting; guarded by mu
}

// batchSize is how many connections a goroutine takes at a time where many wait, so that it needs the lock less often.
const batchSize = 16

func newWriters(maximum int, timeout time.Duration, notice string) *writers {
	return &writers{
		maximum: maximum, timeout: timeout, notice: notice, slow: map[*wsConn]struct{}{},
		scratch: sync.Pool{New: func() any { b := make([]byte, 0, scratchSize); return &b }},
	}
}

// add has a connection written to. It is not added again before its send queue says so (sendQueue.start).
func (ws *writers) add(c *wsConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.line(c)
	ws.begin()
}

// line puts connections behind the others; it needs mu. It uses the room of those that are taken before it asks for more.
func (ws *writers) line(conns ...*wsConn) {
	if len(ws.waiting)+len(conns) > cap(ws.waiting) && ws.next >= len(ws.waiting)/2 {
		left := copy(ws.waiting, ws.waiting[ws.next:])
		clear(ws.waiting[left:])
		ws.waiting, ws.next = ws.waiting[:left], 0
	}
	ws.waiting = append(ws.waiting, conns...)
}

// begin starts a goroutine if one more may run; it needs mu.
func (ws *writers) begin() {
	if ws.taking < ws.maximum && ws.next < len(ws.waiting) {
		ws.taking++
		go ws.run()
	}
}

// take moves the next connections into batch, no more than its share of those that wait; none: the goroutine ends.
func (ws *writers) take(batch []*wsConn) (taken []*wsConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	waiting := ws.waiting[ws.next:]
	if len(waiting) == 0 {
		ws.waiting, ws.next = ws.waiting[:0], 0
		ws.taking--
		return nil
	}
	goroutines := max(ws.maximum, 1)
	share := (len(waiting) + goroutines - 1) / goroutines
	n := copy(batch[:min(len(batch), share)], waiting)
	clear(waiting[:n])
	ws.next += n
	return batch[:n]
}

// leave gives the place of a goroutine that has to wait for a slow connection to another one, and the connections that it took and
// did not come to.
func (ws *writers) leave(slow *wsConn, rest []*wsConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.slow[slow] = struct{}{}
	ws.taking--
	ws.line(rest...)
	ws.begin()
}

// caughtUp says that a connection keeps no goroutine waiting any more.
func (ws *writers) caughtUp(c *wsConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.slow, c)
}

// endSlow ends the connections that keep a goroutine waiting: what they keep in memory is more than what is left for all.
func (ws *writers) endSlow() {
	ws.mu.Lock()
	slow := slices.Collect(maps.Keys(ws.slow))
	ws.mu.Unlock()
	for _, c := range slow {
		c.TooSlow()
		_ = c.net.Close() // no close frame would reach it
	}
}

func (ws *writers) run() {
	var room [batchSize]*wsConn
	var batch []*wsConn // without c
	var c *wsConn       // the one at hand
	left := false
	w := chunkWriter{timeout: ws.timeout, notice: ws.notice, pool: &ws.scratch}
	w.borrow()
	defer w.giveBack()
	w.waits = func() {
		if !left {
			left = true
			ws.leave(c, batch)
		}
	}
	for !left {
		if len(batch) == 0 {
			if batch = ws.take(room[:]); batch == nil {
				return
			}
		}
		c, batch = batch[0], batch[1:]
		w.conn, w.raw, w.buf = c.net, c.raw, w.buf[:0]
		c.write(&w)
	}
	ws.caughtUp(c)
}
