package rpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

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
