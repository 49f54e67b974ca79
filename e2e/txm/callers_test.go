package txm_test

import (
	"errors"
	"sync"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestOneKeyManyPosts submits one idempotency key 50 times at once, in two processes and
// again after a restart: there is one transaction, and every caller gets it.
func TestOneKeyManyPosts(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, nil)
	other := newCaller(t, c.n)
	word := topic()
	keyed := func(r *txmgr.Request) { r.Data, r.IdempotencyKey = word, "order-1" }
	ids := make([]string, 50)
	var group sync.WaitGroup
	for n := range ids {
		group.Go(func() {
			from := []*caller{c, other}[n%2]
			intent, err := from.submit(keyed)
			if err != nil {
				t.Error(err)
				return
			}
			ids[n] = intent.ID
		})
	}
	group.Wait()
	c.settled()
	late := newCaller(t, c.n) // as after a restart
	ids = append(ids, late.must(keyed).ID)
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one key has intents %s and %s", id, ids[0])
		}
	}
	if _, err := late.submit(keyed, func(r *txmgr.Request) { r.Gas++ }); !errors.Is(err, txmgr.ErrIdempotency) {
		t.Fatalf("another body under the key: %v", err)
	}
	c.audit(chain.url)
	// Past the retention the key is remembered, so that nothing runs again.
	must.Get(c.store.Forget(t.Context(), 1<<62, 100))(t)
	if _, err := late.submit(keyed); !errors.Is(err, txmgr.ErrForgotten) {
		t.Fatalf("a key past its retention: %v", err)
	}
	if runs := c.executions(chain.url); len(runs) != 1 {
		t.Fatalf("%d executions, want 1", len(runs))
	}
}

// TestLeastPending deals 40 intents to four signers evenly, and keeps an order key on one.
func TestLeastPending(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, func(n *txmNode) { n.Keys, n.InFlight = devKeys, 10 }, "--no-mining")
	until(t, "every signer is owned", func() bool {
		return c.count("SELECT count(*) FROM signer_chains WHERE known") == 4 && c.count("SELECT count(*) FROM leases WHERE name LIKE 'txm:%' AND owner <> ''") == 4
	})
	c.many(40)
	until(t, "all are in the pool", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'broadcast'") == 40 })
	if n := c.count("SELECT count(*) FROM (SELECT signer FROM intents GROUP BY signer HAVING count(*) = 10) AS even"); n != 4 {
		t.Errorf("%d of 4 signers have 10 intents each", n)
	}
	until(t, "all are mined", func() bool {
		chain.mine(1)
		return c.count("SELECT count(*) FROM intents WHERE NOT final") == 0
	})
	for range 5 {
		c.must(func(r *txmgr.Request) { r.OrderKey = "trader" })
	}
	until(t, "the order is in the pool", func() bool { return c.count("SELECT count(*) FROM intents WHERE status = 'broadcast'") == 5 })
	if n := c.count("SELECT count(DISTINCT signer) FROM intents WHERE order_key = 'trader'"); n != 1 {
		t.Errorf("an order key is on %d signers at once", n)
	}
	chain.mine(2)
	c.settled()
	c.audit(chain.url)
}
