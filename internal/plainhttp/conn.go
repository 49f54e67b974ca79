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

// conn is one client. One goroutine reads its requests and has them answered. While a request is answered later
// there is none, and another one goes on afterwards.
type conn struct {
	l      *Listener
	tcp    *net.TCPConn
	remote string
	ctx    context.Context // that of its requests
	cancel context.CancelFunc
	state  atomic.Int32
	leave  func() // once nobody here has it any more
	watch  watch
	// partings counts, of a request that is answered later, the goroutine that left it and its Done. The second of
	// them goes on with the connection.
	partings atomic.Int32
	deadline time.Time // of such a request, see Request.Later
	expire   func()    // likewise

	// Owned by the goroutine, and by whoever answers a request later.
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

// step is how serving a connection has stopped.
type step int

const (
	over  step = iota // the connection ends
	other             // what came is for net/http
	later             // the request will be answered later
)

// run serves the connection to its end, until it is net/http's, or until a request is to be answered later.
func (c *conn) run() { c.goOn(c.serve) }

// resume is run after a request that was answered later.
func (c *conn) resume() {
	c.goOn(func() step {
		if !c.endRequest() {
			return over
		}
		return c.serve()
	})
}

func (c *conn) goOn(serve func() step) {
	last := over
	defer func() {
		if last != later {
			c.cancel()
			c.l.dismiss(c)
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			c.l.Logger.Error("http connection panicked", "client", c.remote, "panic", p, "stack", string(debug.Stack()))
			c.abort()
			c.leave()
		}
	}()
	switch last = serve(); {
	case last == later: // from here on it may be somebody else's
		return
	case last == other && c.state.CompareAndSwap(idle, ended): // from here on it is not for Close
		c.l.hand(c.replay())
		return
	}
	defer c.leave()
	c.request.holding.Close()
	c.in.release()
	c.abort()
}

// serve answers plain requests.
func (c *conn) serve() step {
	for {
		if !c.await() {
			return over
		}
		if !c.receive() {
			return other
		}
		if !c.state.CompareAndSwap(idle, busy) {
			return over
		}
		c.served = true
		if c.l.Handler.ServePlain(&c.request) {
			c.l.lookout.add(c)
			if !c.meet() {
				return later
			}
		}
		if !c.endRequest() {
			return over
		}
	}
}

// meet tells whether the other one of the two partings of a request was there before.
func (c *conn) meet() bool {
	const both = 2
	return c.partings.Add(1) == both
}

// endRequest comes after the answer. The result tells whether the connection goes on.
func (c *conn) endRequest() bool {
	if c.partings.Swap(0) > 0 {
		c.l.lookout.remove(c)
	}
	c.expire = nil
	c.request.finish()
	c.stopWatch()
	c.state.Store(idle)
	// Whoever says that nothing more will come, or has gone, may have sent requests
	// before: they are served, as net/http does, with a context that has ended.
	return !c.failed && !c.last && !c.l.draining.Load()
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

// replay makes the connection one that begins with what was read of it already.
func (c *conn) replay() net.Conn {
	c.readBy.exactly(time.Time{})
	c.writeBy.exactly(time.Time{})
	return &replayed{Socket: Socket{c.tcp}, head: c.in.bytes, holding: c.request.holding, leave: c.leave}
}

func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, ended) {
		c.abort()
	}
}

// abort closes the connection. Its goroutine notices. The error, if any, is that of a
// connection that is closed already.
func (c *conn) abort() { _ = c.tcp.Close() }
