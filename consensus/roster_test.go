package consensus

import (
	"context"
	"errors"
	"testing"
	"time"

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

	left := c.nodes.retired[0].node
	if err := c.nodes.sweep(time.Now().Add(retireAfter - time.Minute)); err != nil || left.closed {
		t.Errorf("closed too early (%v)", err)
	}
	if err := c.nodes.sweep(time.Now().Add(retireAfter)); err != nil || !left.closed || len(c.nodes.retired) != 0 {
		t.Errorf("not closed in time (%v)", err)
	}
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
