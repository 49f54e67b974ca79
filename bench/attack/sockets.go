package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/gorilla/websocket"

	"lockstep/internal/sleep"
)

// socket opens a WebSocket from an address of the client's choice.
func (c *client) socket(ctx context.Context, address string) (*websocket.Conn, bool) {
	ws, response, err := websocket.DefaultDialer.DialContext(ctx, c.ws, http.Header{"X-Forwarded-For": {address}})
	if err != nil {
		if ctx.Err() == nil {
			c.refused.Add(1)
		}
		return nil, false
	}
	_ = response.Body.Close()
	context.AfterFunc(ctx, func() { _ = ws.Close() })
	return ws, true
}

// forgedAddresses opens forty WebSockets from one address that call themselves forty.
func forgedAddresses(ctx context.Context, c *client) {
	if c.number > 0 {
		return
	}
	for i := range 40 {
		ws, ok := c.socket(ctx, fmt.Sprintf("203.0.113.%d", i))
		if !ok {
			continue
		}
		_ = ws.SetReadDeadline(time.Now().Add(time.Minute))
		_ = ws.WriteMessage(websocket.TextMessage, []byte(call("eth_chainId"))) // a refused one is closed
		if _, answer, err := ws.ReadMessage(); err == nil {
			c.count(http.StatusOK, answer)
		} else {
			c.refused.Add(1)
		}
		_ = ws.SetReadDeadline(time.Time{})
	}
	c.say("%d of 40 got in where 5 may", c.answered.Load())
}

func fiveGotIn(_ context.Context, t *target) error {
	if n := t.answered.Load(); n != 5 {
		t.wrong("%d connections of one address were taken where 5 may be", n)
	}
	return nil
}

// websocketFlood asks for everything that there is, and reads nothing.
func websocketFlood(ctx context.Context, c *client) {
	body := []byte(batch(20, allLogs))
	for range 4 {
		ws, ok := c.socket(ctx, c.address())
		if !ok {
			continue
		}
		for _, event := range []string{`"newHeads"`, `"logs",{}`} {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(call("eth_subscribe", event)))
		}
		for range 64 {
			_ = ws.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			if ws.WriteMessage(websocket.TextMessage, body) != nil {
				break // its messages in progress are as many as there may be
			}
		}
	}
	<-ctx.Done()
}

// leaveLogs has the chain hold some megabytes of logs: eight transactions leave two hundred
// each. Those that are there are enough.
func leaveLogs(ctx context.Context, t *target) error {
	// A constructor that leaves a log of 4 KB two hundred times.
	code := []byte{0x60, 200, 0x5b, 0x61, 0x10, 0x00, 0x60, 0x00, 0xa0, 0x60, 0x01, 0x90, 0x03, 0x80, 0x60, 0x02, 0x57, 0x00}
	const creations, logs = 8, 8 * 200
	c := client{target: t, url: t.url, number: honestNumber, http: http.DefaultClient}
	answer, err := c.send(ctx, call("eth_getTransactionCount", fmt.Sprintf("%q", t.ready.Accounts[logSender].Address), `"latest"`))
	if err != nil {
		return err
	}
	var sent uint64
	if _, err := fmt.Sscanf(string(answer), `{"result":"0x%x"`, &sent); err != nil {
		return fmt.Errorf("nonce: %w: %s", err, answer)
	}
	for nonce := sent; nonce < creations; nonce++ {
		raw, err := t.signAny(logSender, &types.LegacyTx{Nonce: nonce, Gas: 10_000_000, Data: code})
		if err != nil {
			return err
		}
		if answer, err := c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", raw))); err != nil || !strings.Contains(string(answer), "result") {
			return fmt.Errorf("send: %w: %s", err, answer)
		}
	}
	seen := 0
	for range 600 {
		answer, err := c.send(ctx, allLogs)
		if seen = bytes.Count(answer, []byte(`"logIndex"`)); err == nil && seen == logs {
			t.say("%d logs of %d KB", seen, len(answer)>>10)
			return nil
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("of %d logs %d show", logs, seen)
}
