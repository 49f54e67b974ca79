package rpc

import (
	"encoding/binary"
	"net"
	"sync"
	"syscall"
	"time"

	"lockstep/internal/capacity"
)

// WebSocket opcodes (RFC 6455, 5.2).
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const (
	// queueLimit is the maximum number of bytes that wait for the client. Beyond it answers wait.
	queueLimit = 4 << 20
	// writeChunk is how much one write sends. The write time-out holds for each chunk, so that a large
	// answer may take longer on a slow line.
	writeChunk = 64 << 10
	// scratchSize is how many bytes of small frames go into one write. Only a writer has such a buffer.
	scratchSize = 16 << 10
)

// frame is an unfragmented, unmasked frame that waits to be sent. Its payload does not change, and
// other connections may share it.
type frame struct {
	opcode byte
	// subscription, if not empty, makes the frame a notification of it: the payload
	// is then the result.
	subscription string
	payload      []byte
	more         [][]byte // these follow the payload
	// holding counts the bytes of the frame: the holding of the request that it answers, or, for a
	// notification, that of the connection.
	holding *capacity.Holding
}

// sent gives back what the frame held.
func (f *frame) sent() {
	if f.subscription != "" {
		f.holding.Give(f.cost())
	} else {
		f.holding.Close()
	}
}

// noticeHead is what goes before the result in a notification. The method is one of this program's own.
func noticeHead(method string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":{"result":`
}

// What goes behind the result, before the subscription's id and behind it.
const (
	noticeMiddle = `,"subscription":"`
	noticeTail   = `"}}`
)

// frameCost is about what a waiting frame costs besides its payload, in bytes.
const frameCost = 128

// length is the number of bytes inside the frame. If it is a notification, it begins with notice.
func (f *frame) length(notice string) int {
	if f.subscription == "" {
		return f.content()
	}
	return len(notice) + len(f.payload) + len(noticeMiddle) + len(f.subscription) + len(noticeTail)
}

func (f *frame) cost() int { return frameCost + f.content() }

func (f *frame) content() int {
	n := len(f.payload)
	for _, part := range f.more {
		n += len(part)
	}
	return n
}

