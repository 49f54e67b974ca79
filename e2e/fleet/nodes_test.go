package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// A sender's transactions go to one consensus node, since two nodes do not keep order
// between them. These tests take that node away while it has transactions of the
// sender that have not reached consensus.

// TestNodeLost: the sender's node becomes unreachable for all relays in the middle of a
// burst. The rest goes to another node, not before the verdict on what the first
// one has; nothing is lost, done twice or overtaken.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose, restore func(*link)
	}{
		"connection refused": {(*link).cut, (*link).repair},
		"no answer any more": {(*link).mute, (*link).heal},
		"nothing arrives":    {(*link).swallow, (*link).heal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, "SDK_GRPC_DEADLINE=1000")
			relays := n.startRelays(2)
			senders := n.newSenders(2)
			home := make([]string, len(senders))
			b := newBurst(n)
			for i, s := range senders {
				first := s.pay(1)
				b.post(relays[i], first...)
				n.check(b.wait(), allowance{})
				home[i] = n.nodeOf(first[0].hash)
			}
			sockets := []*socket{b.dial(relays[0]), b.dial(relays[1])}
			const count = 60
			pace(5*time.Millisecond, count, func(i int) {
				if i == 20 {
					for j := range senders {
						tc.lose(relays[j].nodeOf[home[j]])
					}
				}
				for j, s := range senders {
					sockets[j].send(s.pay(1)...)
				}
			})
			answers := b.waitFor(3 * normal)
			n.check(answers, allowance{slow: 3 * normal})
			for j := range senders {
				tc.restore(relays[j].nodeOf[home[j]])
			}
			moved := false
			for _, d := range n.decisions() {
				moved = moved || d.Sender == senders[0].address && d.Node != home[0]
			}
			if !moved {
				t.Error("nothing went to another node")
			}
			n.checkTidy()
		})
	}
}

// nodeOf tells which node brought a transaction to consensus.
func (n *network) nodeOf(hash common.Hash) string {
	n.t.Helper()
	for _, d := range n.decisions() {
		if d.Hash == hash {
			return d.Node
		}
	}
	n.t.Fatalf("%s is not in the log", hash)
	return ""
}

// TestStickyNode: one sender's transactions use one node, whichever relay sends them, and
// senders are spread over the nodes.
func TestStickyNode(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "NONCE_GAP_HOLD_MS=3000")
	relays := n.startRelays(2)
	b := newBurst(n)
	for _, s := range n.crowd(24, relays[0]) {
		for i, tx := range s.pay(4) {
			b.post(relays[i%2], tx)
		}
	}
	n.check(b.wait(), allowance{})
	nodes, used := map[common.Address]string{}, map[string]int{}
	for _, d := range n.decisions() {
		if node, known := nodes[d.Sender]; known && node != d.Node {
			t.Errorf("went to two nodes, %s and %s: %v", node, d.Node, d)
		}
		nodes[d.Sender] = d.Node
	}
	for _, node := range nodes {
		used[node]++
	}
	if len(used) != len(n.Nodes) {
		t.Errorf("25 senders use only %s", fmt.Sprint(used))
	}
}
