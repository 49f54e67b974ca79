package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

// patience is how long a test waits for what must happen; machines that test are busy.
const patience = 2 * time.Minute

// serveWS runs a server for the test's duration and returns its URL. stop ends it
// early and returns what Run returned.
func serveWS(t testing.TB, d *Dispatcher) (url string, stop func() error) {
	t.Helper()
	ln := listen(t)
	return "ws://" + ln.Addr().String(), runWS(t, d, ln)
}

// pipeWS is serveWS for a test with fake time, with one connection.
func pipeWS(t *testing.T, d *Dispatcher) (ws *websocket.Conn, stop func() error) {
	t.Helper()
	ln := newPipes()
	stop = runWS(t, d, ln)
	dialer := websocket.Dialer{NetDialContext: ln.dial}
	return dialWith(t, &dialer, "ws://relay", nil), stop
}

func runWS(t testing.TB, d *Dispatcher, ln net.Listener) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- NewWSServer(d).Run(ctx, ln) }()
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if stopped {
			return
		}
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return stop
}

func dial(t testing.TB, url string, header http.Header) *websocket.Conn {
	t.Helper()
	return dialWith(t, websocket.DefaultDialer, url, header)
}

func dialWith(t testing.TB, dialer *websocket.Dialer, url string, header http.Header) *websocket.Conn {
	t.Helper()
	ws, res := must.Get2(dialer.Dial(url, header))(t)
	res.Body.Close()
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(patience))
	return ws
}

func send(t testing.TB, ws *websocket.Conn, text string) {
	t.Helper()
	must.Do(t, ws.WriteMessage(websocket.TextMessage, []byte(text)))
}

func receive(t testing.TB, ws *websocket.Conn) string {
	t.Helper()
	_, text := must.Get2(ws.ReadMessage())(t)
	return string(text)
}

// wantClose reads until the connection ends and checks how.
func wantClose(t *testing.T, ws *websocket.Conn, code int) {
	t.Helper()
	for {
		_, _, err := ws.ReadMessage()
		if err == nil {
			continue
		}
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != code {
			t.Fatalf("got %v, want close code %d", err, code)
		}
		ws.Close()
		return
	}
}

func TestScriptsOverWebSocket(t *testing.T) {
	for _, s := range scripts(t) {
		if s.transport == "http" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			c := testConfig()
			c.Profile = s.profile
			url, _ := serveWS(t, testDispatcher(t, c, Options{}))
			ws := dial(t, url, nil)
			for _, x := range s.exchanges {
				send(t, ws, x.send)
				if x.expect != "" { // an answer too many would be taken for the next one
					compareJSON(t, s.name+":"+itoa(x.line), receive(t, ws), x.expect)
				}
			}
		})
	}
}

func TestWebSocketBatchLimits(t *testing.T) {
	c := testConfig()
	url, _ := serveWS(t, testDispatcher(t, c, Options{}))
	ws := dial(t, url, nil)
	send(t, ws, chainIDBatch(21))
	compareJSON(t, "too many", receive(t, ws),
		`[{"error":{"code":-32203,"message":"[Request ID: test] Batch request amount 21 exceeds max 20"},"jsonrpc":"2.0","id":null}]`)

	c.WebSocket.BatchEnabled = false
	url, _ = serveWS(t, testDispatcher(t, c, Options{}))
	ws = dial(t, url, nil)
	send(t, ws, chainIDBatch(2))
	compareJSON(t, "disabled", receive(t, ws),
		`[{"error":{"code":-32205,"message":"[Request ID: test] WS batch requests are disabled"},"jsonrpc":"2.0","id":null}]`)
}

