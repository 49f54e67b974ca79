//go:build !race

package nonblock

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// most is how many bytes one call takes.
const most = 256 << 10

// Conn is a connection of TCP. Its methods that are not listed here are those of
// net.TCPConn.
type Conn struct {
	*net.TCPConn
	raw       syscall.RawConn
	tryToRead func(fd uintptr) bool // made once
	tryToSend func(fd uintptr) bool

	// Owned by the reader.
	in       []byte
	received int
	readErr  error

	// Owned by the writer.
	out     [2][]byte // what is left of it
	vector  [2]syscall.Iovec
	sent    int
	sendErr error
}

// New makes a Conn of a connection, which is not to be used by itself any more.
func New(tcp *net.TCPConn) *Conn {
	c := &Conn{TCPConn: tcp}
	c.raw, _ = tcp.SyscallConn() // fails only for what is no connection
	c.tryToRead, c.tryToSend = c.receive, c.send
	return c
}

// Read is that of io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in, c.received, c.readErr = p[:min(len(p), most)], 0, nil
	err := c.raw.Read(c.tryToRead)
	c.in = nil
	if err == nil {
		err = c.readErr
	}
	return c.received, err
}

// receive makes one call; the result is false if there is nothing to read yet.
func (c *Conn) receive(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&c.in[0])), uintptr(len(c.in)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			c.readErr = os.NewSyscallError("read", errno)
		case n == 0:
			c.readErr = io.EOF
		default:
			c.received = int(n)
		}
		return true
	}
}

// Write is that of io.Writer.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteBoth(p, nil) }

// WriteBoth writes two pieces one after the other, and returns how many bytes of both it
// has written.
func (c *Conn) WriteBoth(head, body []byte) (int, error) {
	c.out, c.sent, c.sendErr = [2][]byte{head, body}, 0, nil
	err := c.raw.Write(c.tryToSend)
	c.out, c.vector = [2][]byte{}, [2]syscall.Iovec{}
	if err == nil {
		err = c.sendErr
	}
	return c.sent, err
}

// send makes calls until all is written; the result is false if there is no room yet.
func (c *Conn) send(fd uintptr) bool {
	for {
		pieces := c.gather()
		if pieces == 0 {
			return true
		}
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&c.vector)), pieces)
		switch errno {
		case 0:
			c.advance(int(n))
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			c.sendErr = os.NewSyscallError("writev", errno)
			return true
		}
	}
}

// gather lists what the next call takes, and returns in how many pieces.
func (c *Conn) gather() (pieces uintptr) {
	room := most
	for _, p := range c.out {
		if p = p[:min(len(p), room)]; len(p) > 0 {
			c.vector[pieces].Base = &p[0]
			c.vector[pieces].SetLen(len(p))
			pieces++
			room -= len(p)
		}
	}
	return pieces
}

// advance drops n bytes that are written.
func (c *Conn) advance(n int) {
	c.sent += n
	for i, p := range c.out {
		taken := min(n, len(p))
		c.out[i] = p[taken:]
		n -= taken
	}
}
