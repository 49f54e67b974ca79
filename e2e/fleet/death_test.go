package fleet

import (
	"cmp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

func at(name string) func(answer) bool { return func(a answer) bool { return a.relay == name } }

// TestKilledInBurst kills one of two relays in the middle of a burst. The client
// sends what was not answered to the other. Everything is executed, once and in order.
func TestKilledInBurst(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, append(mortal(), patient)...)
	a, b := n.startRelay("A"), n.startRelay("B")
	alice := n.newSender()
	txs := alice.pay(100)
	all := newBurst(n)
	pace(2*time.Millisecond, len(txs), func(i int) {
		if i == 40 {
			a.process.Kill()
		}
		if i%2 == 0 {
			all.insist([]*relay{a, b}, txs[i])
		} else {
			all.insist([]*relay{b}, txs[i])
		}
	})
	answers := all.waitFor(2 * normal)
	n.executed(txs...)
	n.check(answers, allowance{
		lost: at("A"), resent: true, slow: 2 * normal,
		// What the dead relay had sent and not answered is refused the second time.
		refused: func(got answer) bool { return got.says(tooLow) },
	})
	n.checkTidy()
}

// TestRollOut replaces three relays, one after the other, in the middle of a burst.
func TestRollOut(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, patient)
	fleet := n.startRelays(3)
	senders := n.newSenders(3)
	all := newBurst(n)
	retired := map[string]bool{}
	for i := range fleet {
		retired[fleet[i].name] = true
		successor := n.startRelay(fleet[i].name + "2")
		pace(5*time.Millisecond, 40, func(j int) {
			if j == 20 {
				fleet[i].process.Signal(syscall.SIGTERM)
				fleet[i] = successor
			}
			for k, s := range senders {
				first := (j + k) % 3
				all.insist([]*relay{fleet[first], fleet[(first+1)%3], fleet[(first+2)%3]}, s.pay(1)[0])
			}
		})
	}
	answers := all.wait()
	n.check(answers, allowance{
		lost:    func(got answer) bool { return retired[got.relay] },
		refused: func(got answer) bool { return retired[got.relay] && got.says(stopping) },
	})
	for _, s := range senders {
		until(t, normal, "everything is executed", func() bool { return n.nonce(s) == s.next })
	}
	for _, r := range n.relays {
		if !retired[r.name] {
			continue
		}
		if code := r.process.Exit(); code != 0 {
			t.Errorf("relay %s ended with code %d", r.name, code)
		}
	}
	n.checkTidy()
}

// TestAsyncWorkIsDrained: in asynchronous mode the client has its hash before anything is
// sent. A relay that stops right then still sends everything, in order (L25).
func TestAsyncWorkIsDrained(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "USE_ASYNC_TX_PROCESSING=true")
	a := n.startRelay("A")
	alice := n.newSender()
	txs := alice.pay(30)
	answers := n.promised(a, txs)
	a.process.Signal(syscall.SIGTERM)
	a.nodes.heal()
	if code := a.process.Exit(); code != 0 {
		t.Errorf("relay A ended with code %d", code)
	}
	n.executed(txs...)
	n.check(answers, allowance{})
	n.checkTidy()
}

// promised has a relay in asynchronous mode answer transactions of which no node has got anything.
func (n *network) promised(r *relay, txs []*transaction) []answer {
	n.t.Helper()
	b := newBurst(n)
	r.nodes.hold()
	socket := b.dial(r)
	for _, tx := range txs {
		socket.send(tx)
	}
	answers := b.wait()
	if log := n.decisions(); len(log) > 0 {
		n.t.Fatalf("the nodes were to hear nothing yet: %v", log)
	}
	return answers
}

// TestPromisesOutliveTheirRelay: in asynchronous mode clients have the hashes of a burst, of which no node
// has anything, when their relay is killed. One of the two others goes on with all of it, in order.
func TestPromisesOutliveTheirRelay(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, append(mortal(), "USE_ASYNC_TX_PROCESSING=true", "PROMISES_DEAD_AFTER_MS=20000")...)
	relays := n.startRelays(3)
	a := relays[0]
	alice, bob := n.newSender(), n.newSender()
	txs := append(alice.pay(20), bob.pay(20)...)
	answers := n.promised(a, txs)
	a.process.Kill()
	until(t, normal, "what was promised is executed", func() bool {
		return n.nonce(alice) == 20 && n.nonce(bob) == 20
	})
	n.executed(txs...)
	n.check(answers, allowance{})
	if got := relays[1].metric("lockstep_promises_taken_over_total") + relays[2].metric("lockstep_promises_taken_over_total"); got < float64(len(txs)) { // again from who stands still
		t.Errorf("%v transactions were taken over, want %d", got, len(txs))
	}
	until(t, normal, "no promise is left in Redis", func() bool {
		keys, err := n.store.Keys(t.Context(), "promise:*").Result()
		return err == nil && len(keys) == 0
	})
	n.checkTidy()
}

// TestPromisesOutliveAStop: a relay that has to stop before it could send what it has promised leaves it
// to another, which need not wait until the first is taken for dead.
func TestPromisesOutliveAStop(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, append(mortal(), "USE_ASYNC_TX_PROCESSING=true", "PROMISES_DEAD_AFTER_MS=10000", "SHUTDOWN_DRAIN_TIMEOUT_MS=300")...)
	relays := n.startRelays(2)
	a := relays[0]
	alice := n.newSender()
	txs := alice.pay(10)
	answers := n.promised(a, txs)
	a.process.Signal(syscall.SIGTERM)
	until(t, normal, "what was promised is executed", func() bool { return n.nonce(alice) == 10 })
	n.check(answers, allowance{})
	n.checkTidy()
}

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
