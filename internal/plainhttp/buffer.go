package plainhttp

import "sync"

// bufferSize is what one read takes in, and what an idle connection holds.
const bufferSize = 2 << 10

// memory is what connections borrow.
type memory struct {
	small   sync.Pool // of *[bufferSize]byte
	large   sync.Pool // of *[]byte
	answers sync.Pool // of *[]byte
}

func (m *memory) answer() *[]byte {
	if p, ok := m.answers.Get().(*[]byte); ok {
		return p
	}
	b := make([]byte, 0, 1<<10)
	return &b
}

// take returns an empty buffer for at least n bytes.
func (m *memory) take(n int) []byte {
	if n <= bufferSize {
		if p, ok := m.small.Get().(*[bufferSize]byte); ok {
			return p[:0]
		}
		return make([]byte, 0, bufferSize)
	}
	if p, ok := m.large.Get().(*[]byte); ok && cap(*p) >= n {
		return (*p)[:0]
	}
	return make([]byte, 0, max(n, 4*bufferSize))
}

// give takes a buffer back, unless it is unusually large.
func (m *memory) give(b []byte) {
	const largest = 64 << 10
	poison(b)
	switch n := cap(b); {
	case n == bufferSize:
		m.small.Put((*[bufferSize]byte)(b[:bufferSize]))
	case n > bufferSize && n <= largest:
		m.large.Put(&b)
	}
}

// buffer holds what was read from a connection and not used up.
type buffer struct {
	bytes  []byte
	memory *memory
}

// room returns where to read to. It grows with what has arrived, not with what was
// announced, but not beyond that either, where it is known; 0 if not.
func (b *buffer) room(announced int) []byte {
	if n := len(b.bytes); n == cap(b.bytes) {
		b.move(b.bytes, grown(n, announced))
	}
	return b.bytes[len(b.bytes):cap(b.bytes)]
}

// grown is the size after a full buffer's.
func grown(size, announced int) int {
	if announced > size {
		return min(2*size, announced)
	}
	return 2 * size
}

// add appends a byte.
func (b *buffer) add(next byte) {
	at := len(b.bytes)
	b.room(0)[0] = next
	b.bytes = b.bytes[:at+1]
}

// move puts some of the bytes into a buffer of at least the size, which takes the old
// one's place.
func (b *buffer) move(some []byte, size int) {
	old := b.bytes
	b.bytes = append(b.memory.take(size), some...)
	b.memory.give(old)
}

// discard drops the first n bytes, whose memory is free then.
func (b *buffer) discard(n int) {
	rest := b.bytes[n:]
	if cap(b.bytes) > bufferSize && len(rest) <= bufferSize {
		b.move(rest, bufferSize)
		return
	}
	b.bytes = b.bytes[:copy(b.bytes, rest)]
}

// leave drops the first n bytes, whose memory is somebody else's from now on.
func (b *buffer) leave(n int) {
	rest := b.bytes[n:]
	b.bytes = append(b.memory.take(len(rest)), rest...)
}

// release gives the memory back if nothing is in it.
func (b *buffer) release() {
	if len(b.bytes) == 0 {
		b.memory.give(b.bytes)
		b.bytes = nil
	}
}
