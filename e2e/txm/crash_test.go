package txm_test

import (
	"fmt"
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

// TestLostAnswers puts a proxy before the chain that forwards a transaction and then breaks the connection, or
// delays the answer past every time-out. No intent gets a
// second nonce, and each has its true fate. An answer that is late by a minute meets the time-outs that are the defaults.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, how := range []string{swallow, delay, late} {
		t.Run(how, func(t *testing.T) {
			chain := startAnvil(t)
			proxy := startProxy(t, chain.url)
			n := txmNode{
				Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 31337, URLs: []string{proxy.url}, Keys: devKeys[:1],
				Instance: "node", Timeout: time.Second, Lease: 4 * time.Second,
			}
			if how == late {
				n.Timeout, n.Lease = 0, 0
			}
			c := newCaller(t, n)
			n.start(t)
			c.many(3)
			c.settled()
			proxy.spoil("eth_sendRawTransaction", how, 1)
			c.many(20)
			until(t, "an answer is lost", func() bool { return proxy.left() == 0 })
			c.settled()
			c.audit(chain.url)
			c.sameBytes()
			if c.count("SELECT count(*) FROM attempts WHERE ambiguous") == 0 {
				t.Error("no attempt was ever unknown: the proxy lost nothing that mattered")
			}
		})
	}
}
