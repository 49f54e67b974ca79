package app_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet"
	"lockstep/devnet/mirrorrest"
)

// While the mirror node fails, in whichever way, a sender whose lane is sure of its nonce goes on:
// its burst is executed whole, and so is what it, others and newcomers send right after the recovery.
func TestMirrorOutageInABurst(t *testing.T) {
	t.Parallel()
	const known, burst, after = 3, 40, 25
	for name, fault := range map[string]mirrorrest.Fault{
		"503":                   {Status: http.StatusServiceUnavailable},
		"429":                   {Status: http.StatusTooManyRequests},
		"429 with Retry-After":  {Status: http.StatusTooManyRequests, RetryAfter: time.Second},
		"no answer":             {Hang: true},
		"broken connections":    {Drop: true},
		"answers that are junk": {Garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *devnet.Config) { c.ConsensusLatency = 20 * time.Millisecond })
			r, a, other := w.relay(t, "ENABLE_NONCE_ORDERING=true", "MIRROR_NODE_TIMEOUT=5000", aBurst), w.account(t), w.account(t)
			newcomer := w.account(t)
			for nonce := range uint64(known) {
				for _, who := range []*account{a, other} {
					if got := r.send(who.sign(who.pay(nonce))); got.Error != nil {
						t.Fatalf("nonce %d: %s", nonce, got)
					}
				}
			}
			together := func(who *account, first, count uint64, send func(*types.Transaction) answer) {
				var all sync.WaitGroup
				for nonce := first; nonce < first+count; nonce++ {
					all.Go(func() {
						if got := send(who.sign(who.pay(nonce))); got.Error != nil {
							t.Errorf("nonce %d: %s", nonce, got)
						}
					})
				}
				all.Wait()
			}
			// A relay on a busy machine may need a while to notice that the mirror node is back. Then it says that
			// nothing was sent, and clients send again.
			again := func(tx *types.Transaction) (got answer) {
				const upstream = -32020
				for end := time.Now().Add(generous); ; {
					if got = r.send(tx); got.Error == nil || got.Error.Code != upstream || time.Now().After(end) {
						return got
					}
				}
			}
			spoil := func(*http.Request) mirrorrest.Fault { return fault }
			w.mirror.Store(&spoil)
			together(a, known, burst, r.send)
			if got := w.nonce(t, a); got != known+burst {
				t.Errorf("%d of %d were executed while the mirror node was away", got-known, burst)
			}
			w.mirror.Store(nil)
			together(a, known+burst, after, r.send)
			together(newcomer, 0, after, again)
			together(other, known, after, again)
			executed := []int64{w.nonce(t, a) - known - burst, w.nonce(t, newcomer), w.nonce(t, other) - known}
			if diff := cmp.Diff([]int64{after, after, after}, executed); diff != "" {
				t.Errorf("executed after the recovery (-want +got)\n%s", diff)
			}
			if got := r.paid(); got != 0 {
				t.Errorf("%d rejections were paid for", got)
			}
			if r.scrape()["lockstep_submissions_with_stale_facts_total"] == 0 {
				t.Error("nothing went on with what was known")
			}
		})
	}
}
