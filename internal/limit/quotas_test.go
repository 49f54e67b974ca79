package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/redistest"
)

func TestQuotasAreForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuotas(nil, 0)
		if !q.Spend(t.Context(), "shop", "weight", 8, 10) || q.Spend(t.Context(), "shop", "weight", 4, 10) {
			t.Error("8 of 10, then 4 of 2")
		}
		if !q.Spend(t.Context(), "shop", "weight", 2, 10) {
			t.Error("what was refused was counted")
		}
		if !q.Spend(t.Context(), "shop", "calls", 1, 1) || !q.Spend(t.Context(), "other", "weight", 10, 10) {
			t.Error("quotas are not apart")
		}
		time.Sleep(quotaWindow - time.Millisecond) //nolint:forbidigo // fake time
		if q.Spend(t.Context(), "shop", "weight", 1, 10) {
			t.Error("the window is over too early")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // fake time
		if !q.Spend(t.Context(), "shop", "weight", 10, 10) {
			t.Error("the window does not end")
		}
	})
}

// The processes of a fleet count together, and exactly.
func TestQuotasAreCountedTogether(t *testing.T) {
	server := redistest.Start(t)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range 2 {
		q := NewQuotas(connect(t, server.URL()), patience)
		for range 8 {
			wait.Go(func() {
				for range 5 {
					if q.Spend(t.Context(), "shop", "weight", 4, 42) {
						allowed.Add(4)
					}
				}
			})
		}
	}
	wait.Wait()
	if n := allowed.Load(); n != 40 {
		t.Errorf("%d of 42 were given, in fours", n)
	}
	look := server.Client()
	if left, err := look.PTTL(t.Context(), "quota:{shop}:weight").Result(); err != nil || left <= 0 || left > quotaWindow {
		t.Errorf("the window ends in %v, %v", left, err)
	}
	q := NewQuotas(connect(t, server.URL()), patience)
	if !q.Spend(t.Context(), "shop", "weight", 2, 42) || q.Spend(t.Context(), "shop", "weight", 1, 42) {
		t.Error("want the last two, and no more")
	}
}

// While Redis is away the process counts for itself, and says so.
func TestQuotasWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	q := NewQuotas(connect(t, server.URL()), patience)
	server.Kill()
	allowed := 0
	for range 100 {
		if q.Spend(t.Context(), "shop", "calls", 1, 10) {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("%d were allowed", allowed)
	}
}
