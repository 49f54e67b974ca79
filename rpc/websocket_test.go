package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
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

// FuzzFrames: whatever bytes come after the handshake, the server answers with whole,
// unmasked frames and ends the connection when the client has said everything.
func FuzzFrames(f *testing.F) {
	call := maskedFrame(chainIDCall)
	for _, seed := range [][]byte{
		{},
		call, append(call, call...),
		{0x88, 0x80, 0, 0, 0, 0},
		{0x88, 0x82, 1, 2, 3, 4, 5, 6},
		{0x89, 0x80, 0, 0, 0, 0},
		{0x81, 0x00},
		{0xff, 0xff},
		{0x01, 0x81, 0, 0, 0, 0, '['},
		{0x80, 0x81, 0, 0, 0, 0, ']'},
		{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		{0x81, 0xfe, 0, 1, 0, 0, 0, 0, '{'},
		{0x82, 0x84, 0, 0, 0, 0, 0xff, 0xfe, 0xfd, 0},
		{0xc1, 0x81, 0, 0, 0, 0, '1'},
	} {
		f.Add(seed)
	}
	c := testConfig()
	c.WebSocket.ConnectionLimit, c.WebSocket.ConnectionLimitPerIP = 1000, 1000
	url, _ := serveWS(f, testDispatcher(f, c, Options{}))
	f.Fuzz(func(t *testing.T, input []byte) {
		conn := rawDial(t, url)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		go func() {
			conn.Write(input) // fails where the server has heard enough
			conn.(*net.TCPConn).CloseWrite()
		}()
		for in := bufio.NewReader(conn); ; {
			_, _, err := readFrame(in)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				t.Fatal("the connection was not ended")
			case errors.Is(err, errBadFrame):
				t.Fatal(err)
			case err != nil:
				return // closed, or reset because it was not read to the end
			}
		}
	})
}

// rawDial is a client that keeps no buffers: what it costs this process is the socket.
func rawDial(t testing.TB, url string) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "ws://")))(t)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: relay\r\nUser-Agent: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", strings.Repeat("browser ", 20))
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		var one [1]byte
		must.Get(io.ReadFull(conn, one[:]))(t)
		head = append(head, one[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		t.Fatalf("handshake: %s", head)
	}
	return conn
}

