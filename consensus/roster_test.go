package consensus

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

func (s *scriptedNode) nodeAddress() NodeAddress {
	return NodeAddress{ID: s.id, Endpoints: []string{s.endpoint}}
}

// TestNodesThatComeAndGo replaces the address book while a submission is under way
// on a node that leaves.
func TestNodesThatComeAndGo(t *testing.T) {
	a, b, d := startNode(t, 3), startNode(t, 4), startNode(t, 5)
	arrived, answer := make(chan struct{}), make(chan struct{})
	a.submit = func(offer) (hapi.ResponseCodeEnum, error) {
		close(arrived)
		<-answer
		return statusOK, nil
	}
	a.receipt = knows(statusOK, statusSuccess)
	c := quick(t, a, b)
	sender, kept := senderOf(t, c, a.id), c.nodes.find(b.id)
	connect(t, c)
	c.probe(c.nodes.find(a.id), time.Now())

	type result struct {
		pending *Pending
		err     error
	}
	done := make(chan result, 1)
	go func() {
		pending, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Sender: sender})
		done <- result{pending, err}
	}()
	<-arrived
	must.Do(t, c.SetNodes([]NodeAddress{b.nodeAddress(), d.nodeAddress()}))
	if got := c.nodeFor(sender); got == a.id {
		t.Error("a sender still goes to the node that left")
	}
	if c.nodes.find(b.id) != kept {
		t.Error("the node that stayed lost its connections")
	}
	if got := len(c.Nodes()); got != 2 {
		t.Errorf("%d nodes, want 2", got)
	}
	close(answer)
	r := <-done
	if r.err != nil || r.pending.Node() != a.id {
		t.Fatalf("the submission under way: %v, %v", r.pending, r.err)
	}
	if receipt, err := r.pending.Receipt(t.Context()); err != nil || receipt.Node != a.id {
		t.Errorf("its receipt: %+v, %v", receipt, err)
	}
	_, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Node: a.id, SameNodeOnly: true})
	if got := certainty(err); got != "unavailable" {
		t.Errorf("%s on the node that left: %v", got, err)
	}
}

func closed(n *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// TestNodesThatLeaveAreClosed after the calls that still use them.
func TestNodesThatLeaveAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testRoster(3, 4)
		left := r.find(hedera.Entity(3))
		setNodes(r, 4)
		pass(retireAfter - time.Second)
		if closed(left) {
			t.Error("closed too early")
		}
		pass(2 * time.Second)
		if !closed(left) || closed(r.find(hedera.Entity(4))) {
			t.Error("not closed in time, or a node that stays is")
		}
	})
}

