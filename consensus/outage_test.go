package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"lockstep/internal/hedera"
)

// endpoint returns an address of this machine where nobody listens or, as a black hole, where
// connections are taken and nothing is ever said.
func endpoint(t *testing.T, blackHole bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !blackHole {
		_ = listener.Close()
	} else {
		t.Cleanup(func() { _ = listener.Close() })
	}
	return listener.Addr().String()
}

// TestOutage: when no node can take a transaction, its submission ends when its time is up, not after
// some number of attempts, and says why: no node can be reached, or nodes are there and busy. One
// good node among many is found in that time.
func TestOutage(t *testing.T) {
	const many = 30
	for _, test := range []struct {
		name                      string
		refused, silent, busy, up int
		want                      string
	}{
		{name: "one, refused", refused: 1, want: "not sent"},
		{name: "one, silent", silent: 1, want: "not sent"},
		{name: "one, busy", busy: 1, want: "refused BUSY"},
		{name: "all refused", refused: many, want: "not sent"},
		{name: "all silent", silent: many, want: "not sent"},
		{name: "all busy", busy: many, want: "refused BUSY"},
		{name: "one busy, the others refused", refused: many - 1, busy: 1, want: "refused BUSY"},
		{name: "one up, the others refused", refused: many - 1, up: 1, want: "accepted"},
		{name: "one up, the others silent", silent: many - 1, up: 1, want: "accepted"},
		{name: "one up, the others busy", busy: many - 1, up: 1, want: "accepted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			network := map[string]string{}
			account := func() hedera.ID { return hedera.Entity(int64(3 + len(network))) }
			for range test.refused {
				network[endpoint(t, false)] = account().String()
			}
			for range test.silent {
				network[endpoint(t, true)] = account().String()
			}
			var nodes []*scriptedNode
			for range test.busy {
				n := startNode(t, account().Num)
				n.submit = answers(statusBusy)
				network[n.endpoint], nodes = n.id.String(), append(nodes, n)
			}
			for range test.up {
				n := startNode(t, account().Num)
				network[n.endpoint], nodes = n.id.String(), append(nodes, n)
			}
			text, err := json.Marshal(network)
			if err != nil {
				t.Fatal(err)
			}
			c := quickNetwork(t, string(text))
			c.pace.connect, c.maxAttempts = 20*time.Millisecond, 1
			if test.want != "accepted" {
				c.requestTimeout = 500 * time.Millisecond
			}
			_, err = c.Submit(t.Context(), Submission{Ethereum: unhex(t, goldenRaw), Sender: hedera.Entity(7).LongZero(), MaxFee: 100})
			if got := certainty(err); got != test.want || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, want %s: %v", got, test.want, err)
			}
			ids := map[hedera.TransactionID]bool{}
			for _, n := range nodes {
				for _, o := range n.received() {
					ids[o.id] = true
				}
			}
			if want := min(1, len(nodes)); len(ids) != want {
				t.Errorf("offered under %d ids, want %d", len(ids), want)
			}
		})
	}
}
