package lock

import (
	"context"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// Where the access list of the server forbids to publish, turns are found by looking.
func TestPublishingIsForbidden(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must.Do(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-publish").Err())
	start := func() *Service {
		cfg := arrivalOrder()
		client := must.Get(redisx.Open("redis://mute:secret@"+server.Addr(), redisx.Options{Timeout: cfg.RedisTimeout.Duration()}))(t)
		svc := must.Get(New(cfg, Deps{Redis: client}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- svc.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done; _ = client.Close() })
		until(t, "redis is used", svc.remote.up.Load)
		return svc
	}
	a, b := start(), start()
	first := mustWait(t, mustEnter(t, a, bob, 5))
	next := mustEnter(t, b, bob, 6)
	c := server.Client()
	until(t, "b waits", func() bool { return c.LLen(t.Context(), keys(bob)[1]).Val() == 1 })
	first.Release()
	lease := mustWait(t, next)
	if lease.Turn().Strategy != "redis" {
		t.Error("the turn came by the order of the process")
	}
	lease.Release()
}

// Verdicts that arrive while Redis is away hold on to no lane that nobody uses.
func TestOutageKeepsNoIdleLanes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc := startedOn(t, server.URL(), arrivalOrder())
	var all []*Submitted
	for i := range uint64(20) {
		lease := mustWait(t, mustEnter(t, svc, strangerNo(i), 0))
		all = append(all, advance(lease))
		lease.Release()
	}
	until(t, "idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })
	server.Kill()
	until(t, "redis is missed", func() bool { return !svc.remote.up.Load() })
	for _, sent := range all {
		sent.Conclude(t.Context(), Verdict{Reached: true})
	}
	if n, _ := svc.reg.sizes(); n != 0 {
		t.Errorf("%d lanes are kept for verdicts that Redis cannot be told", n)
	}
}
