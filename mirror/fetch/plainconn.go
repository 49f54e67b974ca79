package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"time"
)

// plainConn is a connection of a plainTransport. It serves one request at a time.
type plainConn struct {
	net.Conn
	transport *plainTransport
	host      *plainHost
	in        *bufio.Reader
	left      int64     // bytes that may still be read
	used      bool      // it has served a request
	stale     bool      // it ended before the answer to a further request began
	since     time.Time // when it became idle; guarded by plainTransport.mu
}

// longestHeader bounds an answer's status line and headers, interim answers included.
const longestHeader = 256 << 10

var errHeader = errors.New("the header of the answer is too long")

func newPlainConn(t *plainTransport, host *plainHost, conn net.Conn) *plainConn {
	c := &plainConn{Conn: conn, transport: t, host: host}
	c.in = bufio.NewReader(c)
	return c
}

// Read reads from the connection, up to the bytes that are allowed.
func (c *plainConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.Conn.Read(p)
	c.left -= int64(n)
	return n, err
}

// exchange sends a request and reads the answer up to its body. When the body has been read and closed the
// connection goes back.
func (c *plainConn) exchange(r *http.Request, text []byte) (*http.Response, error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	answer, err := c.ask(r, text)
	if err != nil {
		stop()
		if ctx.Err() != nil {
			return nil, ctx.Err() // the connection's own error only says that its time was up
		}
		return nil, err
	}
	answer.Body = &plainBody{ReadCloser: answer.Body, conn: c, stop: stop, last: answer.Close}
	return answer, nil
}

func (c *plainConn) ask(r *http.Request, text []byte) (*http.Response, error) {
	c.left = longestHeader
	_, err := c.Write(text)
	if err == nil {
		_, err = c.in.Peek(1)
	}
	if err != nil {
		c.stale = c.used
		return nil, err
	}
	c.used = true
	for {
		answer, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode/100 != 1 { // interim answers announce another
			c.left = math.MaxInt64
			return answer, nil
		}
	}
}

func (c *plainConn) discard() { _ = c.Close() }

// plainBody is the body of an answer. Closing it frees the connection, for the next request if nothing of this
// one is left.
type plainBody struct {
	io.ReadCloser
	conn  *plainConn
	stop  func() bool // ends the watch over the request's context
	last  bool        // the connection ends with this answer
	ended bool        // the whole body was read
	freed bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF //nolint:errorlint // the contract of io.Reader
	return n, err
}

func (b *plainBody) Close() error {
	if b.freed {
		return nil
	}
	b.freed = true
	c := b.conn
	if b.stop() && b.ended && !b.last && c.in.Buffered() == 0 {
		c.transport.put(c)
		return nil
	}
	c.discard()
	return nil
}