func TestWebSocketConnectionLimits(t *testing.T) {
	c := testConfig()
	c.WebSocket.ConnectionLimit = 3
	c.WebSocket.ConnectionLimitPerIP = 2
	m := NewMetrics()
	url, _ := serveWS(t, testDispatcher(t, c, Options{Metrics: m}))
	from := func(ip string) http.Header { return http.Header{"X-Forwarded-For": {ip}} }
	chainID := func(ws *websocket.Conn) {
		t.Helper()
		send(t, ws, chainIDCall)
		compareJSON(t, "chain id", receive(t, ws), `{"result":"0x12a","jsonrpc":"2.0","id":1}`)
	}

	first := dial(t, url, from("10.0.0.1"))
	chainID(first)
	chainID(dial(t, url, from("10.0.0.1")))

	third := dial(t, url, from("10.0.0.1"))
	send(t, third, chainIDCall) // what it sends must not cost it the close frame
	compareJSON(t, "per address", receive(t, third), `{"jsonrpc":"2.0","error":{"code":4001,"message":"Exceeded maximum connections from a single IP address","data":{"message":"Exceeded maximum connections from a single IP address","max_connection":2}},"id":"1"}`)
	wantClose(t, third, 4001)

	chainID(dial(t, url, from("10.0.0.2")))
	over := dial(t, url, from("10.0.0.3"))
	compareJSON(t, "total", receive(t, over), `{"jsonrpc":"2.0","error":{"code":4003,"message":"Connection limit exceeded","data":{"message":"Connection limit exceeded","max_connection":3}},"id":"1"}`)
	wantClose(t, over, 4003)

	if got := value(m.ws.limitedByIP); got != 1 {
		t.Errorf("refused connections of the first address: got %v, want 1", got)
	}

	// A place that becomes free can be taken.
	first.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	wantClose(t, first, websocket.CloseNormalClosure)
	eventually(t, func() bool { return value(m.ws.active) == 2 })
	chainID(dial(t, url, from("10.0.0.1")))
}

// eventually polls a condition that another goroutine makes true.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("condition did not come true")
		}
	}
}

// No metric names an address: whoever may read them is not to learn who the clients are.
func TestWebSocketMetricsNameNoAddress(t *testing.T) {
	m := NewMetrics()
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Metrics: m}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collectors()...)
	clients := [...]string{"10.0.0.1", "10.0.0.2", "10.0.0.2", "2001:db8::7", "10.0.0.3"}
	scrape := func(when string) {
		t.Helper()
		families := must.Get(registry.Gather())(t)
		for _, f := range families {
			for _, series := range f.Metric {
				text := series.String()
				for _, client := range append(clients[:], "127.0.0.1", "2001:db8:") {
					if strings.Contains(text, client) {
						t.Errorf("%s, %s: %s", when, f.GetName(), text)
					}
				}
			}
		}
	}
	var open []*websocket.Conn
	for _, client := range clients {
		ws := dial(t, url, http.Header{"X-Forwarded-For": {client}})
		send(t, ws, chainIDCall)
		receive(t, ws)
		open = append(open, ws)
	}
	scrape("while they are open")
	if got := value(m.ws.busiest); got != 2 {
		t.Errorf("the maximum of one address: got %v, want 2", got)
	}
	open[1].Close()
	eventually(t, func() bool { return value(m.ws.busiest) == 1 })
	for _, ws := range open {
		ws.Close()
	}
	eventually(t, func() bool { return value(m.ws.closed) == float64(len(clients)) })
	scrape("after they are closed")
	if got := value(m.ws.busiest); got != 0 {
		t.Errorf("the maximum of no address: got %v, want 0", got)
	}
	if got := value(m.ws.methods.WithLabelValues("eth_chainId")); got != float64(len(clients)) {
		t.Errorf("calls: got %v, want %d", got, len(clients))
	}
}

func TestWebSocketInactivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.WebSocket.InactivityTTL = envx.Millis(50 * time.Millisecond)
		c.WebSocket.PingInterval = envx.Millis(10 * time.Millisecond) // pings do not count
		m := NewMetrics()
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{Metrics: m}))
		text := receive(t, ws)
		if text != `{"result":null,"jsonrpc":"2.0","id":null}` {
			t.Errorf("ping: got %s", text)
		}
		for strings.HasPrefix(text, `{"result":null`) {
			text = receive(t, ws)
		}
		compareJSON(t, "notice", text, `{"jsonrpc":"2.0","error":{"code":4002,"message":"Connection timeout expired","data":{"message":"Connection timeout expired","max_inactivity_TTL":50}},"id":"1"}`)
		wantClose(t, ws, 4002)
		if got := value(m.ws.limitedByTTL); got != 1 {
			t.Errorf("%v connections are counted", got)
		}
	})
}

