package fleet

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

// TestOvertaken takes the turn from a relay that cannot use it in time, and lets that
// relay go on afterwards: it must have noticed, and send nothing on the strength of that turn. In its
// next one its nonce is too low.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	shortHold := []string{"LOCK_MAX_HOLD_MS=20000"} // and a heartbeat lives for minutes
	for name, tc := range map[string]struct {
		settings []string
		frozen   bool
	}{
		// L3: by the heartbeat, the others take it for dead.
		"frozen past its heartbeat": {mortal(), true},
		// L23: its heartbeat is alive, but the turn has expired behind its back.
		"frozen past the hold limit": {shortHold, true},
		// L1: it does run, but no node answers it until its time is up.
		"slow past the hold limit": {shortHold, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, tc.settings...)
			relays := n.startRelays(2)
			a, b := relays[0], relays[1]
			alice := n.newSender()
			slow, other := n.stall(a, b, alice, 4)
			before := b.turns()
			if tc.frozen {
				a.process.Freeze()
			}
			b.takesOver(before)
			answers := other.wait()
			a.nodes.heal()
			a.process.Thaw()

			answers = append(answers, slow.wait()...)
			// It is of use again; whatever it might have sent before would be in the log by then.
			after := newBurst(n)
			a.sharesOrder()
			after.post(a, alice.pay(1)...)
			answers = append(answers, after.wait()...)
			n.check(answers, allowance{refused: func(got answer) bool { return got.relay == "A" && (got.says(turnLost) || got.says(tooLow)) }})
			n.checkTidy()
		})
	}
}

// stall gives the sender's turn to a transaction at relay a, to which no node answers, and
// lets so many of the sender's wait behind it at b: the first of them has the same nonce.
func (n *network) stall(a, b *relay, s *sender, count int) (stalled, behind *burst) {
	n.t.Helper()
	stalled, behind = newBurst(n), newBurst(n)
	txs := s.pay(count)
	a.nodes.mute()
	stalled.post(a, s.rival(txs[0]))
	n.queued(s, 0)
	for i, tx := range txs {
		behind.post(b, tx)
		n.queued(s, i+1)
	}
	return stalled, behind
}

// TestFrozenInTheQueue: the turn comes to a relay that is frozen. It passes on when
// the relay's heartbeat has expired; when the relay goes on, it finds a grant that is
// none any more (L23), and must not act on it.
func TestFrozenInTheQueue(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, mortal()...)
	relays := n.startRelays(2)
	a, b := relays[0], relays[1]
	alice := n.newSender()
	txs := alice.pay(4)
	frozen, other := newBurst(n), newBurst(n)
	b.nodes.hold()
	other.post(b, txs[0])
	n.queued(alice, 0)
	frozen.post(a, alice.rival(txs[1]))
	n.queued(alice, 1)
	for i, tx := range txs[1:] {
		other.post(b, tx)
		n.queued(alice, 2+i)
	}
	a.process.Freeze()
	b.nodes.heal()
	answers := other.wait()
	// What happened meanwhile can be known now: the mirror node shows it.
	until(t, normal, "the mirror node shows the nonce", func() bool { return n.nonce(alice) == uint64(len(txs)) })
	a.process.Thaw()
	answers = append(answers, frozen.wait()...)
	after := newBurst(n)
	after.post(a, alice.pay(1)...)
	answers = append(answers, after.wait()...)
	n.check(answers, allowance{
		slow:    2 * normal,
		refused: func(got answer) bool { return got.relay == "A" && (got.says(tooLow) || got.says(turnLost)) },
	})
	n.checkTidy()
}

// TestBriefStandstill freezes relays for less than their heartbeats live. Nobody may
// take them for dead (L3, L5): all keep their places, and the order of arrival holds.
func TestBriefStandstill(t *testing.T) {
	t.Parallel()
	const lives = 40 * time.Second // 20 heartbeats; the machine may stand still for the other half of it
	n := newNetwork(t, "LOCK_HEARTBEAT_INTERVAL_MS=2000", "LOCK_HEARTBEAT_MISSED_COUNT=20", "LOCK_REDIS_TIMEOUT_MS=30000")
	relays := n.startRelays(2)
	alice := n.newSender()
	for _, frozen := range relays {
		b := newBurst(n)
		for _, r := range relays {
			r.nodes.hold()
		}
		for i, tx := range alice.pay(12) {
			b.post(relays[i%2], tx)
			n.queued(alice, i)
		}
		frozen.process.Freeze()
		for _, r := range relays {
			r.nodes.heal()
		}
		pause(lives / 2)
		frozen.process.Thaw()
		n.check(b.wait(), allowance{})
	}
	for _, r := range relays {
		if dead := r.metric("rpc_relay_lock_zombie_cleanups_total"); dead > 0 {
			t.Errorf("relay %s took the other for dead", r.name)
		}
	}
	n.checkTidy()
}

// TestLocksCommand: `lockstep locks` shows who holds a turn that makes no progress, and ends it
// by hand, through another relay than the holder's; the next in line goes.
func TestLocksCommand(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	relays := n.startRelays(2)
	a, b := relays[0], relays[1]
	alice := n.newSender()
	n.pushes()
	stuck, waiting := n.stall(a, b, alice, 2)
	locks := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), harness.Program(t), append([]string{"locks"}, args...)...)
		cmd.Env = harness.Environment()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("locks %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := locks("--admin", a.admin); !strings.Contains(out, alice.address.Hex()) || !strings.Contains(out, "nonce 0, fence ") {
		t.Errorf("the holder is not shown:\n%s", out)
	}
	until(t, normal, "the other relay shows whose turn it is", func() bool {
		_, after, found := strings.Cut(locks("--admin", b.admin), "process ")
		holder, _, _ := strings.Cut(after, " ")
		return found && a.process.Log.Has(holder)
	})
	if out := locks("--admin", b.admin, "release", alice.address.Hex()); !strings.Contains(out, `"released":true`) {
		t.Errorf("not released:\n%s", out)
	}
	answers := waiting.wait()
	a.nodes.heal()
	answers = append(answers, stuck.wait()...)
	n.check(answers, allowance{refused: func(got answer) bool { return got.relay == "A" && (got.says(turnLost) || got.says(tooLow)) }})
	n.checkTidy()
}
