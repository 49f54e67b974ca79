//go:build !race

package ethapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"lockstep/rpc"
)

// constantMirror is a mirror node inside the process that has one answer.
type constantMirror string

func (c constantMirror) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, ContentLength: int64(len(c)), Body: io.NopCloser(strings.NewReader(string(c))), Request: r,
	}, nil
}

// lastAnswer is a http.ResponseWriter that keeps the bytes of the last answer.
type lastAnswer struct {
	header http.Header
	body   []byte
}

func (a *lastAnswer) Header() http.Header { return a.header }
func (a *lastAnswer) WriteHeader(int)     { a.body = a.body[:0] }
func (a *lastAnswer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// What a call of eth_getBalance may allocate between the request and the answer, with the mirror node's answer, which is
// read and decoded. The request is made anew each time, which is counted. The race detector allocates on its own.
func TestAllocationBudgetOfBalance(t *testing.T) {
	node := newMirrorNode(t)
	populate(node)
	account := node.answers["accounts/"+senderText()+"?transactions=false"].body
	relay := newRelay(t, node, func(s *settings) {
		s.transport, s.RPC.RateLimit.Disabled = constantMirror(account), true
	})
	call := []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["` + senderText() + `","latest"]}`)
	answer := &lastAnswer{header: http.Header{}}
	const budget = 100
	got := testing.AllocsPerRun(300, func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header["Content-Type"] = []string{"application/json"}
		relay.handler.ServeHTTP(answer, r)
	})
	if want := `"result":"0x` + "112210f4768db400" + `"`; !bytes.Contains(answer.body, []byte(want)) { // 123,456,789 tinybars
		t.Fatalf("the answer was %s, want %s in it", answer.body, want)
	}
	if got > budget {
		t.Errorf("eth_getBalance: %v allocations, the budget is %d", got, budget)
	}
}

// countingConn is a connection of subscribers that counts what it is told.
type countingConn struct {
	rpc.Notifier
	told int
}

func (c *countingConn) OnClose(func()) {}
func (c *countingConn) Notify(string, *rpc.Event) bool {
	c.told++
	return true
}

// Telling all subscribers of an event allocates nothing for any of them: they share the event.
func TestAllocationBudgetOfSubscribers(t *testing.T) {
	const subscribers = 100
	h := newHub(10, false, newSubscriptionMetrics())
	conn, zero := make([]countingConn, subscribers), uint64(0)
	for i := range conn {
		sub, _, err := h.add(&conn[i], interest{event: eventHeads}, &zero)
		if err != nil {
			t.Fatal(err)
		}
		h.answer(sub, true)
	}
	heads, event := h.streams[interest{event: eventHeads}.key()], []byte(`{"number":"0x1"}`)
	const runs, budget = 100, 1
	if got := testing.AllocsPerRun(runs, func() { h.publish(event, heads) }); got > budget {
		t.Errorf("an event for %d subscribers: %v allocations, the budget is %d", subscribers, got, budget)
	}
	for i := range conn {
		if conn[i].told != runs+1 { // one before the counting began
			t.Fatalf("a subscriber was told %d times of %d", conn[i].told, runs+1)
		}
	}
}
