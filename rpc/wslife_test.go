package rpc

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
)

// TestWebSocketOrderBehindALongText: a message that has to wait before it is taken apart, because it is so
// long, is overtaken by none that came after it on its connection. Those of other connections need not wait.
func TestWebSocketOrderBehindALongText(t *testing.T) {
	const n = 20
	o := newOrderMethod()
	processors := capacity.NewPermits(1, 1)
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Processors: processors}, append(testMethods(), o.method())...))
	permit := must.Get(processors.Enter(t.Context(), littleMemory().Open("8.8.8.8"), 1, false))(t)
	ws, other := dial(t, url, nil), dial(t, url, nil)
	send(t, ws, "["+strings.Repeat(" ", longText)+o.call(0)+"]")
	for i := range n - 1 {
		send(t, ws, o.call(i+1))
	}
	for range 100 { // so that what could overtake has the time to
		send(t, other, call1("eth_chainId"))
		receive(t, other)
	}
	permit.Leave()
	for range n {
		receive(t, ws)
	}
	o.check(t, n)
}

// TestWebSocketDrain: a server that stops lets messages in progress finish and
// says goodbye with 1001.
func TestWebSocketDrain(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	m := Method{Name: "eth_slow", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
		close(started)
		<-release
		return "done", ctx.Err()
	}}
	url, stop := serveWS(t, testDispatcher(t, testConfig(), Options{}, m))
	busy, quiet := dial(t, url, nil), dial(t, url, nil)
	send(t, busy, `{"jsonrpc":"2.0","id":1,"method":"eth_slow"}`)
	<-started
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	wantClose(t, quiet, websocket.CloseGoingAway)
	close(release)
	compareJSON(t, "answer", receive(t, busy), `{"result":"done","jsonrpc":"2.0","id":1}`)
	wantClose(t, busy, websocket.CloseGoingAway)
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(url, "ws://")); err == nil {
		conn.Close()
		t.Error("a stopped server took a connection")
	}
}

// TestWebSocketDrainGivesUp: a message that does not finish in time is cancelled
// and the server stops all the same.
func TestWebSocketDrainGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.HTTP.DrainTimeout = envx.Millis(20 * time.Millisecond)
		started := make(chan struct{})
		m := Method{Name: "eth_slow", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ws, stop := pipeWS(t, testDispatcher(t, c, Options{}, m))
		send(t, ws, `{"jsonrpc":"2.0","id":1,"method":"eth_slow"}`)
		<-started
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		compareJSON(t, "answer", receive(t, ws), `{"error":{"code":-32010,"message":"[Request ID: test] Request timeout. Please try again."},"jsonrpc":"2.0","id":1}`)
		wantClose(t, ws, websocket.CloseGoingAway)
		if err := <-stopped; err == nil {
			t.Error("Run returned no error although a message was cut off")
		}
	})
}

// TestWebSocketSlowClient: a client that takes nothing in is cut off, and its
// senders are not held up for longer than the write time-out.
func TestWebSocketSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.WebSocket.WriteTimeout = envx.Millis(100 * time.Millisecond)
		large := json.RawMessage(`"` + strings.Repeat("x", megabyte) + `"`)
		met := NewMetrics()
		m := Method{Name: "eth_large", Inline: true, AnyParams: true, Handler: returns(large)}
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{Metrics: met}, m))
		go func() {
			for ws.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_large"}`)) == nil {
			}
		}()
		eventually(t, func() bool { return value(met.ws.closed) == 1 })
		if got := value(met.ws.slow); got != 1 {
			t.Errorf("slow clients: got %v, want 1", got)
		}
	})
}

// TestWebSocketNotify: a method can send to its connection later; a client that
// does not keep up is closed with 1008 and nobody waits for it.
func TestWebSocketNotify(t *testing.T) {
	conns := make(chan Notifier, 1)
	m := subscribing(conns)
	d := testDispatcher(t, testConfig(), Options{}, m)
	url, _ := serveWS(t, d)
	ws := dial(t, url, nil)
	send(t, ws, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
	receive(t, ws)
	conn := <-conns
	closed := make(chan struct{})
	conn.OnClose(func() { close(closed) })
	if !conn.Notify("0x1", NewEvent([]byte(`{"n":1}`))) {
		t.Fatal("a notification was not taken")
	}
	compareJSON(t, "notification", receive(t, ws),
		`{"jsonrpc":"2.0","method":"test_subscription","params":{"result":{"n":1},"subscription":"0x1"}}`)
	large := []byte(`"` + strings.Repeat("x", megabyte) + `"`)
	for conn.Notify("0x1", NewEvent(large)) {
	}
	wantClose(t, ws, websocket.ClosePolicyViolation)
	<-conn.Done()
	<-closed
	if conn.Notify("0x1", NewEvent([]byte(`{}`))) {
		t.Error("a closed connection took a notification")
	}
}

// TestSharedPort: HTTP and WebSocket on one listener.
func TestSharedPort(t *testing.T) {
	d := testDispatcher(t, testConfig(), Options{})
	ws := NewWSServer(d)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ws.Run(ctx, nil) }()
	url := serveHTTP(t, d, HTTPOptions{Upgrade: ws})
	conn := dial(t, "ws"+strings.TrimPrefix(url, "http")+"/any/path", nil)
	send(t, conn, chainIDCall)
	overWS := receive(t, conn)
	_, overHTTP := post(t, url, chainIDCall)
	if diff := cmp.Diff(overHTTP, overWS); diff != "" {
		t.Errorf("answers differ: %s", diff)
	}
	cancel()
	wantClose(t, conn, websocket.CloseGoingAway)
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
