package rpc

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"lockstep/internal/relay/capacity"
)

// WebSocket opcodes (RFC 6455, 5.2).
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const (
	// queueLimit is the maximum number of bytes that may wait for the client when a frame is queued that it can do without.
	queueLimit = 4 << 20
	// writeChunk is how many bytes a client has to take within the write time-out, so that a large answer may take longer on a
	// slow line. As many bytes of small frames go into one write.
	writeChunk = 64 << 10
	// frameCost is about what a waiting frame costs besides its payload, in bytes.
	frameCost = 128
)

// frame is an unfragmented, unmasked frame that waits to be sent. Its bytes do not change, and other connections may share
// them.
type frame struct {
	opcode  byte
	payload [][]byte // in pieces
	// A notification has an event in place of a payload.
	event        *Event
	subscription string
	// free, if not nil, is called once, when the frame was sent or will not be.
	free func()
}

// sent gives back what the frame held.
func (f *frame) sent() {
	if f.event != nil {
		f.event.release()
	}
	if f.free != nil {
		f.free()
	}
}

func (f *frame) cost() int {
	n := frameCost + bytesIn(f.payload)
	if f.event != nil {
		n += len(f.event.result)
	}
	return n
}

// noticeHead is what goes before the result in a notification. The method is one of this program's own.
func noticeHead(method string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":{"result":`
}

// appendTo appends the bytes of the frame. If it is a notification, it begins with notice.
func (f *frame) appendTo(wire net.Buffers, notice string) net.Buffers {
	parts, before := f.payload, ""
	if f.event != nil {
		parts, before = [][]byte{f.event.result, []byte(`,"subscription":"` + f.subscription + `"}}`)}, notice
	}
	n := len(before) + bytesIn(parts)
	const final = 0x80
	head := append(make([]byte, 0, 10+len(before)), final|f.opcode)
	switch {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return append(append(wire, append(head, before...)), parts...)
}

func textFrame(payload ...[]byte) frame { return frame{opcode: opText, payload: payload} }

// closeFrame returns a close frame. The payload of a control frame has a maximum of 125 bytes.
func closeFrame(code int, reason string) frame {
	payload := binary.BigEndian.AppendUint16(make([]byte, 0, 125), uint16(code))
	return frame{opcode: opClose, payload: [][]byte{append(payload, reason[:min(len(reason), 123)]...)}}
}

// sendQueue is the queue of frames for one connection. Any goroutine may put frames in. While there are any, it is in the line of the
// writers.
type sendQueue struct {
	writers *writers
	conn    net.Conn
	timeout time.Duration
	notice  string
	failed  func(error)   // is called when a write failed
	written chan struct{} // closed when nothing will be written any more

	mu      sync.Mutex
	waiting []frame // guarded by mu
	bytes   int     // cost of these and of those that are being written; guarded by mu
	sealed  bool    // it has the last frames; guarded by mu
	dropped bool    // it takes the last frames only; guarded by mu
	writing bool    // guarded by mu
}

// put queues a frame. It does not if more than limit bytes wait already, in which case full is true, or if the connection is
// over.
func (o *sendQueue) put(f frame, limit int) (ok, full bool) {
	o.mu.Lock()
	full = o.bytes >= limit
	ok = !full && !o.sealed && !o.dropped
	if ok {
		o.add(f)
	}
	o.mu.Unlock()
	if !ok {
		f.sent()
	}
	return ok, full
}

// answer queues a frame however much waits: message slots bound how many answers do, and holdings how long they are.
func (o *sendQueue) answer(f frame) bool {
	ok, _ := o.put(f, math.MaxInt)
	return ok
}

// add needs mu.
func (o *sendQueue) add(frames ...frame) {
	for i := range frames {
		o.bytes += frames[i].cost()
	}
	o.waiting = append(o.waiting, frames...)
	if !o.writing {
		o.writing = true
		o.writers.add(o)
	}
}

// drop discards what waits. What is being written goes on.
func (o *sendQueue) drop() {
	o.mu.Lock()
	o.dropped = true
	unwanted := o.waiting
	o.waiting = nil
	o.mu.Unlock()
	o.over(unwanted)
}

// seal queues the last frames, if there are none yet.
func (o *sendQueue) seal(last []frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.sealed {
		o.sealed = true
		o.add(last...)
	}
}

// fail discards everything: the network is gone.
func (o *sendQueue) fail() {
	o.drop()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed = true
}

// over forgets frames that were sent, or will not be.
func (o *sendQueue) over(frames []frame) {
	cost := 0
	for i := range frames {
		cost += frames[i].cost()
		frames[i].sent()
	}
	clear(frames)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= cost
}

// take removes what goes into one write: one frame, or several small ones. Without any there is nothing to write now; then
// last tells whether there never will be.
func (o *sendQueue) take() (frames []frame, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for bytes := 0; n < len(o.waiting) && bytes < writeChunk; n++ {
		bytes += o.waiting[n].cost()
	}
	frames = o.waiting[:n]
	if o.waiting = o.waiting[n:]; len(o.waiting) == 0 {
		o.waiting = nil
	}
	if n == 0 && !o.sealed {
		o.writing = false
	}
	return frames, o.sealed
}

// write sends what waits, and has the queue get in line again. A client that does not take it at once is waited for in another goroutine.
func (o *sendQueue) write() {
	frames, last := o.take()
	if len(frames) == 0 {
		if last {
			close(o.written)
		}
		return
	}
	const atOnce = time.Millisecond
	wire := o.wire(frames)
	switch err := o.send(&wire, atOnce); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		o.writers.await(o, true)
		go func() {
			err := o.sendAll(wire)
			o.writers.await(o, false)
			o.end(frames, err)
		}()
	default:
		o.end(frames, err)
	}
}

