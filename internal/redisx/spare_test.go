package redisx_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// The relays of a fleet share a quota; a window takes half of it, and the next one half again.
func TestQuota(t *testing.T) {
	server := redistest.Start(t)
	// A window of half a century does not end while this runs.
	const life = 50 * 365 * 24 * time.Hour
	one, other := redisx.NewQuota("q", 2_000_000, life), redisx.NewQuota("q", 2_000_000, life)
	take := func(q *redisx.Quota, bytes int, want bool) {
		t.Helper()
		if got := q.Take(bytes); got != want {
			t.Errorf("%d bytes: %v", bytes, got)
		}
		must.Do(t, q.Settle(t.Context(), server.Client()))
	}
	take(one, 600_000, true)
	take(other, 300_000, true) // and now it knows of the other's
	take(other, 200_000, false)
	take(other, 100_000, true)
	take(one, 1_000_001, false)
	keys := server.Client().Keys(t.Context(), "lockstep:bytes:q:*").Val()
	if len(keys) != 1 {
		t.Fatalf("in Redis: %v", keys)
	}
	if sum := server.Client().Get(t.Context(), keys[0]).Val(); sum != "900000" && sum != "1000000" { // the last 100,000 may be told later
		t.Errorf("in Redis: %s", sum)
	}
	if ttl := server.Client().TTL(t.Context(), keys[0]).Val(); ttl <= life || ttl > 2*life {
		t.Errorf("the sum lives for %s", ttl)
	}
}

// A window is over when what was written in it has had its time; without a time there is one
// window, which has all.
func TestQuotaWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, forever := redisx.NewQuota("q", 200, time.Minute), redisx.NewQuota("q", 200, 0)
		first := q.Window()
		for i := range 3 {
			if got := q.Window() - first; got != int64(i) || forever.Window() != 0 {
				t.Errorf("after %d minutes: %d windows later", i, got)
			}
			if !q.Take(100) || q.Take(1) {
				t.Error("a window does not have half of the bytes")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // fake time
		}
		if !forever.Take(200) || forever.Take(1) {
			t.Error("without a time: not all of the bytes")
		}
	})
}
