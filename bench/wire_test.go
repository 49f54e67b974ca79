package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lockstep/internal/must"
)

// exchangeAll sends n calls one after the other, each when the one before is answered,
// and returns what became of them: "ok" or the class of the failure.
func exchangeAll(t *testing.T, l link, n int) []string {
	t.Helper()
	var got []string
	for i := range n {
		answer := make(chan reply, 2)
		l.send(t.Context(), callOf(uint64(i+1), func(r reply) { answer <- r }))
		r := <-answer
		switch {
		case r.err != nil:
			got = append(got, transportClass(r.err))
		case r.Error != nil:
			got = append(got, r.Error.Error())
		default:
			got = append(got, "ok")
		}
		if len(answer) != 0 {
			t.Error("answered twice")
		}
	}
	return got
}

func callOf(id uint64, done func(reply)) *exchange {
	return &exchange{body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"m","params":[]}`, id), id: id, done: done}
}

// countedServer is an HTTP server that counts its connections.
func countedServer(t *testing.T, h http.HandlerFunc) (url string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, conns
}

func echo(w http.ResponseWriter, r *http.Request) {
	var call struct{ ID json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&call)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"0x1"}`, call.ID)
}

func repeat(s string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func TestHTTPConnections(t *testing.T) {
	tests := map[string]struct {
		conns   int
		handler http.HandlerFunc
		want    int64
	}{
		"reused":        {conns: 2, handler: echo, want: 2},
		"server closes": {conns: 1, handler: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close"); echo(w, r) }, want: 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, conns := countedServer(t, test.handler)
			l := must.Get(dial(t.Context(), url, linkOptions{conns: test.conns, timeout: generous}))(t)
			got := exchangeAll(t, l, 10)
			if diff := cmp.Diff(repeat("ok", 10), got); diff != "" {
				t.Error(diff)
			}
			l.close()
			if n := conns.Load(); n != test.want {
				t.Errorf("%d connections, want %d", n, test.want)
			}
		})
	}
}

// heldConn keeps what is written until it is let go.
type heldConn struct {
	net.Conn
	writing chan int // bytes
	let     chan struct{}
}

func (c heldConn) Write(p []byte) (int, error) {
	c.writing <- len(p)
	<-c.let
	return c.Conn.Write(p)
}

// A send over HTTP returns when all of its request is written: the next one is behind it on the wire.
func TestHTTPOrder(t *testing.T) {
	url, _ := countedServer(t, echo)
	const large = 100_000
	l := must.Get(dial(t.Context(), url, linkOptions{conns: 1, largest: large, timeout: generous}))(t).(*httpLink)
	defer l.close()
	held := heldConn{(<-l.ready).(*wireConn).Conn, make(chan int, 100), make(chan struct{})}
	l.ready <- &wireConn{Conn: held}
	x := callOf(1, func(reply) {})
	x.body = append(x.body, bytes.Repeat([]byte(" "), large-len(x.body))...)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		l.send(t.Context(), x)
	}()
	if n := <-held.writing; n < large {
		t.Errorf("%d bytes of %d are written at first", n, large)
	}
	select {
	case <-sent:
		t.Error("it was sent before it was written")
	default:
	}
	close(held.let)
	<-sent
}

func TestHTTPFailures(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, body) }
	}
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"gateway page":      {status(502, "<html>"), "HTTP status 502"},
		"error with status": {status(429, `{"id":1,"error":{"code":-32605,"message":"slow down"}}`), "-32605 slow down"},
		"not JSON":          {status(200, "hello"), "the answer is not JSON-RPC"},
		"not JSON-RPC":      {status(200, `{"hello":1}`), "the answer is not JSON-RPC"},
		"too long":          {status(200, strings.Repeat(" ", maxReplyBytes+1)), "the answer is too long"},
		"dropped":           {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection closed without an answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, _ := countedServer(t, test.handler)
			l := must.Get(dial(t.Context(), url, linkOptions{conns: 1, timeout: generous}))(t)
			got := exchangeAll(t, l, 1)
			l.close()
			if diff := cmp.Diff([]string{test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A server that says nothing is not waited for longer than the time of a request.
func TestHTTPSilence(t *testing.T) {
	over := make(chan struct{})
	url, _ := countedServer(t, func(http.ResponseWriter, *http.Request) { <-over })
	t.Cleanup(func() { close(over) }) // before the server ends
	var l link
	for timeout := 50 * time.Millisecond; ; timeout *= 2 { // which is the time to connect, too
		var err error
		if l, err = dial(t.Context(), url, linkOptions{conns: 1, timeout: timeout}); err == nil {
			break
		}
		if timeout > generous {
			t.Fatal(err)
		}
	}
	defer l.close()
	if diff := cmp.Diff([]string{"no answer in time"}, exchangeAll(t, l, 1)); diff != "" {
		t.Error(diff)
	}
}

func TestTLSOfAStranger(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	defer s.Close()
	for _, url := range []string{s.URL, "wss" + strings.TrimPrefix(s.URL, "https")} {
		if _, err := dial(t.Context(), url, linkOptions{conns: 1, timeout: generous}); err == nil || err.Error() != "TLS refused" {
			t.Errorf("%s: error %v", url[:5], err)
		}
	}
}

// A server that goes away in the middle fails the requests behind it at once, one each.
func TestHTTPServerGoesAway(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	l := must.Get(dial(t.Context(), s.URL, linkOptions{conns: 2, timeout: generous}))(t)
	defer l.close()
	if got := exchangeAll(t, l, 2); !cmp.Equal(got, repeat("ok", 2)) {
		t.Fatal(got)
	}
	s.CloseClientConnections()
	s.Close()
	for i, class := range exchangeAll(t, l, 4) {
		if class != "connection refused" && class != "connection closed without an answer" && class != "connection reset" {
			t.Errorf("request %d: %s", i, class)
		}
	}
}

// Closing a link answers what is on its way, over either transport, and a send that
// waits for a connection.
func TestClose(t *testing.T) {
	arrived, hang := make(chan struct{}, 8), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if websocket.IsWebSocketUpgrade(r) {
			conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			for {
				if _, _, err := conn.ReadMessage(); err != nil {
					return
				}
				arrived <- struct{}{}
			}
		}
		arrived <- struct{}{}
		<-hang
	}))
	defer s.Close()
	defer close(hang)
	for _, url := range []string{s.URL, "ws" + strings.TrimPrefix(s.URL, "http")} {
		l := must.Get(dial(t.Context(), url, linkOptions{conns: 1, timeout: generous}))(t)
		answers := make(chan reply, 2)
		l.send(t.Context(), callOf(1, func(r reply) { answers <- r }))
		<-arrived
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			l.send(t.Context(), callOf(2, func(r reply) { answers <- r }))
		}()
		if strings.HasPrefix(url, "ws") {
			<-arrived
		}
		l.close()
		<-waiting
		for range 2 {
			if r := <-answers; !errors.Is(r.err, errClosed) {
				t.Errorf("%s: answered %+v", url[:4], r)
			}
		}
		l.close() // again is fine
	}
}