// appendHead appends what goes before the payload.
func (f *frame) appendHead(dst []byte, notice string) []byte {
	const final = 0x80
	dst = append(dst, final|f.opcode)
	switch n := f.length(notice); {
	case n < 126:
		dst = append(dst, byte(n))
	case n < 1<<16:
		dst = append(dst, 126)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		dst = append(dst, 127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	if f.subscription != "" {
		dst = append(dst, notice...)
	}
	return dst
}

// appendTail appends what goes behind the payload.
func (f *frame) appendTail(dst []byte) []byte {
	if f.subscription == "" {
		return dst
	}
	dst = append(dst, noticeMiddle...)
	dst = append(dst, f.subscription...)
	return append(dst, noticeTail...)
}

// closeFrame returns a close frame. The payload of a control frame has a maximum of 125 bytes.
func closeFrame(code int, reason string) frame {
	payload := binary.BigEndian.AppendUint16(make([]byte, 0, 125), uint16(code))
	return frame{opcode: opClose, payload: append(payload, reason[:min(len(reason), 123)]...)}
}

// sendQueue is the bounded queue of frames for one connection. Any goroutine may put frames in. When there
// are any, start has a writer call flush.
type sendQueue struct {
	start func()

	mu      sync.Mutex
	room    sync.Cond // on mu: bytes shrank, or the send queue closed
	waiting []frame   // guarded by mu
	bytes   int       // cost of the frames that are not written yet; guarded by mu
	closed  bool      // the send queue takes no more frames; guarded by mu
	writing bool      // start was called, and flush has not said that there is no more; guarded by mu
}

func newSendQueue(start func()) *sendQueue {
	o := &sendQueue{start: start}
	o.room.L = &o.mu
	return o
}

// put queues a frame. It waits for room if there is none. It returns false if the connection is over. The wait
// has no context. What bounds it is WS_WRITE_TIMEOUT_MS, for each writeChunk of the frames before this one: the writer makes room
// or fails within that time, and both wake the wait. So does the end of the connection.
func (o *sendQueue) put(f frame) bool {
	o.mu.Lock()
	for o.bytes >= queueLimit && !o.closed {
		o.room.Wait()
	}
	ok, start := o.add(f)
	o.mu.Unlock()
	if start {
		o.start()
	}
	return ok
}

// tryPut is put for senders that must not wait; full means that more than limit
// bytes wait already, or more than the holding of the frame allows.
func (o *sendQueue) tryPut(f frame, limit int) (ok, full bool) {
	o.mu.Lock()
	if !o.closed && (o.bytes >= limit || f.holding.Take(f.cost()) != nil) {
		o.mu.Unlock()
		return false, true
	}
	ok, start := o.add(f)
	o.mu.Unlock()
	if start {
		o.start()
	}
	return ok, false
}

// add needs mu. If start is true the caller calls o.start without it.
func (o *sendQueue) add(f frame) (ok, start bool) {
	if o.closed {
		f.holding.Close() // the holding of an answer, or of a connection that is over
		return false, false
	}
	o.waiting = append(o.waiting, f)
	o.bytes += f.cost()
	start = !o.writing
	o.writing = true
	return true, start
}

// seal queues the last frames, if the send queue is still open, and makes sure that a writer comes to the end. drop
// discards what waits before them.
func (o *sendQueue) seal(last []frame, drop bool) {
	o.mu.Lock()
	if !o.closed {
		if drop {
			discard(o.waiting)
			o.waiting = nil
		}
		o.waiting = append(o.waiting, last...)
		o.closed = true
	}
	start := !o.writing
	o.writing = true
	o.mu.Unlock()
	o.room.Broadcast()
	if start {
		o.start()
	}
}

// fail discards everything: the network is gone.
func (o *sendQueue) fail() {
	o.mu.Lock()
	o.closed = true
	discard(o.waiting)
	o.waiting = nil
	o.mu.Unlock()
	o.room.Broadcast()
}

// discard gives back what unsent frames hold.
func discard(frames []frame) {
	for i := range frames {
		frames[i].sent()
	}
}

// take removes what waits. last is true if nothing will come after it.
func (o *sendQueue) take() (frames []frame, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.waiting = o.waiting, nil
	return frames, o.closed
}

// written makes room.
func (o *sendQueue) written(cost int) {
	o.mu.Lock()
	o.bytes -= cost
	o.mu.Unlock()
	o.room.Broadcast()
}

// finish makes room, and tells whether there is more to write. Without it start is called for the next frame. It keeps the memory of
// few frames for those to come: an event for all connections would be garbage of each.
func (o *sendQueue) finish(frames []frame, cost int) (more bool) {
	const few = 1
	o.mu.Lock()
	if o.waiting == nil && cap(frames) <= few {
		o.waiting = frames[:0]
	}
	o.bytes -= cost
	more = len(o.waiting) > 0 || o.closed
	o.writing = more
	o.mu.Unlock()
	o.room.Broadcast()
	return more
}

// flush writes the frames that wait. If more have come meanwhile, it is to be called again; last is true if no more will
// come.
func (o *sendQueue) flush(w *chunkWriter) (more, last bool, err error) {
	frames, last := o.take()
	cost := 0
	for i := range frames {
		if err := w.frame(&frames[i]); err != nil {
			discard(frames[i:])
			return false, last, err
		}
		frames[i].sent()
		if cost += frames[i].cost(); cost >= writeChunk {
			o.written(cost)
			cost = 0
		}
		frames[i] = frame{}
	}
	if err := w.flush(); err != nil {
		return false, last, err
	}
	more = o.finish(frames, cost)
	return more && !last, last, nil
}

// chunkWriter joins small frames into few writes and sends large payloads without a copy. A write that would wait has
// a time-out of its own.
type chunkWriter struct {
	conn    net.Conn
	raw     syscall.RawConn // of conn; nil: it has none, so every write may wait
	timeout time.Duration
	notice  string // what begins each notification
	buf     []byte // of scratchSize
	waits   func() // is called before a write that may wait; nil: nobody wants to know

	attempt attempt
}

func (w *chunkWriter) frame(f *frame) error {
	if len(w.buf)+f.length(w.notice)+frameCost > cap(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.buf = f.appendHead(w.buf, w.notice)
	if len(f.payload) > cap(w.buf)/2 {
		if err := w.through(f.payload); err != nil {
			return err
		}
	} else {
		w.buf = append(w.buf, f.payload...)
	}
	for _, part := range f.more {
		if err := w.through(part); err != nil {
			return err
		}
	}
	w.buf = f.appendTail(w.buf)
	return nil
}

// through sends the buffered bytes and then the payload.
func (w *chunkWriter) through(payload []byte) error {
	if err := w.flush(); err != nil {
		return err
	}
	for len(payload) > 0 {
		n := min(len(payload), writeChunk)
		if err := w.write(payload[:n]); err != nil {
			return err
		}
		payload = payload[n:]
	}
	return nil
}

func (w *chunkWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *chunkWriter) write(p []byte) error {
	if w.raw != nil {
		n, err := w.attempt.write(w.raw, p)
		if p = p[n:]; err != nil || len(p) == 0 {
			return err
		}
	}
	if w.waits != nil {
		w.waits()
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	if _, err := w.conn.Write(p); err != nil {
		return err
	}
	return w.conn.SetWriteDeadline(time.Time{}) // attempts have none
}
