package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// halfClosed sends three requests on a connection, the first of which takes long, and then says that nothing more
// will come. The answers to all three must come all the same.
func halfClosed(ctx context.Context, c *client) {
	const rounds, requests, senders = 2, 3, 8 // there are places for a few simulations at a time
	if c.number >= senders {
		return
	}
	for range rounds {
		if ctx.Err() != nil {
			return
		}
		came, err := c.halfClose(ctx, simulateCall(1, loops), call("eth_chainId"), call("eth_blockNumber"))
		if err != nil && came == 0 {
			c.refused.Add(1) // the whole connection
			continue
		}
		if came < requests && ctx.Err() == nil {
			c.wrong("after a half-close %d of %d answers came: %v", came, requests, err)
		}
	}
	c.say("%d answers to requests before a half-close", c.answered.Load()+c.refused.Load())
}

// halfClose sends bodies, closes its half, and returns how many answers came.
func (c *client) halfClose(ctx context.Context, bodies ...string) (came int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) // it fails only when the connection is closed
	var all strings.Builder
	for _, body := range bodies {
		fmt.Fprintf(&all, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s", c.address(), len(body), body)
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		return 0, err
	}
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return 0, errors.New("the connection has no halves")
	}
	reader := bufio.NewReader(conn)
	for range bodies {
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return came, err
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return came, err
		}
		came++
		c.count(response.StatusCode, answer)
	}
	return came, nil
}
