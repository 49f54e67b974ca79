package plainhttp

import (
	"errors"
	"net"
	"syscall"

	"lockstep/internal/capacity"
)

// replayed is a connection of TCP of which a part was read already. It has none of the
// methods of net.TCPConn that would pass by that part.
type replayed struct {
	Socket
	head    []byte
	holding *capacity.Holding // that holds the head
	leave   func()            // may be called more than once
}

// Read reads what was read already, then what is still to come.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.head)
	if r.head = r.head[n:]; len(r.head) == 0 {
		r.head = nil // it is memory of a connection that may last
		r.holding.Close()
	}
	return n, nil
}

// Close closes the connection.
func (r *replayed) Close() error {
	r.holding.Close()
	r.leave()
	return r.Conn.Close()
}

// Socket is a connection that is wrapped, with the two methods of TCP that servers look for.
type Socket struct{ net.Conn }

// SyscallConn implements syscall.Conn if the connection does. What the wrapper has read already does not come through it.
func (s Socket) SyscallConn() (syscall.RawConn, error) {
	if system, ok := s.Conn.(syscall.Conn); ok {
		return system.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// CloseWrite says that nothing more will come.
func (s Socket) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
