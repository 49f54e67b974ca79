//go:build unix

package plainhttp

import (
	"errors"
	"syscall"
)

// clientGone tells, without reading, whether the client has closed the connection or its side of it. Bytes that wait
// hide that: they may be requests.
func (c *conn) clientGone() (gone bool) {
	raw, err := c.tcp.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n <= 0 && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return gone || err != nil
}
