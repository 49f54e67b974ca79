package rpc

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstep/internal/budget"
)

// notifiers serves WebSocket connections, and returns what dials one and the side of the server that can notify it.
func notifiers(t *testing.T, limit int) func() (client interface{ ReadMessage() (int, []byte, error) }, conn Notifier) {
	conns := make(chan Notifier, 1)
	m := Method{Name: "eth_subscribe", Inline: true, AnyParams: true, WebSocketOnly: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
		r, _ := FromContext(ctx)
		conns <- r.Conn
		return "0x1", nil
	}}
	cfg := testConfig()
	cfg.WebSocket.ConnectionLimit, cfg.WebSocket.ConnectionLimitPerIP = limit, limit
	url, _ := serveWS(t, testDispatcher(t, cfg, Options{}, m))
	return func() (interface{ ReadMessage() (int, []byte, error) }, Notifier) {
		ws := dial(t, url, nil)
		send(t, ws, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
		receive(t, ws)
		return ws, <-conns
	}
}

// Clients that do not read, and there are more of them than writers, hold nobody else up.
func TestWritersAreNotHeldUp(t *testing.T) {
	deaf := runtime.GOMAXPROCS(0) + 2
	connect := notifiers(t, deaf+1)
	large := []byte(`"` + strings.Repeat("x", megabyte) + `"`)
	for range deaf {
		_, conn := connect()
		for range 12 { // more than the network takes, and less than the limit
			if !conn.Notify("0x1", large) {
				t.Fatal("a notification was not taken")
			}
		}
	}
	client, conn := connect()
	for _, want := range []string{"1", "2", "3"} {
		conn.Notify("0x1", []byte(want))
		_, text, err := client.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		compareJSON(t, "notification", string(text), `{"jsonrpc":"2.0","method":"eth_subscription","params":{"result":`+want+`,"subscription":"0x1"}}`)
	}
}

// A connection that always has something to send gets its turn, and then the others get theirs.
func TestWritersTakeTurns(t *testing.T) {
	var o *outbox
	started := 0
	o = newOutbox(func() { started++ })
	writes := 0
	conn := &putting{put: func() {
		writes++
		o.put(frame{opcode: opText, payload: []byte("more"), account: new(budget.Account)})
	}}
	o.put(frame{opcode: opText, payload: []byte("first"), account: new(budget.Account)})
	out := &chunkWriter{conn: conn, timeout: patience, buf: make([]byte, 0, scratchSize)}
	for round := 1; round <= 3; round++ {
		if more, last, err := o.flush(out); !more || last || err != nil || writes != round {
			t.Fatalf("round %d: %d writes; more %v, last %v, %v", round, writes, more, last, err)
		}
	}
	conn.put = func() {}
	if more, _, err := o.flush(out); more || err != nil {
		t.Fatalf("there is nothing more to write: %v, %v", more, err)
	}
	if o.put(frame{opcode: opText, payload: []byte("again"), account: new(budget.Account)}); started != 2 {
		t.Errorf("a writer was asked for %d times, want 2: for the first frame and after all were written", started)
	}
}

// putting is a connection that calls put at every write.
type putting struct {
	net.Conn
	put func()
}

func (p *putting) SetWriteDeadline(time.Time) error { return nil }
func (p *putting) Write(text []byte) (int, error) {
	p.put()
	return len(text), nil
}

// The queue of the writers keeps the order, and no place of those who had their turn.
func TestWritersQueue(t *testing.T) {
	w := newWriters(patience, "")
	w.active = w.limit // nobody begins
	conns := make([]wsConn, 100)
	next := 0
	for i := range 10_000 {
		w.add(&conns[i%len(conns)])
		if i < 50 {
			continue // so many wait all the time
		}
		if c, ok := w.next(); !ok || c != &conns[next%len(conns)] {
			t.Fatalf("turn %d is not in order", next)
		}
		next++
	}
	if cap(w.queue) > 1000 {
		t.Errorf("the queue of 50 has room for %d", cap(w.queue))
	}
	for range 50 {
		if _, ok := w.next(); !ok {
			t.Fatal("the queue has lost somebody")
		}
	}
	if _, ok := w.next(); ok || w.active != w.limit-1 {
		t.Errorf("a queue without anybody: %v, %d writers", ok, w.active)
	}
}
