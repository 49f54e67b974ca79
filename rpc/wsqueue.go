package rpc

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// WebSocket opcodes (RFC 6455, 5.2).
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const (
	// queueLimit is how many bytes wait for the client before senders have to.
	queueLimit = 4 << 20
	// writeChunk is how much one write sends; the write time-out is per chunk, so
	// that a large answer may take its time on a slow line.
	writeChunk = 64 << 10
)

// appendFrame appends one unfragmented, unmasked frame.
func appendFrame(dst []byte, opcode byte, payload []byte) []byte {
	const final = 0x80
	dst = append(dst, final|opcode)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, byte(n))
	case n < 1<<16:
		dst = append(dst, 126)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		dst = append(dst, 127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	return append(dst, payload...)
}

// appendCloseFrame appends a close frame. Control frames hold at most 125 bytes.
func appendCloseFrame(dst []byte, code int, reason string) []byte {
	payload := binary.BigEndian.AppendUint16(make([]byte, 0, 125), uint16(code))
	payload = append(payload, reason[:min(len(reason), 123)]...)
	return appendFrame(dst, opClose, payload)
}

// outbox is the bounded queue of frames on their way to one client. Any
// goroutine may put frames in; one writes them to the network, all that wait at
// once. Once it has failed or was sealed it takes nothing more.
type outbox struct {
	wake chan struct{} // holds at most one signal: there is something to write

	mu      sync.Mutex
	room    sync.Cond // on mu: waiting shrank, or the outbox closed
	waiting []byte    // frames; guarded by mu
	closed  bool      // guarded by mu
}

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

// put queues a frame, after waiting for room if need be. It returns false if the
// connection is over. The wait ends because the writer either makes room or fails
// by its time-out.
func (o *outbox) put(opcode byte, payload []byte) bool {
	o.mu.Lock()
	for len(o.waiting) >= queueLimit && !o.closed {
		o.room.Wait()
	}
	ok := o.add(opcode, payload)
	o.mu.Unlock()
	o.signal()
	return ok
}

// tryPut is put for senders that must not wait; full means that there is no room.
func (o *outbox) tryPut(opcode byte, payload []byte) (ok, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) >= queueLimit {
		return false, true
	}
	defer o.signal()
	return o.add(opcode, payload), false
}

// add needs mu.
func (o *outbox) add(opcode byte, payload []byte) bool {
	if o.closed {
		return false
	}
	o.waiting = appendFrame(o.waiting, opcode, payload)
	return true
}

// seal queues the last frames, if the outbox is still open. drop discards what
// waits before them.
func (o *outbox) seal(last []byte, drop bool) {
	o.mu.Lock()
	if !o.closed {
		if drop {
			o.waiting = nil
		}
		o.waiting = append(o.waiting, last...)
		o.closed = true
	}
	o.mu.Unlock()
	o.room.Broadcast()
	o.signal()
}

// fail discards everything: the network is gone.
func (o *outbox) fail() {
	o.mu.Lock()
	o.closed = true
	o.waiting = nil
	o.mu.Unlock()
	o.room.Broadcast()
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take exchanges what waits for the empty buffer spare. last is true if nothing
// will come after it.
func (o *outbox) take(spare []byte) (frames []byte, last bool) {
	o.mu.Lock()
	frames, last = o.waiting, o.closed
	o.waiting = spare[:0]
	o.mu.Unlock()
	o.room.Broadcast()
	return frames, last
}

// flush writes everything that waits; last is true if nothing will come after it.
// spare is a buffer for reuse, returned for the next time.
func (o *outbox) flush(conn net.Conn, timeout time.Duration, spare []byte) (next []byte, last bool, err error) {
	frames, last := o.take(spare)
	for rest := frames; len(rest) > 0; {
		chunk := rest[:min(len(rest), writeChunk)]
		if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return nil, last, err
		}
		if _, err := conn.Write(chunk); err != nil {
			return nil, last, err
		}
		rest = rest[len(chunk):]
	}
	if cap(frames) > writeChunk {
		frames = nil // do not hoard the memory of rare large answers
	}
	return frames, last, nil
}
