package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"lockstep/internal/must"
)

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
