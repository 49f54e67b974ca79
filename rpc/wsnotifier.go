package rpc

import "github.com/gorilla/websocket"

// Done implements Notifier.
func (c *wsConn) Done() <-chan struct{} { return c.ctx.Done() }

// OnClose implements Notifier. context.AfterFunc does the same, for some 250 bytes more of each idle connection.
func (c *wsConn) OnClose(f func()) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		go f()
		return
	}
	c.closers = append(c.closers, f)
}

// over ends the calls of the connection, and tells those who wait for its end.
func (c *wsConn) over() {
	c.cancel()
	c.closing.Lock()
	defer c.closing.Unlock()
	for _, f := range c.closers {
		go f()
	}
	c.closers, c.closed = nil, true
}

// Notify implements Notifier.
func (c *wsConn) Notify(subscription string, e *Event) bool {
	waiting := &c.server.notifications
	if waiting.HalfFull() {
		c.server.writers.endSlow()
	}
	ok, full := c.out.tryPut(frame{opcode: opText, subscription: subscription, payload: e.result, event: e, holding: waiting}, c.server.config.NotifyLimit*megabyte)
	if full {
		c.TooSlow()
	}
	if ok {
		c.touch()
	}
	return ok
}

// TooSlow implements Notifier.
func (c *wsConn) TooSlow() {
	if c.end(ending{code: websocket.ClosePolicyViolation, reason: reasonSlow, drop: true}) {
		c.server.d.metrics.ws.slow.Inc()
	}
}