func TestWebSocketProtocolPings(t *testing.T) {
	c := testConfig()
	c.Profile = ProfileEthereum
	c.WebSocket.PingInterval = envx.Millis(5 * time.Millisecond)
	url, _ := serveWS(t, testDispatcher(t, c, Options{}))
	ws := dial(t, url, nil)
	pinged, ponged := make(chan struct{}), make(chan string, 1)
	var once atomic.Bool
	ws.SetPingHandler(func(string) error {
		if once.CompareAndSwap(false, true) {
			close(pinged)
		}
		return nil
	})
	ws.SetPongHandler(func(data string) error { ponged <- data; return nil })
	go ws.ReadMessage()
	<-pinged
	ws.WriteControl(websocket.PingMessage, []byte("hello"), time.Now().Add(patience))
	if data := <-ponged; data != "hello" {
		t.Errorf("pong: got %q", data)
	}
}

func TestWebSocketBadMessages(t *testing.T) {
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{}))

	big := dial(t, url, nil)
	go big.WriteMessage(websocket.TextMessage, make([]byte, 3*megabyte))
	wantClose(t, big, websocket.CloseMessageTooBig)

	notText := dial(t, url, nil)
	notText.WriteMessage(websocket.TextMessage, []byte("\"\xff\xfe\""))
	wantClose(t, notText, websocket.CloseInvalidFramePayloadData)

	// Binary frames are read as JSON, too.
	binary := dial(t, url, nil)
	binary.WriteMessage(websocket.BinaryMessage, []byte(chainIDCall))
	compareJSON(t, "binary", receive(t, binary), `{"result":"0x12a","jsonrpc":"2.0","id":1}`)
	binary.WriteMessage(websocket.BinaryMessage, []byte("\"\xff\xfe\""))
	compareJSON(t, "binary, not UTF-8", receive(t, binary), `{"error":{"code":-32600,"message":"[Request ID: test] Invalid request"},"jsonrpc":"2.0","id":null}`)

	// A message in many fragments.
	w := must.Get(binary.NextWriter(websocket.TextMessage))(t)
	for _, c := range chainIDCall {
		fmt.Fprintf(w, "%c", c)
	}
	w.Close()
	compareJSON(t, "fragments", receive(t, binary), `{"result":"0x12a","jsonrpc":"2.0","id":1}`)
}

func TestWebSocketPlainHTTP(t *testing.T) {
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{}))
	res := must.Get(http.Get("http" + strings.TrimPrefix(url, "ws")))(t)
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("status: got %d, want 404", res.StatusCode)
	}
}

// TestFrames: frames of every kind of length, plain and as notifications, are what a
// client of the protocol expects.
func TestFrames(t *testing.T) {
	lengths := []int{1, 60, 125, 126, 65535, 65536, 200000}
	var frames []frame
	for _, n := range lengths {
		payload := []byte(strings.Repeat("7", n))
		event := NewEvent(payload)
		event.hold(nil)
		frames = append(frames, textFrame(payload), frame{opcode: opText, subscription: "0xab", event: event},
			textFrame(payload[:n/2], payload[n/2:n/2+n/4], payload[n/2+n/4:]))
	}
	frames = append(frames, closeFrame(4003, strings.Repeat("r", 200)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		out, _ := queueOver(t)
		out.conn, out.failed = ws.NetConn(), func(err error) { t.Error(err) }
		out.seal(frames)
		<-out.written
		ws.ReadMessage()
		ws.Close()
	}))
	defer server.Close()
	ws := dial(t, "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	for _, n := range lengths {
		payload := strings.Repeat("7", n)
		if got := receive(t, ws); got != payload {
			t.Errorf("%d bytes: payload differs", n)
		}
		want := `{"jsonrpc":"2.0","method":"test_subscription","params":{"result":` + payload + `,"subscription":"0xab"}}`
		if got := receive(t, ws); got != want {
			t.Errorf("%d bytes: notification differs", n)
		}
		if got := receive(t, ws); got != payload {
			t.Errorf("%d bytes: payload in pieces differs", n)
		}
	}
	wantClose(t, ws, 4003)
}
