package fleet

import (
	"syscall"
	"testing"
)

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
