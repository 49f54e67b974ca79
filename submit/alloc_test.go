//go:build !race

package submit_test

import (
	"testing"

	"lockstep/internal/must"
)

// What one raw transaction may allocate from its bytes to its result, with the checks, the turn, the look-ups and the
// bookkeeping. What the network of the tests allocates is counted too: it decodes the transaction once more. The race
// detector allocates on its own.
func TestAllocationBudget(t *testing.T) {
	const runs, budget = 200, 400
	s := newSubmitter(t, newNetwork(), nil)
	key := newKey(t)
	raw := make([][]byte, runs+1) // one is sent before the counting begins
	for i := range raw {
		raw[i] = transfer(t, key, uint64(i))
	}
	next := 0
	if got := testing.AllocsPerRun(runs, func() {
		must.Do(t, s.Submit(t.Context(), raw[next]).Err)
		next++
	}); got > budget {
		t.Errorf("one raw transaction: %v allocations, the budget is %d", got, budget)
	}
}