func TestSendAfterCancel(t *testing.T) {
	f := newFakeChain(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, url := range []string{f.server.URL, f.wsURL()} {
		l := must.Get(dial(t.Context(), url, linkOptions{conns: 1, timeout: generous}))(t)
		answers := make(chan reply, 1)
		l.send(ctx, callOf(1, func(r reply) { answers <- r }))
		if r := <-answers; !errors.Is(r.err, errClosed) {
			t.Errorf("%s: answered %+v", url[:4], r)
		}
		l.close()
	}
}

// The request has what hosted endpoints need.
func TestHTTPRequest(t *testing.T) {
	got := make(chan []string, 1)
	url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		got <- []string{r.Method, r.RequestURI, user, pass, r.Header.Get("Content-Type"), string(body)}
	})
	l := must.Get(dial(t.Context(), strings.Replace(url, "//", "//user:pass@", 1)+"/v1/key?x=y", linkOptions{conns: 1, timeout: generous}))(t)
	defer l.close()
	l.send(t.Context(), callOf(1, func(reply) {}))
	want := []string{"POST", "/v1/key?x=y", "user", "pass", "application/json", `{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// Messages of one lane arrive in the order in which they were sent, and what is no answer confuses nobody.
func TestWebSocketOrder(t *testing.T) {
	const n = 500
	type place struct {
		conn *websocket.Conn
		id   uint64
	}
	places := make(chan place, n)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for {
			_, body, err := conn.ReadMessage()
			if err != nil {
				return
			}
			var call struct{ ID uint64 }
			_ = json.Unmarshal(body, &call)
			places <- place{conn, call.ID}
			for _, noise := range []string{`garbage`, `[]`, `{"method":"eth_subscription","params":{}}`, `{"id":7777,"result":1}`} {
				_ = conn.WriteMessage(websocket.TextMessage, []byte(noise))
			}
			_ = conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":%d,"result":1}`, call.ID))
		}
	}))
	defer s.Close()
	l := must.Get(dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), linkOptions{conns: 3, timeout: generous}))(t)
	defer l.close()
	var open sync.WaitGroup
	for id := range uint64(n) {
		open.Add(1)
		x := callOf(id+1, func(r reply) {
			if r.err != nil {
				t.Errorf("call %d: %v", id+1, r.err)
			}
			open.Done()
		})
		x.lane = int(id % 5)
		l.send(t.Context(), x)
	}
	open.Wait()
	close(places)
	last := map[uint64]place{}
	for p := range places {
		lane := (p.id - 1) % 5
		if before, any := last[lane]; any && (before.id >= p.id || before.conn != p.conn) {
			t.Errorf("lane %d: %d after %d, same connection %v", lane, p.id, before.id, before.conn == p.conn)
		}
		last[lane] = p
	}
}

func TestWebSocketRefused(t *testing.T) {
	url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := dial(t.Context(), "ws"+strings.TrimPrefix(url, "http"), linkOptions{conns: 1, timeout: generous})
	if err == nil || err.Error() != "HTTP status 403" {
		t.Errorf("error %v", err)
	}
}

// A server that sends a client away says why by a code, and the report passes that on.
func TestWebSocketSentAway(t *testing.T) {
	for code, want := range map[int]string{4003: "WebSocket closed with code 4003", 0: "connection closed without an answer"} {
		url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
			conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			if code != 0 {
				_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, "too many"))
			}
			_ = conn.Close()
		})
		l := must.Get(dial(t.Context(), "ws"+strings.TrimPrefix(url, "http"), linkOptions{conns: 1, timeout: generous}))(t)
		l.(*wsLink).readers.Wait() // it has been sent away
		answers := make(chan reply, 1)
		l.send(t.Context(), &exchange{body: []byte(`{}`), id: 1, done: func(r reply) { answers <- r }})
		if got := transportClass((<-answers).err); got != want {
			t.Errorf("code %d: %q, want %q", code, got, want)
		}
		l.close()
	}
}
