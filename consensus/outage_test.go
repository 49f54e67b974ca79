package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// endpoint returns an address of this machine that refuses connections or, as a black hole, where connections are taken and nothing
// is ever said. It is nobody else's meanwhile: a socket that does not listen has it.
func endpoint(t *testing.T, blackHole bool) string {
	t.Helper()
	if blackHole {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	}
	socket := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	must.Do(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at := must.Get(syscall.Getsockname(socket))(t)
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
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
			c.maxAttempts = 1
			if test.silent > 0 {
				c.pace.connect = 20 * time.Millisecond
			}
			ctx := t.Context()
			switch test.want {
			case "refused BUSY": // its time is up when it has been refused again and again
				ctx = afterOffers(ctx, 3, nodes...)
			case "not sent":
				c.requestTimeout = 500 * time.Millisecond
			}
			_, err = c.Submit(ctx, Submission{Ethereum: unhex(t, goldenRaw), Sender: hedera.Entity(7).LongZero(), MaxFee: 100})
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

// TestBusyIsRetriedByTimeAndNotByCount: one node is offered the same transaction again and again while it is busy,
// far beyond the number of attempts; and when the time is up no attempt that is left is made.
func TestBusyIsRetriedByTimeAndNotByCount(t *testing.T) {
	const times = 60
	for _, test := range []struct {
		name           string
		busy           int // answers until it takes the transaction
		sameNode       bool
		attempts       int
		requestTimeout time.Duration
		want           string
	}{
		{name: "free again in time", busy: times, attempts: 1, requestTimeout: 2 * time.Minute, want: "accepted"},
		{name: "free again in time, the only node that may have it", busy: times, sameNode: true, attempts: 1, requestTimeout: 2 * time.Minute, want: "accepted"},
		{name: "busy until the time is up", busy: math.MaxInt, attempts: math.MaxInt, requestTimeout: 2 * time.Minute, want: "refused BUSY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t, 3)
			n.submit = func(o offer) (hapi.ResponseCodeEnum, error) {
				if o.n <= test.busy {
					return statusBusy, nil
				}
				return statusOK, nil
			}
			network, err := json.Marshal(map[string]string{n.endpoint: n.id.String()})
			if err != nil {
				t.Fatal(err)
			}
			c := quickNetwork(t, string(network))
			c.maxAttempts, c.requestTimeout = test.attempts, test.requestTimeout
			ctx := t.Context()
			if test.want != "accepted" {
				ctx = afterOffers(ctx, times, n) // its time is up by then
			}
			_, err = c.Submit(ctx, Submission{Ethereum: unhex(t, goldenRaw), Sender: hedera.Entity(7).LongZero(), MaxFee: 100, SameNodeOnly: test.sameNode})
			if got := certainty(err); got != test.want || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, want %s: %v", got, test.want, err)
			}
			if got := len(n.received()); err == nil && got != times+1 {
				t.Errorf("offered %d times, want %d", got, times+1)
			}
		})
	}
}
