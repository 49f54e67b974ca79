package rpc

import (
	"bytes"
	"net"
	"sync"
	"syscall"
	"time"
)

// chunkWriter joins small frames into few writes and sends large payloads without a copy. A write that would wait has
// a time-out of its own.
type chunkWriter struct {
	conn    net.Conn
	raw     syscall.RawConn // of conn; nil: it has none, so every write may wait
	timeout time.Duration
	notice  string // what begins each notification
	buf     []byte // of scratchSize, but while it waits
	waits   func() // is called before a write that may wait; nil: nobody wants to know

	pool    *sync.Pool // that buf is of; nil: none
	scratch *[]byte    // of pool, with buf

	attempt attempt
}

// borrow takes a buffer from the pool.
func (w *chunkWriter) borrow() {
	w.scratch = w.pool.Get().(*[]byte)
	w.buf = (*w.scratch)[:0]
}

// giveBack gives it back.
func (w *chunkWriter) giveBack() {
	w.pool.Put(w.scratch)
	w.scratch, w.buf = nil, nil
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
		rest, err := w.try(payload[:n])
		if err == nil && len(rest) > 0 {
			err = w.wait(rest, false)
		}
		if err != nil {
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
	rest, err := w.try(w.buf)
	if err == nil && len(rest) > 0 {
		err = w.wait(rest, true)
	}
	w.buf = w.buf[:0]
	return err
}

// try writes as much as there is room for, and returns the rest.
func (w *chunkWriter) try(p []byte) (rest []byte, err error) {
	if w.raw == nil {
		return p, nil
	}
	n, err := w.attempt.write(w.raw, p)
	return p[n:], err
}

// wait writes what the client has no room for yet. buffered: it is in buf. Many clients may keep a writer each waiting, so
// that buf is given back meanwhile.
func (w *chunkWriter) wait(p []byte, buffered bool) error {
	if w.waits != nil {
		w.waits()
	}
	if w.pool != nil {
		if buffered {
			p = bytes.Clone(p)
		}
		w.giveBack()
		defer w.borrow()
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	if _, err := w.conn.Write(p); err != nil {
		return err
	}
	return w.conn.SetWriteDeadline(time.Time{}) // attempts have none
}
