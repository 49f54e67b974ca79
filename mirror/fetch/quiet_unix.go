//go:build unix

package fetch

import (
	"net"
	"syscall"
)

// canLook tells whether quiet can see what has arrived on a connection.
const canLook = true

// quiet tells whether nothing has arrived on an idle connection, not even its end: bytes before a request cannot
// answer it. A connection that is no socket, as in tests, counts as quiet.
func quiet(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK //nolint:errorlint // an errno, never wrapped
		return true
	})
	return err == nil && nothing
}
