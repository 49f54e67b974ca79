package main

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// Every head is delivered to each of some hundred connections, once and in order, and all who wait over connections of
// their own are answered when the node goes on, as the rows count it for a hundred thousand and for ten.
func TestCrowds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for name, measure := range map[string]func(context.Context, *lab, *table, int) error{"listeners": listening, "queued": queued} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{progress: t.Output(), short: true}
			if err := l.open(harness.Program(t), ""); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.close() })
			tab := new(table)
			if err := measure(t.Context(), l, tab, 1); err != nil {
				t.Fatal(err)
			}
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
			got := ls.state()
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
