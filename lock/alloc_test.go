//go:build !race

package lock_test

import (
	"context"
	"testing"

	"lockstep/internal/redistest"
	"lockstep/lock"
)

// What a turn may allocate from Enter to Release in a lane that nobody else uses: the ticket, the lane, and with the
// turn's context and a report as a submission makes it also these. The race detector allocates on its own.
func TestAllocationBudgets(t *testing.T) {
	svc := newLocal(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	turn := func(use func(*lock.Lease)) func() {
		return func() {
			ticket, err := svc.Enter(alice, 1)
			if err != nil {
				t.Fatal(err)
			}
			lease, err := ticket.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			use(lease)
			lease.Release()
		}
	}
	plain := turn(func(*lock.Lease) {})
	submission := turn(func(lease *lock.Lease) {
		_ = lease.Context()
		if err := lease.Check(); err != nil {
			t.Fatal(err)
		}
		lease.Report(lock.Report{Submission: lock.Submission{Node: "0.0.3"}})
	})
	for _, c := range []struct {
		name   string
		turn   func()
		budget float64
	}{{"a turn", plain, 3}, {"a turn with its context and a report", submission, 9}} {
		if got := testing.AllocsPerRun(1000, c.turn); got > c.budget {
			t.Errorf("%s: %v allocations, the budget is %v", c.name, got, c.budget)
		}
	}
}

// What a turn may allocate over Redis: also the two scripts, their answers, and the grant that comes over Pub/Sub.
func TestAllocationBudgetOverRedis(t *testing.T) {
	server := redistest.Start(t)
	svc, _ := onRedis(t, server.URL(), calm(), lock.Deps{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const budget = 100
	if got := testing.AllocsPerRun(300, func() {
		ticket, err := svc.Enter(alice, 1)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := ticket.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
	}); got > budget {
		t.Errorf("a turn over Redis: %v allocations, the budget is %d", got, budget)
	}
	if !svc.RedisUp() {
		t.Error("the turns were not over Redis")
	}
}
