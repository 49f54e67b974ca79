package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/redistest"
)

// A client that installs large filters, as fast as it can, does not take the memory that the
// locks need: order is shared through the same Redis before and after.
func TestFiltersLeaveTheLocksTheirMemory(t *testing.T) {
	network, server := chain(t), redistest.Start(t, "--maxmemory", "24mb")
	relay := relayOn(t, network, "RATE_LIMIT_DISABLED=true", "ENABLE_NONCE_ORDERING=true",
		"REDIS_ENABLED=true", "REDIS_URL="+server.URL())
	alice := &wallet{t: t, keyOf: network.Accounts()[1].PrivateKey[2:]}
	shared := func() bool { return metric(t, relay, "lockstep_lock_redis_up") == 1 }
	eventually(t, "order is shared", shared)
	before := metric(t, relay, "lockstep_lock_fail_open_total")

	addresses := make([]string, 1000)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("0x%040x", i+1)
	}
	params, err := json.Marshal(map[string]any{"address": addresses})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"eth_newFilter","params":[` + string(params) + `]}`
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept, refused := 0, 0
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_, text := ask(t, http.MethodPost, "http://"+relay.HTTPAddr(), body, "Content-Type", "application/json")
				mu.Lock()
				switch {
				case strings.Contains(text, `"result"`):
					kept++
				case strings.Contains(text, "Filters cannot be reached"):
					refused++
				default:
					t.Error(text[:min(len(text), 300)])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if kept == 0 || refused == 0 {
		t.Errorf("%d filters are kept and %d refused; want some of both", kept, refused)
	}
	if code := alice.send(relay, ordinary); code != fine {
		t.Errorf("after: %d", code)
	}
	if failed := metric(t, relay, "lockstep_lock_fail_open_total"); failed != before || !shared() {
		t.Errorf("%v transactions were ordered inside the process", failed)
	}
}

// The locks may have a Redis of their own: then nothing else is there, and nothing of theirs
// is where the rest is.
func TestLocksHaveARedisOfTheirOwn(t *testing.T) {
	network, rest, locks := chain(t), redistest.Start(t, "--maxmemory", "1"), redistest.Start(t)
	relay := relayOn(t, network, "ENABLE_NONCE_ORDERING=true", "TX_STATUS_TRACING=true", "REDIS_ENABLED=true", "REDIS_URL="+rest.URL(),
		"LOCK_REDIS_URL="+locks.URL())
	alice := &wallet{t: t, keyOf: network.Accounts()[1].PrivateKey[2:]}
	eventually(t, "order is shared", func() bool { return metric(t, relay, "lockstep_lock_redis_up") == 1 })
	before := metric(t, relay, "lockstep_lock_fail_open_total")
	for range 3 {
		if code := alice.send(relay, ordinary); code != fine {
			t.Errorf("with a full Redis beside that of the locks: %d", code)
		}
	}
	if up, failed := metric(t, relay, "lockstep_lock_redis_up"), metric(t, relay, "lockstep_lock_fail_open_total"); up != 1 || failed != before {
		t.Errorf("up: %v; ordered inside the process: %v", up, failed)
	}
	keys := func(s *redistest.Server) []string { return s.Client().Keys(t.Context(), "*").Val() }
	ofLocks := keys(locks)
	if len(ofLocks) == 0 {
		t.Error("the locks have nothing in their Redis")
	}
	for i, key := range slices.Concat(ofLocks, keys(rest)) {
		if strings.HasPrefix(key, "lock:") != (i < len(ofLocks)) {
			t.Errorf("%s is in the wrong Redis", key)
		}
	}
}
