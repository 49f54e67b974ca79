//go:build unix

package rpc

import (
	"errors"
	"syscall"
)

// attempt writes as much as there is room for, without waiting. It is for the only writer of a connection: it neither waits for others
// nor keeps them out.
type attempt struct {
	try     func(fd uintptr) // made once, for it would be memory of each write
	pending []byte
	written int
	err     error
}

func (a *attempt) write(raw syscall.RawConn, p []byte) (n int, err error) {
	if a.try == nil {
		a.try = a.once
	}
	a.pending, a.written, a.err = p, 0, nil
	err = raw.Control(a.try)
	a.pending = nil
	if err == nil {
		err = a.err
	}
	return a.written, err
}

// once is called with the socket.
func (a *attempt) once(fd uintptr) {
	n, err := syscall.Write(int(fd), a.pending)
	a.written = max(n, 0)
	if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
		a.err = err
	}
}
