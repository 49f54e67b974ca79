package main

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// Every head is delivered to each of some hundred connections, once and in order, and all who wait over connections of
// their own are answered when the node goes on, as the rows count it for a hundred thousand and for ten.
func TestCrowds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for name, measure := range map[string]func(*scenario){"listeners": listening, "queued": queued} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{progress: t.Output(), short: true}
			must.Do(t, l.open(harness.Program(t)))
			t.Cleanup(func() { _ = os.RemoveAll(l.dir) })
			tab := new(table)
			must.Do(t, l.play(t.Context(), tab, 1, measure))
			tab.conclude()
			for _, f := range tab.Figures {
				if f.Target == "0 in every run" && f.verdict() == missed {
					t.Errorf("%s: %v", f.Name, f.Ours)
				}
			}
			if f := tab.figure("executed", ""); name == "queued" && f.verdict() == missed {
				t.Errorf("executed: %v, want %s", f.Ours, f.Target)
			}
		})
	}
}

// textFrame is a message of a server, up to 65,535 bytes long.
func textFrame(text string) []byte {
	if len(text) < 126 {
		return append([]byte{0x81, byte(len(text))}, text...)
	}
	return append(binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(len(text))), text...)
}

// The listeners count whatever is not as it must be, however the network cuts the messages.
func TestListenersCount(t *testing.T) {
	head := func(number string) string {
		return `{"jsonrpc":"2.0","method":"eth_subscription","params":{"result":{"logsBloom":"0x00000000000000000000000000000000000000000000000000000000","number":"` + number + `"},"subscription":"0x1"}}`
	}
	const alive = `{"result":null,"jsonrpc":"2.0","id":null}`
	for name, test := range map[string]struct {
		heads []string
		want  tally
	}{
		"all":            {[]string{head("0x7"), alive, head("0x8"), head("0x9")}, tally{}},
		"missing":        {[]string{head("0x7"), head("0x9")}, tally{Missing: 1}},
		"twice":          {[]string{head("0x7"), head("0x8"), head("0x8"), head("0x9")}, tally{Twice: 1}},
		"out of order":   {[]string{head("0x7"), head("0x9"), head("0x8")}, tally{Disordered: 1}},
		"not to come":    {[]string{head("0x6"), head("0x7"), head("0x8"), head("0x9"), head("0xa")}, tally{Other: 2}},
		"nothing at all": {nil, tally{Missing: 3}},
	} {
		for _, size := range []int{1, 100, 1 << 20} {
			ls := new(listeners)
			c := ls.add()
			ls.expected.First, ls.expected.Heads = 7, 3
			ls.begin()
			in := textFrame(`{"result":"0x1","jsonrpc":"2.0","id":1}`)
			for _, text := range test.heads {
				in = append(in, textFrame(text)...)
			}
			for piece := range slices.Chunk(in, size) {
				must.Do(t, ls.take(c, piece, time.Unix(1, 0)))
			}
			got := ls.tally
			test.want.Subscribed, got.Arrivals = 1, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s in pieces of %d: counted (-want +got):\n%s", name, size, diff)
			}
		}
	}
}

// What the relay refuses ends the listeners with its words.
func TestListenersRefused(t *testing.T) {
	answer := func(then func(c *websocket.Conn) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if c, err := new(websocket.Upgrader).Upgrade(w, r, nil); err == nil {
				_ = then(c)
			}
		}
	}
	for name, relay := range map[string]http.HandlerFunc{
		"did not upgrade": http.NotFound,
		"no subscription": answer(func(c *websocket.Conn) error {
			return c.WriteMessage(websocket.TextMessage, []byte(`{"error":{},"id":1}`))
		}),
		"the relay closed": answer(func(c *websocket.Conn) error {
			return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "no"))
		}),
	} {
		server := httptest.NewServer(relay)
		err := new(listeners).listen(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), 1, 0)
		if server.Close(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}
