package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/devnet/mirrorrest"
)

// Slow reads of clients take all connections to the mirror node but those that are kept for sends. Meanwhile new
// senders and a burst are checked, submitted and executed, before one of these reads has its answer.
func TestSlowReadsDoNotKeepSendsWaiting(t *testing.T) {
	t.Parallel()
	const places, kept, slow, burst = 10, 1, 40, 20
	w := newWorld(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "MIRROR_NODE_HTTP_MAX_SOCKETS=10", "MIRROR_NODE_TIMEOUT=120000", "SERVER_REQUEST_TIMEOUT_MS=120000", "RATE_LIMIT_DISABLED=true", aBurst)
	release := make(chan struct{})
	var held, answered atomic.Int64
	w.spoilMirror(t, func(q *http.Request) mirrorrest.Fault {
		if strings.HasSuffix(q.URL.Path, "/contracts/call") {
			held.Add(1)
			<-release
		}
		return mirrorrest.Fault{}
	})
	target := w.account(t).address
	var reads sync.WaitGroup
	for i := range slow {
		reads.Go(func() {
			call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"%s","data":"0x%s"},"latest"]}`, target, strings.Repeat("ab", i+1))
			from := fmt.Sprintf("192.0.2.%d", i) // one client has not all of these places
			if _, got := ask(t, http.MethodPost, r.url, call, "X-Forwarded-For", from); !strings.Contains(got, `"result"`) {
				t.Errorf("a read: %s", got)
			}
			answered.Add(1)
		})
	}
	r.until("the reads have their places", func() bool { return held.Load() >= places-kept })
	for range 3 {
		a := w.account(t)
		var sends sync.WaitGroup
		for nonce := range uint64(burst) {
			sends.Go(func() {
				if got := r.send(a.sign(a.pay(nonce))); got.Error != nil {
					t.Errorf("nonce %d: %s", nonce, got)
				}
			})
		}
		sends.Wait()
		if got := w.nonce(t, a); got != burst {
			t.Errorf("%d of %d were executed", got, burst)
		}
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d reads were answered before the sends", n)
	}
	if n := held.Load(); n != places-kept {
		t.Errorf("%d reads were under way, want %d", n, places-kept)
	}
	close(release)
	reads.Wait()
	if n := r.scrape()[`rpc_relay_mirror_waiting_requests_total{class="read"}`]; n == 0 {
		t.Error("no read is counted as one that waited for a place")
	}
}
