package lock

import (
	"testing"
	"time"

	"lockstep/internal/must"
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
	must.Do(t, c.Set(t.Context(), keys(bob)[0], before, time.Hour).Err())
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
	c.Del(t.Context(), keys(bob)[1])
	c.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	until(t, "b has a place again", queued)
	lease.Release()
	mustWait(t, other).Release()
}
