package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
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
	waiting map[uint64]wsCall // by id; guarded by mu
	failure error             // why the connection is over; guarded by mu
}

// A wsCall is an exchange that waits. Whoever removes it from waiting calls done.
type wsCall struct {
	*exchange
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
		c := &wsConn{conn: conn, timeout: timeout, waiting: make(map[uint64]wsCall)}
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
	c.waiting[x.id] = wsCall{x, time.AfterFunc(c.timeout, func() { c.finish(x.id, reply{err: errTimeout}) })}
	return nil
}

// finish answers the call with that id unless something else did.
func (c *wsConn) finish(id uint64, rep reply) {
	c.mu.Lock()
	call, waits := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if waits {
		call.timer.Stop()
		rep.at = time.Now()
		call.done(rep)
	}
}

// fail ends the connection and everything that waits on it. The first reason stays.
func (c *wsConn) fail(err error) {
	c.mu.Lock()
	if c.failure == nil {
		c.failure = err
	}
	reason, calls := c.failure, slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	_ = c.conn.Close()
	for _, id := range calls {
		c.finish(id, reply{err: reason})
	}
}

// read hands out answers until the connection ends.
func (c *wsConn) read() {
	for {
		_, body, err := c.conn.ReadMessage()
		if err != nil {
			if _, closing := errors.AsType[*websocket.CloseError](err); closing {
				err = errors.Join(err, net.ErrClosed)
			}
			c.fail(err)
			return
		}
		// What is no answer to a call nobody can be told; the time-out speaks for it.
		if m, err := parseReply(body); err == nil {
			if id, ok := m.id(); ok {
				c.finish(id, reply{message: m})
			}
		}
	}
}
