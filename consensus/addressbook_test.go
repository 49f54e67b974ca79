package consensus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A node that denies its account has the address book fetched again, soon and once, and the
// node that took its place is used.
func TestDeniedAccountRefreshesTheBook(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	a.submit = answers(hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT)
	c := quick(t, a)
	var fetched atomic.Int64
	c.refresh = 1e18 // never by itself
	c.Follow(func(context.Context) ([]NodeAddress, error) {
		if fetched.Add(1) == 1 {
			return []NodeAddress{a.nodeAddress()}, nil // as it was
		}
		return []NodeAddress{b.nodeAddress()}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	eventually(t, "the fetch at the start", func() bool { return fetched.Load() == 1 })
	pending, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
	if err == nil && pending.Node() != b.id {
		t.Errorf("taken by %s", pending.Node())
	}
	eventually(t, "the node of the new book", func() bool { return c.nodeFor([20]byte{}) == b.id })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What is no usable book changes nothing, and a pin is not lost to a book without one.
func TestRefresh(t *testing.T) {
	c := quickNetwork(t, "testnet")
	first := c.nodes.all()[0]
	entry := NodeAddress{ID: first.id, Endpoints: []string{"127.0.0.1:1"}}
	for name, book := range map[string]struct {
		addresses []NodeAddress
		err       error
	}{
		"error":       {nil, errors.New("no answer")},
		"empty":       {nil, nil},
		"no endpoint": {[]NodeAddress{{ID: hedera.Entity(3)}}, nil},
		"no account":  {[]NodeAddress{{Endpoints: []string{"127.0.0.1:1"}}}, nil},
		"twice":       {[]NodeAddress{entry, entry}, nil},
		"bad address": {[]NodeAddress{{ID: hedera.Entity(3), Endpoints: []string{"127.0.0.1"}}}, nil},
	} {
		before := c.nodes.all()
		err := c.Refresh(t.Context(), func(context.Context) ([]NodeAddress, error) { return book.addresses, book.err })
		if after := c.nodes.all(); err == nil || len(after) != len(before) || after[0] != before[0] {
			t.Errorf("%s: %v, %d nodes", name, err, len(after))
		}
	}
	must.Do(t, c.Refresh(t.Context(), func(context.Context) ([]NodeAddress, error) { return []NodeAddress{entry}, nil }))
	if got := c.nodes.all(); len(got) != 1 || len(got[0].certHash) != 48 {
		t.Errorf("the pin is lost: %v", got)
	}
}

// Only networks that are given by name follow a book.
func TestWhoFollows(t *testing.T) {
	for network, want := range map[string]bool{"testnet": true, " MainNet": true, ` {"127.0.0.1:1":"0.0.3"}`: false} {
		c := must.Get(New(Config{Network: network, MaxAttempts: 1, AttemptTimeout: 1, RequestTimeout: 1, BookRefresh: envx.Millis(1)}, quickLog(t)))(t)
		c.Follow(func(context.Context) ([]NodeAddress, error) { return nil, nil })
		if got := c.book != nil; got != want {
			t.Errorf("%s follows a book: %v", network, got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
