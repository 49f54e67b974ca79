package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// TestMixedSettings: relays with different ordering settings do not share an order, and
// both say so (L24).
func TestMixedSettings(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]string{
		"window":   "NONCE_GAP_HOLD_MS=500",
		"roll-out": "NONCE_ORDERING_PERCENT=50",
		"release":  "NONCE_ORDERING_RELEASE=consensus",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, "LOCK_HEARTBEAT_INTERVAL_MS=100") // one of several heartbeats tells of the settings
			a, same := n.startRelay("A"), n.startRelay("A2")
			const warning = "another process orders transactions by other settings"
			other := n.startRelay("B", setting)
			for _, r := range []*relay{a, same, other} {
				until(t, normal, "relay "+r.name+" warns", func() bool { return r.process.Log.Has(warning) })
			}
		})
	}
}

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

// TestPercent limits ordering to a share of the senders. All relays must agree which
// ones, or the order would hold at one and be overtaken through the other.
func TestPercent(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "NONCE_ORDERING_PERCENT=50")
	relays := n.startRelays(2)
	crowd := n.crowd(40, relays[0])
	n.checkTidy()
	b := newBurst(n)
	var ordered [2][]string
	for i, r := range relays {
		r.nodes.hold()
		for _, s := range crowd {
			b.post(r, s.pay(1)...)
		}
		// Those that are not ordered are on their way to a node.
		until(t, normal, "all transactions are under way", func() bool {
			return int(r.metric("rpc_relay_tx_in_progress")) == len(crowd)
		})
		for _, l := range r.lanes() {
			ordered[i] = append(ordered[i], l.Sender.Hex())
		}
		if i == 0 {
			r.nodes.heal() // and the first nonces go
			n.check(b.wait(), allowance{})
		}
	}
	relays[1].nodes.heal()
	n.check(b.wait(), allowance{})
	if !slices.Equal(ordered[0], ordered[1]) {
		t.Errorf("the relays order different senders:\n%q\n%q", ordered[0], ordered[1])
	}
	if count := len(ordered[0]); count < 5 || count > 35 {
		t.Errorf("%d of 40 senders are ordered, want about half", count)
	}
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

// TestQueueFull: a sender that has as many transactions waiting as it may is told so at
// once, with the length; nothing of it is submitted, and what waits is not disturbed (L17).
func TestQueueFull(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "LOCK_MAX_QUEUE_PER_SENDER=5")
	a := n.startRelay("A")
	alice := n.newSender()
	a.nodes.hold()
	b := newBurst(n)
	txs := alice.pay(8)
	for i, tx := range txs[:6] { // one has the turn
		b.post(a, tx)
		n.queued(alice, i)
	}
	full := newBurst(n)
	full.post(a, txs[6])
	refused := full.wait()
	full.post(a, txs[7])
	refused = append(refused, full.wait()[1:]...)
	for _, got := range refused {
		var data struct{ QueueLength int }
		if !got.says("are waiting") || json.Unmarshal(got.refusal.Data, &data) != nil || data.QueueLength != 5 {
			t.Errorf("want a refusal that tells of 5 waiting: %v", got)
		}
	}
	a.nodes.heal()
	answers := append(b.wait(), refused...)
	n.check(answers, allowance{refused: func(got answer) bool { return got.says("are waiting") }})

	again := newBurst(n)
	for _, tx := range txs[6:] { // there is room again
		again.post(a, tx)
		again.about(tx)
	}
	n.check(again.wait(), allowance{})
	n.checkTidy()
}

// TestFlood: somebody sends from hundreds of throw-away keys while one sender's turn is
// held and others of it wait. The bound on remembered senders must not push out
// one that is in use: its next transaction would get a turn of its own (L12), and those
// that wait would never be found again (L13).
func TestFlood(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"local": {"LOCAL_LOCK_MAX_ENTRIES=10", "REDIS_ENABLED=false"},
		"redis": {"LOCAL_LOCK_MAX_ENTRIES=10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, settings...)
			a := n.launch("A")
			if name == "redis" {
				a.sharesOrder()
			}
			alice := n.newSender()
			txs := alice.pay(4)
			a.nodes.hold()
			b := newBurst(n)
			for i, tx := range txs[:2] {
				b.post(a, tx)
				until(t, normal, "it has its place", func() bool { l := a.lane(alice); return l.Held && l.Waiting == i })
			}
			flood := newBurst(n)
			const strangers = 300
			for range strangers / 100 {
				batch := make([]*transaction, 100)
				for i := range batch {
					batch[i] = n.stranger().pay(1)[0]
				}
				flood.post(a, batch...)
			}
			answers := flood.wait()
			n.check(answers, allowance{refused: func(got answer) bool { return got.says("not found") }})

			for i, tx := range txs[2:] {
				b.post(a, tx)
				until(t, normal, "it waits behind the others", func() bool { return a.lane(alice).Waiting == 2+i })
			}
			if l := a.lane(alice); !l.Held || l.Nonce != txs[0].nonce {
				t.Errorf("the turn is not where it was: %+v", l)
			}
			a.nodes.heal()
			n.check(b.wait(), allowance{})
			n.checkTidy()
		})
	}
}
