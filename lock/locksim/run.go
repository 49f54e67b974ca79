package locksim

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"lockstep/lock"
)

// Report is what one simulation showed.
type Report struct {
	Scenario  Scenario
	Wrong     []string // what the history breaks; empty = nothing
	Sent      int
	Honest    int    // with a window: of how many senders everything had to go in the order of nonces
	Undecided bool   // the porcupine had not come to an end in time
	Trace     string // all that happened, in order
}

// Run simulates the scenario of a seed.
func Run(t *testing.T, seed uint64) Report {
	w := &world{scenario: NewScenario(seed), counts: map[string]int{}, sinceBad: map[string]int{}}
	w.latest, w.given = map[uint64]Moment{}, map[uint64]Moment{}
	for sender := range w.chains {
		w.chains[sender] = ledger{next: firstNonce(sender), verdicts: map[uint64]chan struct{}{}}
	}
	var unanswered error
	func() {
		// Nothing but the simulation itself decides which of its goroutines runs next.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		synctest.Test(t, func(t *testing.T) { unanswered = w.live(t.Context()) })
	}()
	j := judge(w.scenario, w.sent, w.turns, unanswered)
	if w.unsound != nil {
		j.fail("%v", w.unsound)
	}
	return Report{Scenario: w.scenario, Wrong: j.wrong, Undecided: j.undecided, Sent: len(w.sent), Honest: j.honestBursts, Trace: w.trace()}
}

// trace tells what happened, in order.
func (w *world) trace() string {
	type entry struct {
		m      Moment
		sender int
		text   string
	}
	var all []entry
	add := func(m Moment, sender int, format string, args ...any) {
		if m.ever() {
			all = append(all, entry{m, sender, fmt.Sprintf(format, args...)})
		}
	}
	for _, f := range w.scenario.Faults {
		add(f.Came, -1, "%s relay %d reach %d lost %d full %t", f.Kind, f.Relay, f.Reach, f.Lost, f.Full)
	}
	for _, t := range w.scenario.Transactions {
		add(t.Entered, t.Sender, "%d enters: sender %d, relay %d", t.Nonce, t.Sender, t.Relay)
		add(t.Joined, t.Sender, "%d has its place", t.Nonce)
		add(t.Left, t.Sender, "%d gives up", t.Nonce)
		if w.scenario.Window == 0 {
			add(t.Granted, t.Sender, "%d has the turn by %s", t.Nonce, t.Strategy)
			add(t.Sent, t.Sender, "%d is sent", t.Nonce)
			add(t.Released, t.Sender, "%d releases", t.Nonce)
		}
		if errors.Is(t.Err, lock.ErrClosed) {
			t.Over.Step += int(t.Nonce) * 1_000_000 // who died together died in any order
		}
		add(t.Over, t.Sender, "%d is over: %v", t.Nonce, t.Err)
	}
	for _, t := range w.turns {
		add(t.place, t.Sender, "%d has the place of its turn %d", t.Nonce, t.Fence)
		add(t.given, t.Sender, "Redis gives the turn %d to %d", t.Fence, t.Nonce)
		add(t.Granted, t.Sender, "%d has the turn %d by %s", t.Nonce, t.Fence, t.Strategy)
		add(t.Sent, t.Sender, "%d is sent", t.Nonce)
		add(t.Released, t.Sender, "%d releases after step %d", t.Nonce, t.step)
	}
	// In one instant the senders are visited in any order, and have nothing to do with each other.
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.m.At, b.m.At), cmp.Compare(a.sender, b.sender), cmp.Compare(a.m.Step, b.m.Step))
	})
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%14v %s\n", e.m.At, e.text)
	}
	return b.String()
}
