//go:build unix

package redisx

import (
	"errors"
	"net"
	"syscall"
)

// look reads what has arrived, without waiting and whatever the deadline: however late this
// process looks, it sees it. The result is 0 if there is nothing.
func look(c net.Conn, b []byte) (n int) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Control(func(fd uintptr) {
		for {
			var failed error
			if n, failed = syscall.Read(int(fd), b); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return 0
	}
	return max(n, 0) // -1: there is nothing yet
}
