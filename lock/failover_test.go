package lock

import (
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
