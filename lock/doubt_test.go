package lock

import (
	"context"
	"sync/atomic"
	"testing"

	"lockstep/internal/redistest"
)

// lostJoin loses the reply to one enter script.
type lostJoin struct {
	transport
	armed atomic.Bool
	lose  chan struct{} // closed when the caller is to hear that it has failed
}

func (c *lostJoin) enter(ctx context.Context, keys []string, instance string, call enterCall) (view, error) {
	v, err := c.transport.enter(ctx, keys, instance, call)
	if c.armed.CompareAndSwap(true, false) {
		<-c.lose
		return view{}, context.DeadlineExceeded
	}
	return v, err
}

// L32: a call fails when the turn that it led to is over, and nobody uses the lane any more. The heartbeat that
// answers the doubt must find the lane all the same, or whoever comes next waits for ever.
func TestIdleLaneInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc := startedOn(t, server.URL(), arrivalOrder())
	calls := &lostJoin{transport: svc.calls, lose: make(chan struct{})}
	svc.calls = calls

	before := mustWait(t, mustEnter(t, svc, bob, 4))
	ln := before.ticket.lane
	until(t, "its join is answered", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return !ln.link.sending })
	calls.armed.Store(true)
	ticket := mustEnter(t, svc, bob, 5)
	c := server.Client()
	until(t, "the place is taken", func() bool { return c.ZCard(t.Context(), keys(bob)[3]).Val() == 1 })
	before.Release()
	mustWait(t, ticket).Release()
	until(t, "the turn is given back", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return len(ln.link.releasing) == 0 })
	close(calls.lose)
	until(t, "the call has failed", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return !ln.link.sending })
	until(t, "a heartbeat was answered", func() bool { return !svc.remote.doubts.Load() })
	next := mustWait(t, mustEnter(t, svc, bob, 6))
	if next.Turn().Strategy != "redis" {
		t.Errorf("the turn came by the order %s", next.Turn().Strategy)
	}
	next.Release()
	until(t, "the lane is idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })
}
