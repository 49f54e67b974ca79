package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// wsLink multiplexes messages over a fixed set of WebSocket connections; a lane stays
// on one of them, so its messages arrive in the order sent. A connection that drops is
// not replaced: what was planned for it goes unanswered, and the report says so.
type wsLink struct {
	conns   []*wsConn
	readers sync.WaitGroup
}

type wsConn struct {
	conn    *websocket.Conn
	timeout time.Duration

	writing sync.Mutex // one message is written at a time

	mu      sync.Mutex
	waiting map[uint64]*wsCall // by each id of the exchange; guarded by mu
	sent    uint64             // exchanges so far; guarded by mu
	failure error              // why the connection is over; guarded by mu
}

// A wsCall is an exchange that waits. Whoever removes it from waiting calls done.
type wsCall struct {
	x     *exchange
	seq   uint64
	timer *time.Timer
}

func dialWS(ctx context.Context, u *url.URL, conns int, timeout time.Duration) (*wsLink, error) {
	header := http.Header{"User-Agent": {"lockstep-bench"}}
	target := *u
	if u.User != nil {
		password, _ := u.User.Password()
		token := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		header.Set("Authorization", "Basic "+token)
		target.User = nil
	}
	dialer := websocket.Dialer{HandshakeTimeout: min(timeout, 10*time.Second)}
	l := &wsLink{}
	for range conns {
		conn, resp, err := dialer.DialContext(ctx, target.String(), header)
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		if err != nil {
			l.close()
			if resp != nil {
				return nil, statusError(resp.StatusCode)
			}
			return nil, transportError{err}
		}
		conn.SetReadLimit(maxReplyBytes)
		c := &wsConn{conn: conn, timeout: timeout, waiting: make(map[uint64]*wsCall)}
		l.conns = append(l.conns, c)
		l.readers.Go(c.read)
	}
	return l, nil
}

func (l *wsLink) send(ctx context.Context, x *exchange) {
	l.conns[x.lane%len(l.conns)].send(ctx, x)
}

func (l *wsLink) close() {
	for _, c := range l.conns {
		c.fail(errClosed)
	}
	l.readers.Wait()
}

func (c *wsConn) send(ctx context.Context, x *exchange) {
	c.writing.Lock()
	defer c.writing.Unlock()
	x.start = time.Now()
	if err := c.enter(ctx, x); err != nil {
		x.done(reply{at: time.Now(), err: err})
		return
	}
	_ = c.conn.SetWriteDeadline(x.start.Add(c.timeout))
	if err := c.conn.WriteMessage(websocket.TextMessage, x.body); err != nil {
		c.fail(err)
	}
}

// enter registers x for its answer.
func (c *wsConn) enter(ctx context.Context, x *exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return errClosed
	}
	if c.failure != nil {
		return c.failure
	}
	call := &wsCall{x: x, seq: c.sent}
	c.sent++
	for _, id := range x.ids {
		c.waiting[id] = call
	}
	call.timer = time.AfterFunc(c.timeout, func() { c.finish(call, reply{err: errTimeout}) })
	return nil
}

// finish answers call unless something else did.
func (c *wsConn) finish(call *wsCall, rep reply) {
	c.mu.Lock()
	owned := c.waiting[call.x.ids[0]] == call
	if owned {
		for _, id := range call.x.ids {
			delete(c.waiting, id)
		}
	}
	c.mu.Unlock()
	if !owned {
		return
	}
	call.timer.Stop()
	rep.at = time.Now()
	call.x.done(rep)
}

// fail ends the connection and everything that waits on it. The first reason stays.
func (c *wsConn) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	calls := make([]*wsCall, 0, len(c.waiting))
	for _, call := range c.waiting {
		calls = append(calls, call) // a batch is listed once per id; finish answers it once
	}
	reason := c.failure
	c.mu.Unlock()
	_ = c.conn.Close()
	for _, call := range calls {
		c.finish(call, reply{err: reason})
	}
}

// read hands out answers until the connection ends.
func (c *wsConn) read() {
	for {
		_, body, err := c.conn.ReadMessage()
		if err != nil {
			var closing *websocket.CloseError
			if errors.As(err, &closing) {
				err = errors.Join(err, net.ErrClosed)
			}
			c.fail(err)
			return
		}
		messages, err := parseReply(body)
		if err != nil || len(messages) == 0 {
			continue // nobody can be told; the time-out speaks for it
		}
		if call := c.callOf(messages); call != nil {
			c.finish(call, reply{status: http.StatusOK, messages: messages})
		}
	}
}

// callOf finds whom the messages answer. A batch that was refused as a whole carries no
// id; servers answer those at once, so it belongs to the oldest call without an answer.
func (c *wsConn) callOf(messages []message) *wsCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		if id, ok := m.id(); ok {
			return c.waiting[id]
		}
	}
	if messages[0].Error == nil {
		return nil
	}
	var oldest *wsCall
	for _, call := range c.waiting {
		if oldest == nil || call.seq < oldest.seq {
			oldest = call
		}
	}
	return oldest
}
