package txm_test

import (
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
)

// TestManyCallersOneKey posts 200 intents at once for one key, to one, two and three processes in turn: each is
// accepted, nonces are contiguous, and each intent runs once.
func TestManyCallersOneKey(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, fresh func(*testing.T) string) {
		for _, processes := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
				// Blocks by the clock: on a busy machine anvil may stop to mine at once what comes in
				// hundreds, with all of it in its pool.
				chain := startAnvil(t, "--block-time", "1")
				n := txmNode{Ledger: fresh(t), Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1]}
				m := newManagers(t, processes, "DATABASE_URL="+n.Ledger, `TXM_CHAINS={"31337":{"url":["`+chain.url+`"],"depth":0}}`,
					"RELAYER_PRIVATE_KEYS="+devKeys[0], "TXM_POLL=50ms")
				c := newCaller(t, n)
				c.post(m, 200)
				c.settled()
				c.audit(chain.url)
				c.sameBytes()
			})
		}
	})
}

// post posts intents at once over HTTP, each to the next process.
func (c *caller) post(m *managers, n int) {
	c.t.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			word := topic()
			var accepted struct{ ID string }
			url := m.urls[m.names[i%len(m.names)]]
			body := `{"chain":31337,"to":"` + counter + `","data":"0x` + hex.EncodeToString(word) + `","gas":60000,"simulate":"off"}`
			if status := ask("POST", url+"/v1/transactions", body, "", &accepted); status != 202 || accepted.ID == "" {
				c.t.Errorf("intent %d: %d, id %q", i, status, accepted.ID)
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ids[accepted.ID] = word
		})
	}
	group.Wait()
	if len(c.ids) != n {
		c.t.Errorf("%d of %d intents have an id of their own", len(c.ids), n)
	}
}
