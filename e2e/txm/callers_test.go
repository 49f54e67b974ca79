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