func TestSetNodesRefuses(t *testing.T) {
	a := startNode(t, 3)
	c := quick(t, a)
	for name, list := range map[string][]NodeAddress{
		"nothing":         nil,
		"no endpoint":     {{ID: hedera.Entity(4)}},
		"broken endpoint": {{ID: hedera.Entity(4), Endpoints: []string{"here"}}},
	} {
		if err := c.SetNodes(list); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := c.Submit(context.Background(), Submission{Ethereum: []byte{1}}); err != nil {
		t.Errorf("after refused lists: %v", err)
	}
	must.Do(t, c.Close())
	if err := c.SetNodes([]NodeAddress{a.nodeAddress()}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCertificateChangeMakesANewNode: the same address with another pin is not the
// same node.
func TestCertificateChangeMakesANewNode(t *testing.T) {
	address := NodeAddress{ID: hedera.Entity(3), Endpoints: []string{"127.0.0.1:50212"}, CertHash: make([]byte, 48)}
	c := quickNetwork(t, `{"127.0.0.1:1":"0.0.9"}`)
	must.Do(t, c.SetNodes([]NodeAddress{address}))
	first := c.nodes.find(address.ID)
	address.CertHash = append([]byte{1}, make([]byte, 47)...)
	must.Do(t, c.SetNodes([]NodeAddress{address}))
	if c.nodes.find(address.ID) == first {
		t.Error("the node kept connections that were made with the old pin")
	}
}

func testRoster(nums ...int64) *roster {
	r := &roster{log: slog.New(slog.DiscardHandler)}
	setNodes(r, nums...)
	return r
}

func setNodes(r *roster, nums ...int64) {
	var list []NodeAddress
	for _, num := range nums {
		list = append(list, NodeAddress{ID: hedera.Entity(num), Endpoints: []string{"127.0.0.1:1"}})
	}
	_, _, _ = r.set(list) // it fails when it is closed
}

func randomSenders(n int) []common.Address {
	random := rand.New(rand.NewPCG(1, 2))
	senders := make([]common.Address, n)
	for i := range senders {
		for j := range senders[i] {
			senders[i][j] = byte(random.Uint32())
		}
	}
	return senders
}

// TestStickyNodesAreAgreed pins the hash: two relays, also of different versions,
// must send one sender's transactions to the same node.
func TestStickyNodesAreAgreed(t *testing.T) {
	p, reversed := testRoster(3, 4, 5, 6, 7, 8, 9), testRoster(9, 8, 7, 6, 5, 4, 3)
	for address, want := range map[string]int64{
		"0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69": 7,
		"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266": 8,
		"0x70997970c51812dc3a010c7d01b50e0d17dc79c8": 8,
		"0x0000000000000000000000000000000000000001": 9,
	} {
		sender := common.HexToAddress(address)
		if got := p.best(sender, nil).id.Num; got != want {
			t.Errorf("%s goes to %d, want %d", address, got, want)
		}
		if p.best(sender, nil).id != reversed.best(sender, nil).id {
			t.Errorf("%s: the order of the list matters", address)
		}
	}
}

func TestRendezvousSpreadsAndMovesLittle(t *testing.T) {
	p := testRoster(3, 4, 5, 6, 7, 8, 9, 10)
	senders := randomSenders(8000)
	count := make(map[*node]int)
	moved := 0
	for _, sender := range senders {
		n := p.best(sender, nil)
		count[n]++
		if third := p.all()[2]; n != third && p.best(sender, []*node{third}) != n {
			moved++
		}
	}
	for n, c := range count {
		if c < 800 || c > 1200 {
			t.Errorf("node %s has %d of 8000 senders", n.id, c)
		}
	}
	if moved > 0 {
		t.Errorf("%d senders moved though their node is the same", moved)
	}
}

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testRoster(3, 4)
		sender := common.Address{1}
		first := p.best(sender, nil)
		second := p.best(sender, []*node{first})
		broken := errors.New("broken")

		first.failed(broken, false)
		first.failed(broken, false) // together with the first: counts once
		if p.best(sender, nil) != second {
			t.Error("an unhealthy node is chosen")
		}
		pass(unhealthyMin)
		if p.best(sender, nil) != first {
			t.Error("a node that is due again is not chosen")
		}
		for want := 2 * unhealthyMin; want < 2*unhealthyMax; want *= 2 {
			first.failed(broken, false)
			if got := time.Until(time.Unix(0, first.retryAt.Load())); got != min(want, unhealthyMax) {
				t.Errorf("passed over for %v, want %v", got, min(want, unhealthyMax))
			}
			pass(min(want, unhealthyMax))
		}
		first.worked()
		first.failed(broken, false)
		if got := time.Until(time.Unix(0, first.retryAt.Load())); got != unhealthyMin {
			t.Errorf("after it worked, passed over for %v, want %v", got, unhealthyMin)
		}

		pass(unhealthyMin / 2)
		second.failed(broken, false)
		if p.best(sender, nil) != first {
			t.Error("with no healthy node the first one due is not chosen")
		}
		if p.best(sender, p.all()) != nil {
			t.Error("a tried node is chosen")
		}

		pass(time.Hour)
		first.failed(broken, true)
		p.probed.Store(true)
		pass(time.Hour)
		if p.best(sender, nil) != second {
			t.Error("a lost node is chosen although Run has not found it back")
		}
	})
}
