package main

import (
	"context"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// Every head is delivered to each of some hundred connections, once and in order, as the row counts it for a hundred
// thousand; by the relays, and by what they are compared with.
func TestListeners(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	l := &lab{progress: t.Output()}
	if err := l.open(harness.Program(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	h := fullHearing().shortened()
	for name, hear := range map[string]func(context.Context, hearing) (*heard, error){"relays": l.hear, "speakers": l.hearSpeakers} {
		t.Run(name, func(t *testing.T) {
			o, err := hear(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			checkHeard(t, h, o)
		})
	}
}

func checkHeard(t *testing.T, h hearing, o *heard) {
	t.Helper()
	if delivered := h.connections() * h.heads; o.Missing+o.Twice+o.Disordered+o.Other+o.Closed > 0 || o.delivery.Count() != uint64(delivered) {
		t.Errorf("of %d notifications %d came; missing %d, twice %d, out of order %d, not to come %d, connections broke %d",
			delivered, o.delivery.Count(), o.Missing, o.Twice, o.Disordered, o.Other, o.Closed)
	}
}

// All who wait over connections of their own are answered when the node goes on.
func TestQueuedConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	l := &lab{progress: t.Output()}
	if err := l.open(harness.Program(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b, err := l.bed(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	q := fullQueue().shortened()
	o, err := q.run(t.Context(), l, b)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Clean() || o.Chain.Executed != q.connections() {
		t.Errorf("%d wrong nonce, %d unanswered, %d executed of %d", o.Chain.WrongNonce, o.Unanswered, o.Chain.Executed, q.connections())
	}
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
			var in []byte
			in = append(in, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"...)
			in = append(in, textFrame(`{"result":"0x1","jsonrpc":"2.0","id":1}`)...)
			ls.expect(7, 3)
			for _, text := range test.heads {
				in = append(in, textFrame(text)...)
			}
			asked := 0
			for len(in) > 0 {
				n := min(size, len(in))
				reply, err := ls.take(c, in[:n:n], time.Unix(1, 0))
				if err != nil {
					t.Fatal(err)
				}
				if reply != nil {
					asked++
				}
				in = in[n:]
			}
			got := ls.state(true)
			if asked != 1 || got.Subscribed != 1 {
				t.Errorf("%s: asked for %d subscriptions and has %d", name, asked, got.Subscribed)
			}
			got.Subscribed, got.Arrivals = 0, nil
			if got.Missing != test.want.Missing || got.Twice != test.want.Twice || got.Disordered != test.want.Disordered || got.Other != test.want.Other {
				t.Errorf("%s in pieces of %d: %+v, want %+v", name, size, got, test.want)
			}
		}
	}
}

// What the relay refuses ends the listeners with its words.
func TestListenersRefused(t *testing.T) {
	for name, in := range map[string]string{
		"no upgrade":      "HTTP/1.1 503 Service Unavailable\r\n\r\n",
		"no subscription": "HTTP/1.1 101 Switching Protocols\r\n\r\n" + string(textFrame(`{"error":{"code":-32601},"jsonrpc":"2.0","id":1}`)),
		"closed":          "HTTP/1.1 101 Switching Protocols\r\n\r\n\x88\x02\x10\x01",
	} {
		ls := new(listeners)
		if _, err := ls.take(ls.add(), []byte(in), time.Unix(1, 0)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