// end forgets frames that were written, or could not be.
func (o *sendQueue) end(frames []frame, err error) {
	o.over(frames)
	if err != nil {
		o.fail()
		o.failed(err)
		close(o.written)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing = len(o.waiting) > 0 || o.sealed; o.writing {
		o.writers.add(o)
	}
}

// wire is the bytes of frames.
func (o *sendQueue) wire(frames []frame) (wire net.Buffers) {
	for i := range frames {
		wire = frames[i].appendTo(wire, o.notice)
	}
	return wire
}

// send writes what it can within a time, and leaves the rest in wire.
func (o *sendQueue) send(wire *net.Buffers, limit time.Duration) error {
	if err := o.conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := wire.WriteTo(o.conn)
	return err
}

// sendAll writes everything. It fails if the client does not take a writeChunk, or what there is, within the time-out.
func (o *sendQueue) sendAll(wire net.Buffers) error {
	for len(wire) > 0 {
		before := bytesIn(wire)
		if err := o.send(&wire, o.timeout); err != nil && (before-bytesIn(wire) < writeChunk || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
	}
	return nil
}

func bytesIn(parts [][]byte) (n int) {
	for _, part := range parts {
		n += len(part)
	}
	return n
}

// writers send what waits in the send queues. An event goes to all connections at the same moment, and a goroutine for each would
// cost more than its bytes, so a few take the connections in their order.
type writers struct {
	mu      sync.Mutex
	line    []*sendQueue            // each is there once; guarded by mu
	running int                     // guarded by mu
	slow    map[*sendQueue]struct{} // whose clients are waited for; guarded by mu
}

// await notes whether a client is waited for.
func (w *writers) await(o *sendQueue, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !is {
		delete(w.slow, o)
		return
	}
	if w.slow == nil {
		w.slow = make(map[*sendQueue]struct{})
	}
	w.slow[o] = struct{}{}
}

// endSlow ends the connections whose clients are waited for: what waits for them is more than there is room for. It returns false if
// there are none.
func (w *writers) endSlow() bool {
	w.mu.Lock()
	slow := slices.Collect(maps.Keys(w.slow))
	clear(w.slow)
	w.mu.Unlock()
	for _, o := range slow {
		o.failed(os.ErrDeadlineExceeded)
	}
	return len(slow) > 0
}

// add has a queue written. It is not added again before it was.
func (w *writers) add(o *sendQueue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = append(w.line, o)
	if w.running < runtime.GOMAXPROCS(0) {
		w.running++
		go w.run()
	}
}

func (w *writers) run() {
	for o := w.next(); o != nil; o = w.next() {
		o.write()
	}
}

// next takes the first in line; none: the goroutine ends.
func (w *writers) next() (o *sendQueue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) == 0 {
		w.line = nil
		w.running--
		return nil
	}
	o, w.line[0] = w.line[0], nil
	w.line = w.line[1:]
	return o
}

// Event is what subscribers are notified of. All who subscribed to the same get one Event and share its bytes. These
// count once, from the first notification that waits until the last one is written: a block told to 100,000 listeners is
// as much memory as one told to a single one.
type Event struct {
	result []byte

	mu      sync.Mutex
	waiting int               // notifications of it that are not written yet; guarded by mu
	holding *capacity.Holding // of these; guarded by mu
}

// NewEvent makes the event of a result, which is JSON and must not be changed any more.
func NewEvent(result []byte) *Event { return &Event{result: result} }

// Result returns the result. It must not be changed.
func (e *Event) Result() []byte { return e.result }

// hold counts one more notification. It returns false if there is no memory for it.
func (e *Event) hold(h *capacity.Holding) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := frameCost
	if e.waiting == 0 {
		bytes += len(e.result)
	}
	if h.Take(bytes) != nil {
		return false
	}
	e.waiting++
	e.holding = h
	return true
}

// release counts one less.
func (e *Event) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := frameCost
	if e.waiting--; e.waiting == 0 {
		bytes += len(e.result)
	}
	e.holding.Give(bytes)
}
