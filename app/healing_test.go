package app_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/devnet"
	"lockstep/internal/must"
)

// A short failure of the network costs a burst time, and no transactions: everything is executed, none
// twice, and what the network refused, and was paid for, is bounded.
func TestBurstHeals(t *testing.T) {
	t.Parallel()
	const burst = 40
	quick := []string{"SDK_GRPC_DEADLINE=4000", "SDK_REQUEST_TIMEOUT=20000"}
	for name, test := range map[string]struct {
		rules    string
		settings []string
		paid     int // at most
	}{
		"undisturbed":                {rules: `[]`},
		"one transaction vanishes":   {rules: `[{"at":"submit","skip":5,"times":1,"vanish":true}]`, paid: burst - 6},
		"the node hangs on one":      {rules: `[{"at":"submit","skip":5,"times":1,"delay":"1h"}]`, settings: quick},
		"the node drops one":         {rules: `[{"at":"submit","skip":5,"times":1,"dropBefore":true}]`},
		"the answer to one is lost":  {rules: `[{"at":"submit","skip":5,"times":1,"dropAfter":true}]`},
		"one is executed late":       {rules: `[{"at":"submit","skip":5,"times":1,"delay":"8s"}]`, settings: quick},
		"consensus refuses one once": {rules: `[{"at":"submit","skip":5,"times":1,"outcome":"WRONG_NONCE"}]`, paid: burst - 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *devnet.Config) { c.ConsensusLatency = 100 * time.Millisecond })
			r, a := w.relay(t, append([]string{"ENABLE_NONCE_ORDERING=true", aBurst}, test.settings...)...), w.account(t)
			must.Do(t, w.rules.Set([]byte(test.rules)))
			begun := time.Now()
			var all sync.WaitGroup
			for nonce := range uint64(burst) {
				all.Go(func() {
					if got := r.send(a.sign(a.pay(nonce))); got.Error != nil {
						t.Errorf("nonce %d: %s", nonce, got)
					}
				})
			}
			all.Wait()
			t.Logf("all answered after %v", time.Since(begun).Round(10*time.Millisecond))
			if got := w.nonce(t, a); got != burst {
				t.Errorf("the network executed %d of %d", got, burst)
			}
			got := r.paid()
			t.Logf("%d rejections were paid for", got)
			// What consensus refused was executed all the same: it went back to its line.
			if back := sum(r.scrape(), "lockstep_tx_recovered_total{"); strings.Contains(test.rules, "WRONG_NONCE") && back == 0 {
				t.Error("no transaction is counted as gone back to its line")
			}
			if got > test.paid {
				t.Errorf("%d rejections were paid for, want at most %d", got, test.paid)
			}
		})
	}
}

// paid counts what the network refused at consensus for its nonce.
func (r *relay) paid() int {
	r.Helper()
	return int(sum(r.scrape(), "rpc_relay_wrong_nonce_errors_total"))
}
