package rpc

import (
	"encoding/binary"
	"sync"

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
	// notification, that of all notifications of the server.
	holding *capacity.Holding
	event   *Event // whose result the payload is; nil: the frame is no notification
}

// sent gives back what the frame held.
func (f *frame) sent() {
	if f.event == nil {
		f.holding.Close()
		return
	}
	f.event.release(f.holding)
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
	room    sync.Cond // on mu: done grew, or the send queue takes no more
	waiting []frame   // guarded by mu
	queued  int       // cost of all frames so far, but for the last ones; guarded by mu
	done    int       // of these, of those that are written; guarded by mu
	sealed  bool      // it has the last frames; guarded by mu
	dropped bool      // what came before the last frames is not wanted; guarded by mu
	writing bool      // start was called, and flush has not said that there is no more; guarded by mu
}

// open tells whether it takes more than the last frames; it needs mu.
func (o *sendQueue) open() bool { return !o.sealed && !o.dropped }

func newSendQueue(start func()) *sendQueue {
	o := &sendQueue{start: start}
	o.room.L = &o.mu
	return o
}

// put queues a frame. If too much was queued before it, it waits until little enough of that is left; frames of tryPut that come
// meanwhile do not make it longer. It returns false if the connection is over. The wait
// has no context. What bounds it is WS_WRITE_TIMEOUT_MS, for each writeChunk of the frames before this one: the writer makes room
// or fails within that time, and both wake the wait. So do drop and seal.
func (o *sendQueue) put(f frame) bool {
	o.mu.Lock()
	for enough := o.queued - queueLimit; o.done <= enough && o.open(); {
		o.room.Wait()
	}
	return o.add(f)
}

// tryPut is put for senders that must not wait; full means that more than limit
// bytes wait already, or that there is no memory for more.
func (o *sendQueue) tryPut(f frame, limit int) (ok, full bool) {
	o.mu.Lock()
	if o.open() && (o.queued-o.done >= limit || f.event != nil && !f.event.hold(f.holding)) {
		o.mu.Unlock()
		return false, true
	}
	return o.add(f), false
}

// add needs mu, and unlocks it.
func (o *sendQueue) add(f frame) bool {
	if !o.open() {
		o.mu.Unlock()
		if f.event == nil {
			f.holding.Close()
		}
		return false
	}
	o.waiting = append(o.waiting, f)
	o.queued += f.cost()
	o.unlockAndStart()
	return true
}

// unlockAndStart needs mu, and unlocks it. It has a writer come if none does yet.
func (o *sendQueue) unlockAndStart() {
	start := !o.writing
	o.writing = true
	o.mu.Unlock()
	if start {
		o.start()
	}
}

// drop says that what waits is not wanted any more, and what a writer has taken neither, but for the frame that it is at. seal
// discards it: this one may be called with locks that many want.
func (o *sendQueue) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped = true
	o.room.Broadcast()
}

// seal queues the last frames, if there are none yet, and makes sure that a writer comes to the end.
func (o *sendQueue) seal(last []frame) {
	o.mu.Lock()
	var unwanted []frame
	if !o.sealed {
		if o.dropped {
			unwanted, o.waiting = o.waiting, nil
		}
		o.waiting = append(o.waiting, last...)
		o.sealed = true
		o.room.Broadcast()
	}
	o.unlockAndStart()
	discard(unwanted)
}

// fail discards everything: the network is gone.
func (o *sendQueue) fail() {
	o.mu.Lock()
	o.sealed, o.dropped = true, true
	unwanted := o.waiting
	o.waiting = nil
	o.room.Broadcast()
	o.mu.Unlock()
	discard(unwanted)
}

// discard gives back what unsent frames hold, and their memory.
func discard(frames []frame) {
	for i := range frames {
		frames[i].sent()
		frames[i] = frame{}
	}
}

// take removes what waits. last is true if nothing will come after it.
func (o *sendQueue) take() (frames []frame, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped && !o.sealed {
		return nil, false
	}
	frames, o.waiting = o.waiting, nil
	return frames, o.sealed
}

// written makes room.
func (o *sendQueue) written(cost int) {
	o.mu.Lock()
	o.done += cost
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
	o.done += cost
	more = o.sealed || len(o.waiting) > 0 && !o.dropped
	o.writing = more
	o.mu.Unlock()
	o.room.Broadcast()
	return more
}

// unwanted tells whether what a writer has taken is not wanted any more.
func (o *sendQueue) unwanted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// flush writes the frames that wait. If more have come meanwhile, it is to be called again; last is true if no more will
// come.
func (o *sendQueue) flush(w *chunkWriter) (more, last bool, err error) {
	frames, last := o.take()
	cost := 0
	for i := range frames {
		if i > 0 && !last && o.unwanted() {
			discard(frames[i:])
			break
		}
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
