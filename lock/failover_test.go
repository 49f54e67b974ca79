package lock

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/redistest"
)

// L35: another server takes over that lacks the end of a turn: by it, this process still has that turn. The next
// transaction does not wait until the hold limit.
func TestEndOfATurnIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = ms(100)
	svc, c := startedOn(t, server.URL(), cfg), server.Client()
	lease := mustWait(t, mustEnter(t, svc, bob, 5))
	before := c.Get(t.Context(), keys(bob)[0]).Val()
	lease.Release()
	until(t, "the turn has ended", func() bool { return c.Exists(t.Context(), keys(bob)[0]).Val() == 0 })
	if err := c.Set(t.Context(), keys(bob)[0], before, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	mustWait(t, mustEnter(t, svc, bob, 6)).Release()
}

// L36: another server takes over that lacks a place, and no call fails. The connection that brings messages broke, which
// shows it.
func TestPlaceIsLostWithAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.MembershipInterval = ms(hour)
	a, b, c := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg), server.Client()
	lease, other, queued := lineUp(t, c, a, b)
	c.Del(t.Context(), keys(bob)[1], keys(bob)[3])
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	until(t, "b has a place again", queued)
	lease.Release()
	mustWait(t, other).Release()
}

// L36: a process that ends its turn, and hears that it had none, sends its places again.
func TestPlaceIsLostWithATurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.MembershipInterval, cfg.HeartbeatInterval = ms(hour), ms(hour) // nothing is looked at
	svc, c := startedOn(t, server.URL(), cfg), server.Client()
	lease := mustWait(t, mustEnter(t, svc, bob, 5))
	other := mustEnter(t, svc, bob, 6)
	queued := func() bool { return c.ZCard(t.Context(), keys(bob)[3]).Val() == 1 }
	until(t, "the other waits", queued)
	c.Del(t.Context(), keys(bob)[1], keys(bob)[3])
	c.Set(t.Context(), keys(bob)[0], "s|another.1|4|1||||||", time.Hour)
	lease.Release()
	until(t, "the other has a place again", queued)
	c.Del(t.Context(), keys(bob)[0])
	signal(svc.remote.look)
	mustWait(t, other).Release()
}

// overtaken holds back one enter script before Redis, and the reply to the second end of a turn after that.
type overtaken struct {
	transport
	armed    atomic.Bool
	held     chan struct{} // closed when the enter script is being held back
	released atomic.Int32  // ends of turns since then
	arrive   chan struct{} // closed when the enter script may go on
	answered chan struct{} // closed when its reply has come to the lane
}

func (o *overtaken) enter(ctx context.Context, keys []string, instance string, call enterCall) (view, error) {
	if o.armed.CompareAndSwap(true, false) {
		close(o.held)
		<-o.arrive
	}
	return o.transport.enter(ctx, keys, instance, call)
}

func (o *overtaken) release(ctx context.Context, keys []string, d handback) (was bool, v view, err error) {
	was, v, err = o.transport.release(ctx, keys, d)
	select {
	case <-o.held:
		if o.released.Add(1) == 2 {
			<-o.answered
		}
	default:
	}
	return was, v, err
}

// L37: a place is sent again, and reaches Redis when its turn has come and gone meanwhile. Redis begins the turn once
// more, before this process has heard that it has ended. It is given back all the same.
func TestTurnIsBegunOnceMore(t *testing.T) {
	t.Parallel()
	testPlaceComesLate(t, arrivalOrder(), false)
}

// L39: the same with a window, in which Redis begins no turn. Nobody waits any more, and the place does not stay.
func TestPlaceComesAfterItsTurn(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"the end is answered": true, "the end is not answered yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Window = ms(50)
			testPlaceComesLate(t, cfg, answered)
		})
	}
}

// testPlaceComesLate sends a place again, and holds it back until its turn is over. answered: this process has heard
// of the turn's end by then.
func testPlaceComesLate(t *testing.T, cfg Config, answered bool) {
	server := redistest.Start(t)
	cfg.MembershipInterval, cfg.HeartbeatInterval = ms(hour), ms(hour) // nothing is looked at
	svc, c := startedOn(t, server.URL(), cfg), server.Client()
	calls := &overtaken{transport: svc.calls, held: make(chan struct{}), arrive: make(chan struct{}), answered: make(chan struct{})}
	svc.calls = calls
	if answered {
		close(calls.answered)
	}

	first := mustWait(t, mustEnter(t, svc, bob, 5))
	ln := first.ticket.lane
	other := mustEnter(t, svc, bob, 6)
	until(t, "the other has a place", func() bool { return c.ZCard(t.Context(), keys(bob)[3]).Val() == 1 })
	until(t, "its join is answered", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return !ln.link.sending })
	calls.armed.Store(true)
	ln.mu.Lock()
	ln.link.want |= jobVerify
	ln.dispatch(svc.now())
	ln.mu.Unlock()
	<-calls.held
	until(t, "the other's window is over, by the clock of Redis, too", func() bool { return svc.now() > other.until+100*time.Millisecond })
	first.Release()
	mustWait(t, other).Release()
	free := func() bool { return c.Exists(t.Context(), keys(bob)[0]).Val() == 0 }
	until(t, "both turns have ended", func() bool {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		return calls.released.Load() == 2 && free() && (!answered || len(ln.link.releasing) == 0)
	})
	close(calls.arrive)
	until(t, "the place has been sent again", func() bool { ln.mu.Lock(); defer ln.mu.Unlock(); return !ln.link.sending || len(ln.link.handbacks) > 0 })
	if !answered {
		close(calls.answered)
	}
	until(t, "it is given back", func() bool {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		return !ln.link.sending && len(ln.link.handbacks)+len(ln.link.releasing) == 0 && free() && c.ZCard(t.Context(), keys(bob)[3]).Val() == 0
	})
}
