package lock

import (
	"context"
	"sync/atomic"
	"testing"

	"lockstep/internal/redistest"
)

// lostAnswer loses the answer to one statement.
type lostAnswer struct {
	sync  func(context.Context, []string, statement) (view, error)
	armed atomic.Bool
	lose  chan struct{} // closed when the caller is to hear that it has failed
}

func (c *lostAnswer) state(ctx context.Context, keys []string, call statement) (view, error) {
	v, err := c.sync(ctx, keys, call)
	if c.armed.CompareAndSwap(true, false) {
		<-c.lose
		return view{}, context.DeadlineExceeded
	}
	return v, err
}

// L32: a call fails when nobody uses the lane any more. The heartbeat that answers the doubt must find the lane all the same, or
// whoever comes next waits for ever.
func TestIdleLaneInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc := startedOn(t, server.URL(), arrivalOrder())
	calls := &lostAnswer{sync: svc.sync, lose: make(chan struct{})}
	svc.sync = calls.state

	lease := mustWait(t, mustEnter(t, svc, bob, 4))
	calls.armed.Store(true)
	lease.Release()
	c := server.Client()
	until(t, "the turn has ended", func() bool { return c.Exists(t.Context(), keys(bob)[0]).Val() == 0 })
	close(calls.lose)
	until(t, "a heartbeat was answered, and the lane is idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })
	next := mustWait(t, mustEnter(t, svc, bob, 6))
	if next.Turn().Strategy != "redis" {
		t.Errorf("the turn came by the order %s", next.Turn().Strategy)
	}
	next.Release()
	until(t, "the lane is idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })
}
