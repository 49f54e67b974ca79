package plainhttp

import (
	"bytes"
	"context"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// restTime is how long the rest of a request may take that has begun. Slower ones are
// for net/http, which has time-outs for them.
const restTime = time.Second

// States of a connection, for Close.
const (
	idle int32 = iota // no request, or not all of it
	busy
	ended // or handed over
)

// conn is one client. One goroutine reads its requests and has them answered.
type conn struct {
	l      *Listener
	tcp    *net.TCPConn
	remote string
	ctx    context.Context // that of its requests
	cancel context.CancelFunc
	state  atomic.Int32
	leave  func() // once nobody here has it any more
	watch  watch

	// Owned by the goroutine.
	in      buffer
	request Request
	now     time.Time // about now
	served  bool      // it had a request
	failed  bool      // writing did
	last    bool      // the answer said that it is the connection's last
	readBy  deadline
	writeBy deadline
}

func newConn(l *Listener, tcp *net.TCPConn) *conn {
	c := &conn{l: l, tcp: tcp, remote: tcp.RemoteAddr().String(), now: time.Now()}
	c.ctx, c.cancel = context.WithCancel(l.ctx)
	c.in.memory = &l.memory
	c.request.c = c
	c.readBy.set, c.writeBy.set = tcp.SetReadDeadline, tcp.SetWriteDeadline
	return c
}

// run serves the connection to its end, or until it is net/http's.
func (c *conn) run() {
	defer c.l.dismiss(c)
	defer c.cancel()
	defer func() {
		if p := recover(); p != nil {
			c.l.Logger.Error("http connection panicked", "client", c.remote, "panic", p, "stack", string(debug.Stack()))
			c.abort()
			c.leave()
		}
	}()
	if c.serve() && c.state.CompareAndSwap(idle, ended) { // from here on it is not for Close
		c.l.hand(c.replay())
		return
	}
	defer c.leave()
	c.request.account.Close()
	c.in.release()
	c.abort()
}

// serve answers plain requests. The result tells that something else came.
func (c *conn) serve() (other bool) {
	for {
		if !c.await() {
			return false
		}
		if !c.receive() {
			return true
		}
		if !c.state.CompareAndSwap(idle, busy) {
			return false
		}
		c.answer()
		c.state.Store(idle)
		// Whoever says that nothing more will come, or has gone, may have sent requests
		// before: they are served, as net/http does, with a context that has ended.
		if c.failed || c.last || c.l.draining.Load() {
			return false
		}
	}
}

// await waits for the first bytes of a request. After the first request net/http wants
// four, and drops line ends among them, which some clients put behind the body of a POST.
func (c *conn) await() bool {
	need := 1
	if c.served {
		need = 4
	}
	for len(c.in.bytes) < need {
		c.readBy.atLeast(c.now, c.idleTimeout())
		if !c.read() {
			return false
		}
	}
	if c.served {
		c.in.discard(lineEnds(c.in.bytes[:need]))
	}
	return true
}

// lineEnds counts the bytes of line ends at the start.
func lineEnds(in []byte) int {
	return len(in) - len(bytes.TrimLeft(in, "\r\n"))
}

func (c *conn) idleTimeout() time.Duration {
	if c.served {
		return c.l.Server.IdleTimeout
	}
	return c.l.Server.ReadHeaderTimeout
}

// receive reads the rest of a request. The result tells whether it is plain.
func (c *conn) receive() bool {
	for hurried := false; ; {
		switch c.request.parse(c.in.bytes) {
		case odd:
			return false
		case plain:
			return true
		case partial:
		}
		if !hurried {
			hurried = true
			c.readBy.exactly(time.Now().Add(c.l.restTime))
		}
		if !c.read() {
			return false
		}
	}
}

// read reads what there is. After a failure there is nothing to come, or not in time.
func (c *conn) read() bool {
	n, _ := c.tcp.Read(c.in.room(c.request.size + c.request.length))
	c.in.bytes = c.in.bytes[:len(c.in.bytes)+n]
	return n > 0
}

// answer has the request answered.
func (c *conn) answer() {
	c.served = true
	c.l.Handler.ServePlain(&c.request)
	c.request.finish()
	c.stopWatch()
}

// replay makes the connection one that begins with what was read of it already.
func (c *conn) replay() net.Conn {
	c.readBy.exactly(time.Time{})
	c.writeBy.exactly(time.Time{})
	return &replayed{Conn: c.tcp, head: c.in.bytes, account: c.request.account, leave: c.leave}
}

func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, ended) {
		c.abort()
	}
}

// abort closes the connection. Its goroutine notices. The error, if any, is that of a
// connection that is closed already.
func (c *conn) abort() { _ = c.tcp.Close() }
