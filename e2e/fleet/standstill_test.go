package fleet

import (
	"os/exec"
	"strings"
	"testing"

	"lockstep/e2e/harness"
)

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
