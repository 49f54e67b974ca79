//go:build !linux || race

package nonblock

import (
	"net"
	"slices"
)

// Conn is a connection of TCP. Its methods that are not listed here are those of
// net.TCPConn.
type Conn struct{ *net.TCPConn }

// New makes a Conn of a connection, which is not to be used by itself any more.
func New(tcp *net.TCPConn) *Conn { return &Conn{tcp} }

// WriteBoth writes two pieces one after the other, and returns how many bytes of both it
// has written. They are one call, of which, unlike of one for several pieces, the race
// detector learns that what came before it has happened.
func (c *Conn) WriteBoth(head, body []byte) (int, error) {
	return c.Write(slices.Concat(head, body))
}
