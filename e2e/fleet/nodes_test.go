package fleet

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// A sender's transactions go to one consensus node, since two nodes do not keep order
// between them. These tests take that node away while it has transactions of the
// sender that have not reached consensus.

// TestNodeLost: the sender's node becomes unreachable for all relays in the middle of a
// burst. The rest goes to another node, not before the verdict on what the first
// one has; nothing is lost, sent twice or overtaken. What the node may have or not is
// told to be open; what follows it is refused, and can be sent again later.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose, restore func(*link)
		open          int // transactions at least of which nobody can know
		told          bool
	}{
		"connection refused": {lose: (*link).cut, restore: (*link).repair},
		"no answer any more": {lose: (*link).mute, restore: (*link).heal, told: true}, // other nodes know
		"nothing arrives":    {lose: (*link).swallow, restore: (*link).heal, open: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := []string{"SDK_GRPC_DEADLINE=5000", "SDK_REQUEST_TIMEOUT=10000", "NONCE_RECOVERY_MS=150000", "LOCK_MAX_HOLD_MS=30000"}
			if tc.told {
				settings = append(settings, "SDK_REQUEST_TIMEOUT=100000") // nobody has to give up
			}
			n := newNetwork(t, settings...)
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
			// What a lost node leaves open, which a connection that is cut may do, too, holds those behind it
			// up for NONCE_RECOVERY_MS.
			const limit = 12 * normal
			answers := b.waitFor(limit)
			for j := range senders {
				tc.restore(relays[j].nodeOf[home[j]])
			}
			open := map[common.Address]int{}
			for _, got := range answers {
				if got.refusal != nil && got.refusal.open() {
					open[got.tx.sender]++
				}
			}
			behindOpen := func(got answer) bool { return open[got.tx.sender] == 1 && !tc.told }
			n.check(answers, allowance{slow: limit, refused: behindOpen})
			if len(open) < tc.open {
				t.Errorf("%d are told to be open, want %d", len(open), tc.open)
			}
			moved := false
			for _, d := range n.decisions() {
				moved = moved || d.Sender == senders[0].address && d.Node != home[0]
			}
			if !moved && len(open) == 0 {
				t.Error("nothing went to another node")
			}
			if len(open) == 0 {
				n.checkTidy()
			}
			n.sendAgain(relays[0], answers)
		})
	}
}

// sendAgain sends what was refused or is open once more, when there is no trouble any more:
// all of it is taken.
func (n *network) sendAgain(r *relay, answers []answer) {
	n.t.Helper()
	refused := map[common.Address][]*transaction{}
	for _, got := range answers {
		if !got.ok() {
			refused[got.tx.sender] = append(refused[got.tx.sender], got.tx)
		}
	}
	again := newBurst(n)
	for _, txs := range refused {
		slices.SortFunc(txs, func(x, y *transaction) int { return cmp.Compare(x.nonce, y.nonce) })
		again.post(r, txs...)
	}
	n.check(again.waitFor(6*normal), allowance{slow: 6 * normal})
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
