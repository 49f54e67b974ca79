package fleet

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestSwitch turns ordering off and on at run time. What was queued before keeps its
// order; while it is off nothing is written to Redis; afterwards the order holds again.
func TestSwitch(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	relays := n.startRelays(2)
	alice := n.newSender()
	queued := newBurst(n)
	for _, r := range relays {
		r.nodes.hold()
	}
	for i, tx := range alice.pay(16) {
		queued.post(relays[i%2], tx)
		n.queued(alice, i)
	}
	for _, r := range relays {
		r.setOrdering(false)
	}
	for _, r := range relays {
		r.nodes.heal()
	}
	n.check(queued.wait(), allowance{})
	n.checkTidy()

	bob := n.newSender()
	for range 3 { // one after the other: nobody else orders them now
		for _, r := range relays {
			b := newBurst(n)
			b.post(r, bob.pay(1)...)
			n.check(b.wait(), allowance{})
		}
	}
	if keys, err := n.store.Keys(t.Context(), "lock:*{"+"*").Result(); err != nil || slices.Contains(keys, "lock:memory:"+tag(bob)) {
		t.Errorf("ordering is off, and Redis knows the sender: %q, %v", keys, err)
	}

	for _, r := range relays {
		r.setOrdering(true)
		r.sharesOrder()
	}
	again := newBurst(n)
	n.lineUp(again, n.newSender(), relays, 16)
	n.check(again.wait(), allowance{})
	n.checkTidy()
}

// TestDisconnect: the client of a queued transaction goes away. Its place is given up
// if the operator wants that, so that the wallet's replacement is not overtaken by what
// it replaces (L17); else the transaction goes on without it.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings []string
		stays    bool
	}{
		"gives up its place": {[]string{"LOCK_CANCEL_ON_DISCONNECT=true"}, false},
		"keeps its place":    {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, tc.settings...)
			relays := n.startRelays(2)
			alice := n.newSender()
			txs := alice.pay(3)
			rival := alice.rival(txs[1])
			for _, r := range relays {
				r.nodes.hold()
			}
			patient, hasty := newBurst(n), newBurst(n)
			patient.post(relays[0], txs[0])
			n.queued(alice, 0)
			ctx, leave := context.WithCancel(t.Context())
			hasty.postUntil(ctx, relays[1], rival)
			n.queued(alice, 1)
			leave()
			answers := hasty.wait()
			if tc.stays {
				pause(300 * time.Millisecond) // for it to go, if it were to
			}
			expected := 0
			if tc.stays {
				expected = 1
			}
			n.queued(alice, expected)
			patient.post(relays[0], txs[1])
			n.queued(alice, expected+1)
			patient.post(relays[1], txs[2])
			n.queued(alice, expected+2)
			for _, r := range relays {
				r.nodes.heal()
			}
			answers = append(answers, patient.wait()...)
			n.check(answers, allowance{
				lost:    func(a answer) bool { return a.tx == rival },
				refused: func(a answer) bool { return tc.stays && a.tx == txs[1] && a.says(tooLow) },
			})
			n.executed(txs[0], txs[2])
			if tc.stays {
				n.executed(rival)
			} else {
				n.executed(txs[1])
			}
			n.checkTidy()
		})
	}
}
