//go:build !unix

package redisx

import (
	"net"
	"time"
)

// grace is room for a look at what has arrived, not for the server.
const grace = 5 * time.Millisecond

// look reads what has arrived, if this process comes to it within grace. The result is 0 if
// there is nothing.
func look(c net.Conn, b []byte) int {
	if c.SetReadDeadline(time.Now().Add(grace)) != nil {
		return 0
	}
	n, _ := c.Read(b) // the deadline is over, or the next read meets the same
	return n
}
