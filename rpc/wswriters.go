package rpc

import (
	"runtime"
	"sync"
	"time"
)

// writers write to the connections that have something to send. As many write at the same time as there are processors:
// a block that a hundred thousand clients are told of would otherwise make a goroutine for each of them. A client that
// does not read holds nobody up: a writer that has to wait for it is not counted any more, and another one goes on with
// the others.
type writers struct {
	limit   int
	timeout time.Duration // of a write that waits
	notice  string        // what begins each notification
	scratch sync.Pool     // of *[]byte, for the frames that are being written

	mu     sync.Mutex
	queue  []*wsConn // those with something to send, in the order in which they began to; guarded by mu
	first  int       // index of the first one in queue; guarded by mu
	active int       // writers that are not waiting for a client; guarded by mu
}

func newWriters(timeout time.Duration, notice string) *writers {
	return &writers{
		limit: runtime.GOMAXPROCS(0), timeout: timeout, notice: notice,
		scratch: sync.Pool{New: func() any { b := make([]byte, 0, scratchSize); return &b }},
	}
}

// add has a writer call c.write.
func (w *writers) add(c *wsConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == cap(w.queue) && w.first >= len(w.queue)/2 { // the places of those who had their turn
		n := copy(w.queue, w.queue[w.first:])
		clear(w.queue[n:])
		w.first, w.queue = 0, w.queue[:n]
	}
	w.queue = append(w.queue, c)
	w.begin()
}

// begin starts a writer if one is wanted; it needs mu.
func (w *writers) begin() {
	if w.first < len(w.queue) && w.active < w.limit {
		w.active++
		go w.run()
	}
}

// next takes the connection that has waited longest. If there is none the writer is to end.
func (w *writers) next() (c *wsConn, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == len(w.queue) {
		const keep = 1 << 10
		w.first, w.queue = 0, w.queue[:0]
		if cap(w.queue) > keep {
			w.queue = nil // of a rare crowd
		}
		w.active--
		return nil, false
	}
	c = w.queue[w.first]
	w.queue[w.first] = nil
	w.first++
	return c, true
}

// run writes to one connection after the other, until none has anything or until it has had to wait for one.
func (w *writers) run() {
	scratch := w.scratch.Get().(*[]byte)
	defer w.scratch.Put(scratch)
	waited := false
	out := &chunkWriter{timeout: w.timeout, notice: w.notice, buf: *scratch}
	out.waits = func() {
		if waited {
			return
		}
		waited = true
		w.mu.Lock()
		w.active--
		w.begin()
		w.mu.Unlock()
	}
	for !waited {
		c, ok := w.next()
		if !ok {
			return
		}
		c.write(out)
	}
}
