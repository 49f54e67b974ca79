package app_test

import (
	"slices"
	"strings"
	"testing"

	"lockstep/internal/redistest"
)

// The locks may have a Redis of their own: then nothing else is there, and nothing of theirs
// is where the rest is.
func TestLocksHaveARedisOfTheirOwn(t *testing.T) {
	w, rest, locks := newWorld(t), redistest.Start(t, "--maxmemory", "1"), redistest.Start(t)
	r, alice := w.relay(t, "ENABLE_NONCE_ORDERING=true", "TX_STATUS_TRACING=true", "REDIS_ENABLED=true", "REDIS_URL="+rest.URL(),
		"LOCK_REDIS_URL="+locks.URL()), w.account(t)
	r.becomesSum(t, "lockstep_lock_redis_up", 1)
	before := r.scrape()["lockstep_lock_fail_open_total"]
	for nonce := range uint64(3) {
		if got := r.send(alice.sign(alice.pay(nonce))); got.Error != nil {
			t.Errorf("with a full Redis beside that of the locks: %s", got)
		}
	}
	if up, failed := r.scrape()["lockstep_lock_redis_up"], r.scrape()["lockstep_lock_fail_open_total"]; up != 1 || failed != before {
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
