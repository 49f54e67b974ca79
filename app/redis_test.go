package app_test

import (
	"slices"
	"strings"
	"testing"

	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/redistest"
)

// The locks may have a Redis of their own: then nothing else is there, and nothing of theirs
// is where the rest is.
func TestLocksHaveARedisOfTheirOwn(t *testing.T) {
	network, rest, locks := harness.Network(t, devnet.Config{}), redistest.Start(t, "--maxmemory", "1"), redistest.Start(t)
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