// maskedFrame is a text frame as a client sends it, with a mask of zeros.
func maskedFrame(payload string) []byte {
	return append([]byte{0x80 | opText, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// TestWebSocketOrigins: pages of other origins are refused where the operator says so;
// clients that are no pages have none.
func TestWebSocketOrigins(t *testing.T) {
	for _, test := range []struct {
		allowed envx.Strings
		origin  string
		status  int
	}{
		{envx.Strings{"*"}, "https://anywhere.example", http.StatusSwitchingProtocols},
		{envx.Strings{"https://app.example"}, "https://app.example", http.StatusSwitchingProtocols},
		{envx.Strings{"https://app.example"}, "https://APP.example", http.StatusSwitchingProtocols},
		{envx.Strings{"https://app.example"}, "", http.StatusSwitchingProtocols},
		{envx.Strings{"https://app.example"}, "https://app.example.evil", http.StatusForbidden},
		{envx.Strings{"https://app.example"}, "http://app.example", http.StatusForbidden},
		{envx.Strings{"https://a.example", "http://localhost:3000"}, "http://localhost:3000", http.StatusSwitchingProtocols},
		{nil, "https://app.example", http.StatusForbidden},
	} {
		c := testConfig()
		c.WebSocket.AllowedOrigins = test.allowed
		url, _ := serveWS(t, testDispatcher(t, c, Options{}))
		header := http.Header{}
		if test.origin != "" {
			header.Set("Origin", test.origin)
		}
		ws, res, err := websocket.DefaultDialer.Dial(url, header)
		if err == nil {
			ws.Close()
			res.Body.Close()
		}
		if res == nil || res.StatusCode != test.status {
			t.Errorf("allowed %q, origin %q: got %v, want status %d", test.allowed, test.origin, res, test.status)
		}
	}
}

func TestConfigOrigins(t *testing.T) {
	for text, ok := range map[string]bool{
		"*": true, "https://a.example": true, "http://localhost:3000": true, "HTTPS://A.example": true, "null": false,
		"a.example": false, "https://a.example/": false, "https://u:p@a.example": false, "https://a.example?x": false, "": false,
	} {
		c := testConfig()
		c.WebSocket.AllowedOrigins = envx.Strings{text}
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("WS_ALLOWED_ORIGINS=%q: %v", text, err)
		}
	}
}

// TestWebSocketAnswerSent: a method learns whether its answer is on its way, before
// anything it sends then can overtake it.
func TestWebSocketAnswerSent(t *testing.T) {
	sent := make(chan bool, 1)
	method := func(inline bool, result any) Method {
		return Method{Name: "eth_subscribe", AnyParams: true, WebSocketOnly: true, Inline: inline, Handler: func(ctx context.Context, _ *Params) (any, error) {
			r, _ := FromContext(ctx)
			return &Answer{Result: result, Sent: func(ok bool) {
				if ok {
					r.Conn.Notify("0x1", NewEvent([]byte("1")))
				}
				sent <- ok
			}}, nil
		}}
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`
	for _, inline := range []bool{false, true} {
		url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{}, method(inline, "0x1")))
		ws := dial(t, url, nil)
		for _, text := range []string{call, "[" + call + "]"} {
			send(t, ws, text)
			if got := receive(t, ws); !strings.Contains(got, `"result":"0x1"`) {
				t.Errorf("inline %v: the answer did not come first: %s", inline, got)
			}
			if got := receive(t, ws); !strings.Contains(got, `"params":{"result":1,`) {
				t.Errorf("inline %v: got %s", inline, got)
			}
			if !<-sent {
				t.Errorf("inline %v: said to be not sent", inline)
			}
		}

		// A result that cannot be encoded is an error, and so not what was promised.
		url, _ = serveWS(t, testDispatcher(t, testConfig(), Options{}, method(inline, make(chan int))))
		ws = dial(t, url, nil)
		send(t, ws, call)
		receive(t, ws)
		if <-sent {
			t.Errorf("inline %v: an error was said to be the answer", inline)
		}
	}

	// A call that wants no answer gets none.
	c := testConfig()
	c.Profile = ProfileEthereum
	url, _ := serveWS(t, testDispatcher(t, c, Options{}, method(false, "0x1")))
	send(t, dial(t, url, nil), `{"jsonrpc":"2.0","method":"eth_subscribe"}`)
	if <-sent {
		t.Error("an answer that nobody wanted was said to be sent")
	}
}

// TestWebSocketAnswerTooLate: what comes after the time-out was answered is not sent.
func TestWebSocketAnswerTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.HTTP.RequestTimeout = envx.Millis(10 * time.Millisecond)
		release, sent := make(chan struct{}), make(chan bool, 1)
		m := Method{Name: "eth_subscribe", AnyParams: true, WebSocketOnly: true, Handler: func(context.Context, *Params) (any, error) {
			<-release
			return &Answer{Result: "0x1", Sent: func(ok bool) { sent <- ok }}, nil
		}}
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{}, m))
		send(t, ws, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
		compareJSON(t, "answer", receive(t, ws), `{"error":{"code":-32010,"message":"[Request ID: test] Request timeout. Please try again."},"jsonrpc":"2.0","id":1}`)
		close(release)
		if <-sent {
			t.Error("an answer after the time-out was said to be sent")
		}
	})
}

// TestSubscribeOverHTTP: each profile has its own way to say that there is nobody to
// notify.
func TestSubscribeOverHTTP(t *testing.T) {
	m := Method{Name: "eth_subscribe", AnyParams: true, WebSocketOnly: true, Handler: returns("0x1")}
	for profile, want := range map[Profile]string{
		ProfileHiero:    `{"error":{"code":-32601,"message":"[Request ID: test] Method eth_subscribe not found"},"jsonrpc":"2.0","id":1}`,
		ProfileEthereum: `{"error":{"code":-32601,"message":"notifications not supported"},"jsonrpc":"2.0","id":1}`,
	} {
		c := testConfig()
		c.Profile = profile
		_, answer := post(t, serveHTTP(t, testDispatcher(t, c, Options{}, m), HTTPOptions{}), `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
		compareJSON(t, string(profile), answer, want)
	}
}

// TestWebSocketStalledClientDelaysNobody: while one client takes nothing in, another
// gets everything at once.
func TestWebSocketStalledClientDelaysNobody(t *testing.T) {
	c := testConfig()
	c.WebSocket.NotifyLimit = 1
	conns := make(chan Notifier, 2)
	m := subscribing(conns)
	met := NewMetrics()
	url, _ := serveWS(t, testDispatcher(t, c, Options{Metrics: met}, m))
	stalled := rawDial(t, url)
	stalled.(*net.TCPConn).SetReadBuffer(4 << 10)
	stalled.Write(maskedFrame(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`))
	first := <-conns
	healthy := dial(t, url, nil)
	send(t, healthy, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe"}`)
	receive(t, healthy)
	second := <-conns

	event := []byte(`"` + strings.Repeat("x", 32<<10) + `"`)
	ended := 0
	for range 1000 {
		if !first.Notify("0x1", NewEvent(event)) {
			ended++
		}
		if !second.Notify("0x1", NewEvent(event)) {
			t.Fatal("the healthy client was ended")
		}
		if got := receive(t, healthy); len(got) < len(event) {
			t.Fatalf("got %d bytes", len(got))
		}
	}
	if ended == 0 {
		t.Error("the stalled client still takes notifications")
	}
	if got := value(met.ws.slow); got != 1 {
		t.Errorf("slow clients: got %v, want 1", got)
	}
}

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
