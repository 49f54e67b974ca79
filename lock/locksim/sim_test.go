package locksim_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/lock/locksim"
)

var (
	oneSeed = flag.Int64("seed", -1, "simulate this seed alone, and show what happened")
	first   = flag.Uint64("first", 0, "the first seed")
	seeds   = flag.Uint64("seeds", usualSeeds, "how many seeds are simulated")
	windows = flag.Bool("windows", false, "simulate only those of the seeds that have a window")
	simTime = flag.Duration("simtime", 0, "simulate for that long, on all processors, from the first seed on")
)

// TestSimulation simulates seeds, and fails with the first that breaks something.
func TestSimulation(t *testing.T) {
	switch {
	case *oneSeed >= 0:
		r := locksim.Run(t, uint64(*oneSeed))
		t.Logf("seed %d: %s\n%s", *oneSeed, r.Scenario, r.Trace)
		report(t, uint64(*oneSeed), r)
	case *simTime > 0:
		simulateFor(t, *simTime)
	default:
		simulate(t, *first, *seeds)
	}
}

func report(t *testing.T, seed uint64, r locksim.Report) {
	t.Helper()
	for _, wrong := range r.Wrong {
		t.Errorf("seed %d: %s", seed, wrong)
	}
	if len(r.Wrong) > 0 {
		t.Errorf("to see it again: go test ./lock/locksim -run TestSimulation -seed %d -v", seed)
	}
}

func simulate(t *testing.T, from, count uint64) {
	start, sent, undecided, honest, windowed := time.Now(), 0, 0, 0, 0
	for seed := from; seed < from+count; seed++ {
		if *windows && locksim.NewScenario(seed).Window == 0 {
			continue
		}
		r := locksim.Run(t, seed)
		sent, honest = sent+r.Sent, honest+r.Honest
		if r.Undecided {
			undecided++
		}
		if r.Scenario.Window > 0 {
			windowed++
		}
		if report(t, seed, r); len(r.Wrong) > 0 {
			return
		}
	}
	t.Logf("seeds %d to %d: %d transactions sent, %d histories undecided; %d with a window, with %d honest bursts; %v", from, from+count-1, sent, undecided, windowed, honest, time.Since(start).Round(time.Millisecond))
	// A judge that does not come to an end judges nothing.
	if uint64(undecided) > count/50 {
		t.Errorf("%d of %d histories are undecided", undecided, count)
	}
}

// simulateFor has a process for each processor simulate one batch of seeds after the other: a simulation uses
// one processor, or it would not repeat.
func simulateFor(t *testing.T, limit time.Duration) {
	const batch = 500
	var mu sync.Mutex
	next, done, end := *first, uint64(0), time.Now().Add(limit)
	claim := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		from := next
		next += batch
		return from, time.Now().Before(end) && !t.Failed()
	}
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for from, ok := claim(); ok; from, ok = claim() {
				out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.timeout=2h", "-test.run", "^TestSimulation$", //nolint:gosec // this very test
					fmt.Sprint("-first=", from), fmt.Sprint("-seeds=", batch), fmt.Sprint("-windows=", *windows)).CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
					continue
				}
				mu.Lock()
				done += batch
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds from %d on in %v", done, *first, limit)
}

// TestFoundSeeds simulates what once broke something in the lock, when each transaction had a place of its own in Redis: another server
// took over without a place and the end of a turn; places that were sent again reached Redis behind the end of a turn. And since then: a turn was
// given to a claim whose answer was lost and whose ticket had left, and a ticket that came later took it; a claim was left behind by an idle lane
// when Redis had no memory.
func TestFoundSeeds(t *testing.T) {
	for _, seed := range []uint64{1003378, 1011282, 20571, 109512, 114981} {
		report(t, seed, locksim.Run(t, seed))
	}
}

// TestSeedsRepeat: the same seed shows the same, event by event, to the nanosecond.
func TestSeedsRepeat(t *testing.T) {
	disturbed := 0
	for seed := range uint64(repeatedSeeds) {
		a, b := locksim.Run(t, seed), locksim.Run(t, seed)
		if a.Trace == b.Trace {
			continue
		}
		// A runtime that gets no processor for 10 ms takes it from whichever goroutine ran last, which changes their order. That is rare: what
		// the simulation itself leaves open would show more often than not.
		disturbed++
		if c := locksim.Run(t, seed); c.Trace != a.Trace && c.Trace != b.Trace || disturbed > max(1, repeatedSeeds/20) {
			x, y := strings.Split(a.Trace, "\n"), strings.Split(b.Trace, "\n")
			n := 0
			for n < min(len(x), len(y)) && x[n] == y[n] {
				n++
			}
			t.Errorf("seed %d, %s, differs in step %d:\n%s\nand\n%s", seed, a.Scenario, n, strings.Join(x[max(0, n-4):min(n+5, len(x))], "\n"), strings.Join(y[max(0, n-4):min(n+5, len(y))], "\n"))
		}
	}
}

// foundWithin is within how many seeds docs/internals/PROOF.md says that each mutation is found.
const foundWithin = 1000

// The simulation can fail: each of these breaks one rule of the lock. The last can only be found with a window.
var mutations = []struct{ name, file, rule, broken string }{
	{"a turn is ended by another relay", "lua/sync.lua", "if owner == me and fence <= ended", "if owner and fence <= ended"},
	{"grant without the heartbeat rule", "health.go", "return at < time.Duration(r.ackedAt.Load())+r.ttl", "return true"},
	{"the newest goes first", "lane.go", "oldest := l.queue[0]", "oldest := l.queue[len(l.queue)-1]"},
	{"the relay that came last goes first", "lua/sync.lua", "return tonumber(a.since) < tonumber(b.since)", "return tonumber(a.since) > tonumber(b.since)"},
	{"what nobody can use is kept", "fleet.go", "l.link.ended, l.link.dirty = max(l.link.ended, o.fence), true", "l.link.ended = max(l.link.ended, 0)"},
	{"the next nonce is not looked for", "lua/sync.lua", "c.low = tonumber(c.nonce) <= (tonumber(expected) or -1)", "c.low = false"},
}

// TestMutations builds this test with a lock that is broken, and demands that the simulation finds it as soon as docs/internals/PROOF.md says. Seeds
// are counted, not time, which depends on the machine.
func TestMutations(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			file := must.Get(filepath.Abs(filepath.Join("..", m.file)))(t)
			text := must.Get(os.ReadFile(file))(t)
			if strings.Count(string(text), m.rule) != 1 {
				t.Fatalf("%s does not have the rule %q once", m.file, m.rule)
			}
			dir := t.TempDir()
			mutant := filepath.Join(dir, filepath.Base(m.file))
			overlay := fmt.Sprintf(`{"Replace":{%q:%q}}`, file, mutant)
			for name, content := range map[string]string{
				mutant: strings.Replace(string(text), m.rule, m.broken, 1), filepath.Join(dir, "overlay.json"): overlay,
			} {
				must.Do(t, os.WriteFile(name, []byte(content), 0o600))
			}
			binary := filepath.Join(dir, "broken.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSimulation$", fmt.Sprint("-seeds=", foundWithin)).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "to see it again") {
				t.Fatalf("the simulation did not find it within %d seeds: %v\n%s", foundWithin, err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, ": seed ") {
					t.Logf("found: %s", strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
