package txm_test

import (
	"fmt"
	"testing"
)

// TestManyCallersOneKey submits 200 intents at once on one key, through one, two and three
// processes: nonces are contiguous, and each intent runs once.
func TestManyCallersOneKey(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, fresh func(*testing.T) string) {
		for _, processes := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
				// Blocks by the clock: on a busy machine anvil may stop to mine at once what comes in
				// hundreds, with all of it in its pool.
				chain := startAnvil(t, "--block-time", "1")
				n := txmNode{Ledger: fresh(t), Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1]}
				c := newCaller(t, n)
				for i := range processes {
					n.Instance = fmt.Sprint("node", i)
					n.start(t)
				}
				c.many(200)
				c.settled()
				c.audit(chain.url)
				c.sameBytes()
			})
		}
	})
}
