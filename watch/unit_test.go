package watch

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/sleep"
)

func fleetOf(n int) []string {
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("relayer-%d", i)
	}
	return nodes
}

func allUnits() []string {
	units := []string{headUnit(1), factoryUnit("escrows")}
	for n := range uint32(shards) {
		units = append(units, shardUnit(1, n))
	}
	return units
}

func TestAssignIsEven(t *testing.T) {
	units := allUnits()
	for _, n := range []int{1, 2, 3, 9, 10} {
		load := map[string]int{}
		for _, node := range assign(units, fleetOf(n)) {
			load[node]++
		}
		if len(load) != n {
			t.Errorf("%d nodes: only %d have units", n, len(load))
		}
		for node, mine := range load {
			if float64(mine) > loadCap*float64(len(units))/float64(n)+1 {
				t.Errorf("%d nodes: %s has %d of %d units", n, node, mine, len(units))
			}
		}
	}
}

func TestOneNodeMoreMovesItsShare(t *testing.T) {
	units := allUnits()
	for _, c := range []struct{ from, to int }{{2, 3}, {3, 4}, {9, 10}, {10, 9}} {
		before, after := assign(units, fleetOf(c.from)), assign(units, fleetOf(c.to))
		moved := 0
		for _, u := range units {
			if before[u] != after[u] {
				moved++
			}
		}
		if limit := 1.5 / float64(max(c.from, c.to)) * float64(len(units)); float64(moved) > limit {
			t.Errorf("%d → %d nodes: %d of %d units move, want at most %.0f", c.from, c.to, moved, len(units), limit)
		}
	}
}

// TestTroubleIsToldAgain: the log has a line when something stops working, and another when the cause is another after a while.
func TestTroubleIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all troubles
		note := func(text string, want bool) {
			t.Helper()
			if got := all.note("a chain", errors.New(text)); got != want {
				t.Errorf("%s: a line is %v", text, got)
			}
		}
		note("one cause", true)
		note("another", false)
		sleep.For(t.Context(), toldAgain)
		note("one cause", false)
		note("another", true)
		note("a third", false)
		if since, why := all.of("a chain"); time.Since(time.UnixMicro(since)) != toldAgain || why != "a third" {
			t.Errorf("%d, %s", since, why)
		}
		all.note("a chain", nil)
		note("one cause", true)
	})
}
