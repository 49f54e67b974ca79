package fleet

import (
	"syscall"
	"testing"
	"time"
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
