package txm_test

import (
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/txmgr"
)

// TestCrashMatrix kills the owner by SIGKILL at every point between two steps, twice, on
// every ledger and on every kind of chain. Afterwards each slot has been signed for once,
// nothing ran twice and nothing was lost.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	chains := map[string][]string{"automine": nil, "blocks of 1 s": {"--block-time", "1"}}
	ledgers(t, func(t *testing.T, fresh func(*testing.T) string) {
		for name, args := range chains {
			t.Run(name, func(t *testing.T) {
				chain := startAnvil(t, args...)
				for _, point := range txmgr.Points {
					t.Run(point, func(t *testing.T) {
						n := txmNode{Ledger: fresh(t), Chain: 31337, URLs: []string{chain.url}, Keys: []string{newKey(t, chain)}, Lease: 3 * time.Second}
						t.Parallel() // most of the time it waits for a lease to expire
						crash(t, n, point, func(c *caller) { c.audit(chain.url) })
					})
				}
			})
		}
		t.Run("NEAR", func(t *testing.T) {
			for _, point := range txmgr.Points {
				t.Run(point, func(t *testing.T) {
					database := fresh(t)
					t.Parallel()
					n := startNEAR(t)
					crash(t, n.node(database), point, n.audit)
				})
			}
		})
		t.Run("Hedera", func(t *testing.T) {
			for _, point := range txmgr.Points {
				t.Run(point, func(t *testing.T) {
					database := fresh(t)
					t.Parallel()
					h := startHedera(t, devnet.Config{ConsensusLatency: 100 * time.Millisecond, Nodes: 2})
					n := h.node(database)
					n.InFlight = 8 // so that several are on their way when the owner dies
					crash(t, n, point, h.audit)
					if got := h.statuses(); len(got) != 1 || got["SUCCESS"] != len(h.records()) {
						t.Errorf("the consensus log has %v", got)
					}
				})
			}
		})
	})
}

func crash(t *testing.T, n txmNode, point string, audit func(*caller)) {
	n.Instance = "first"
	c := newCaller(t, n)
	n.Point = point
	c.many(5)
	first := n.start(t)
	until(t, "the owner dies at "+point, func() bool { return !first.Alive() })
	c.many(5)
	n.Instance = "second"
	second := n.start(t)
	until(t, "the second owner dies at "+point, func() bool { return !second.Alive() })
	c.many(5)
	n.Point, n.Instance = "", "third"
	n.start(t)
	c.many(5)
	c.settled()
	audit(c)
	c.sameBytes()
}
