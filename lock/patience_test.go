package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// A lane that two processes shared waits for a Redis that went away; one that only this process
// uses goes on at once. When Redis is back, both go on through it.
func TestSharedLanesArePatient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.RedisPatience, cfg.RedisTimeout = ms(hour), ms(3000)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	shared, own := strangerNo(1), strangerNo(2)
	first := mustWait(t, mustEnter(t, one, shared, 0))
	other := mustEnter(t, two, shared, 1)
	until(t, "the other's place is taken", func() bool { return server.Client().LLen(t.Context(), keys(shared)[1]).Val() == 1 })
	first.Release()
	mustWait(t, other).Release()
	second := mustWait(t, mustEnter(t, one, shared, 2))
	waits := mustEnter(t, one, shared, 3)
	mustWait(t, mustEnter(t, one, own, 0)).Release()

	server.Pause()
	until(t, "redis is missed", func() bool { return !one.remote.up.Load() })
	second.Release()
	alone := mustWait(t, mustEnter(t, one, own, 1))
	if alone.Turn().Strategy != "local" {
		t.Errorf("the lane of one process went on by %s", alone.Turn().Strategy)
	}
	alone.Release()
	if holds(waits) {
		t.Error("the shared lane went on without Redis")
	}
	server.Resume()
	lease := mustWait(t, waits)
	if lease.Turn().Strategy != "redis" {
		t.Errorf("the shared lane went on by %s", lease.Turn().Strategy)
	}
	lease.Release()
}

// Redis stands still, for less than it takes to be missed here, and a window ends meanwhile. What comes
// before may be on its way back in another process, which missed Redis: so nothing is refused.
func TestStallOfRedisRefusesNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.Window = ms(100)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	first := mustWait(t, mustEnter(t, one, bob, 0))
	other := mustEnter(t, two, bob, 1)
	until(t, "the other's place is taken", func() bool { return server.Client().LLen(t.Context(), keys(bob)[1]).Val() == 1 })
	advance(first)
	first.Release()
	second := mustWait(t, other)
	ahead := mustEnter(t, two, bob, 3)
	advance(second)
	server.Pause()
	until(t, "redis stands still", func() bool { return two.remote.stalledSince(two.now()) })
	server.Resume()
	second.Release()
	lease := mustWait(t, ahead)
	if n := lease.Next(shows(2)); n.Step != PutBack || n.Nonce != 2 {
		t.Errorf("%+v", n)
	}
	lease.Release()
	if !two.remote.up.Load() {
		t.Error("redis was missed")
	}
}

// Redis is away for much longer than the default window. The windows of a lane that two processes shared stand still
// meanwhile: nobody goes, those that came meanwhile have all of their window afterwards, and nothing is refused.
func TestWindowsStandStillWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.Window = DefaultConfig().Window
	cfg.RedisPatience, cfg.RedisTimeout = ms(hour), ms(3000)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	first := mustWait(t, mustEnter(t, one, bob, 0))
	other := mustEnter(t, two, bob, 1)
	until(t, "the other's place is taken", func() bool { return server.Client().LLen(t.Context(), keys(bob)[1]).Val() == 1 })
	advance(first)
	first.Release()
	second := mustWait(t, other)
	before := mustEnter(t, two, bob, 3) // nonce 2 is missing
	advance(second)
	server.Pause()
	until(t, "redis is missed", func() bool { return !two.remote.up.Load() })
	second.Release()
	meanwhile := mustEnter(t, two, bob, 4)
	windowEnd := func(k *Ticket) time.Duration {
		k.lane.mu.Lock()
		defer k.lane.mu.Unlock()
		return k.until
	}
	began, end := two.now(), windowEnd(meanwhile)
	until(t, "the windows are over by the clock", func() bool { return two.now() > end })
	if holds(before) || holds(meanwhile) {
		t.Error("somebody went without Redis")
	}
	away := two.now() - began
	server.Resume()
	until(t, "redis decides again", func() bool {
		meanwhile.lane.mu.Lock()
		defer meanwhile.lane.mu.Unlock()
		return two.governs(meanwhile.lane)
	})
	if got := windowEnd(meanwhile); got < end+away {
		t.Errorf("Redis was away for %v, but the window was only moved by %v", away, got-end)
	}
	lease := mustWait(t, before)
	if n := lease.Next(shows(2)); n.Step != PutBack || n.Nonce != 2 {
		t.Errorf("nonce 3: %+v", n)
	}
	lease.Release()
	lease = mustWait(t, meanwhile)
	if n := lease.Next(shows(2)); n.Step != PutBack || n.Nonce != 2 {
		t.Errorf("nonce 4: %+v", n)
	}
	lease.Release()
}

// Redis comes back, and goes away, for a lane before anybody has told the lane. What the lane does first, here its timer, makes it
// follow in the same step: no window that stood still ends early, and no turn is given while the lane has patience.
func TestLaneFollowsRedisInOneStep(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.Window, cfg.RedisPatience = ms(100), ms(hour)
	now := time.Second
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent to it
	defer func() { _ = client.Close() }()
	svc := must.Get(New(cfg, Deps{Redis: client, Clock: func() time.Duration { return now }}))(t)
	r := svc.remote
	r.up.Store(true)
	k := mustEnter(t, svc, bob, 1)
	ln := k.lane
	ln.sharedAt = now
	end := now + cfg.Window.Duration()

	now += time.Millisecond
	r.downAt.Store(int64(now))
	r.up.Store(false)
	now += time.Second
	ln.onTimer()
	if holds(k) || svc.governs(ln) {
		t.Error("went on by a Redis that is away, or alone")
	}

	r.up.Store(true) // and nobody has told the lane
	if svc.governs(ln) || ln.patientUntil() <= now {
		t.Error("Redis decides, or patience is over, before the windows have been moved")
	}
	ln.onTimer()
	if !svc.governs(ln) || k.until != end+time.Second {
		t.Errorf("governs %v, the window ends at %v instead of %v", svc.governs(ln), k.until, end+time.Second)
	}
	ln.onTimer()
	svc.each(false, func(l *lane) { l.redisBack(now, false) })
	if k.until != end+time.Second {
		t.Errorf("the window was moved twice, to %v", k.until)
	}
}

// slowRedis answers each statement when it is told to: somebody else has the turn.
type slowRedis struct {
	asked, answer chan struct{}
}

func (r *slowRedis) sync(context.Context, []string, statement) (view, error) {
	r.asked <- struct{}{}
	<-r.answer
	return view{owner: lockValue{session: "theirs", instance: "other", fence: 1}, left: -1, wait: -1}, nil
}

// A window ends while the first statement of its claim is on its way, which Redis may have handled before. So the lane asks again,
// or nobody would hear that whoever had the turn then has given it up.
func TestWindowEndsWhileItsClaimIsOnItsWay(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.Window = ms(100)
	var now atomic.Int64
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent to it
	defer func() { _ = client.Close() }()
	svc := must.Get(New(cfg, Deps{Redis: client, Clock: func() time.Duration { return time.Duration(now.Load()) }}))(t)
	wire := &slowRedis{asked: make(chan struct{}), answer: make(chan struct{})}
	svc.sync, svc.work = wire.sync, t.Context()
	svc.remote.up.Store(true)
	k := mustEnter(t, svc, bob, 1)
	now.Store(int64(60 * time.Millisecond)) // the claim waits for half of the window
	k.lane.onTimer()
	<-wire.asked
	now.Store(int64(200 * time.Millisecond))
	k.lane.onTimer()
	wire.answer <- struct{}{}
	select {
	case <-wire.asked:
	case <-time.After(patience):
		t.Fatal("nobody asks after the end of the window")
	}
	wire.answer <- struct{}{}
	k.Leave()
	over := make(chan struct{})
	go func() { svc.wg.Wait(); close(over) }()
	for {
		select {
		case <-wire.asked: // the claim is taken back
			wire.answer <- struct{}{}
		case <-over:
			return
		}
	}
}

// Patience ends: then the shared lane goes on alone, and recovers, since others may have gone on.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.RedisPatience = ms(200)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	first := mustWait(t, mustEnter(t, one, bob, 0))
	other := mustEnter(t, two, bob, 1)
	until(t, "the other's place is taken", func() bool { return server.Client().LLen(t.Context(), keys(bob)[1]).Val() == 1 })
	advance(first)
	first.Release()
	mustWait(t, other).Release()
	second := mustWait(t, mustEnter(t, one, bob, 2))
	server.Kill()
	until(t, "redis is missed", func() bool { return !one.remote.up.Load() })
	second.Release()
	lease := mustWait(t, mustEnter(t, one, bob, 3))
	if n := lease.Next(shows(1)); lease.Turn().Strategy != "local" || !n.Recovering || n.Step != PutBack {
		t.Errorf("by %s: %+v", lease.Turn().Strategy, n)
	}
	lease.Release()
}

// A process that is late itself declares nobody dead: whoever shows no heartbeat may be as late.
func TestStarvedReaderDeclaresNobodyDead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = ms(hour)
	svc, err := New(cfg, Deps{Redis: server.Client()}) // it does not run: its heartbeats come from here alone
	if err != nil {
		t.Fatal(err)
	}
	r := svc.remote
	must.Do(t, r.beat(t.Context()))
	look := func() bool {
		dead := map[string]bool{"somebody.1": false}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		must.Do(t, r.findDead(ctx, dead))
		return dead["somebody.1"]
	}
	long := cfg.HeartbeatInterval.Duration()
	r.missing = map[string]time.Duration{"somebody.1": svc.now() - long}
	acked := r.ackedAt.Load()
	r.ackedAt.Store(int64(svc.now() - 3*long))
	if look() {
		t.Error("declared dead by a process whose own heartbeat is late")
	}
	if len(r.missing) != 0 {
		t.Error("what was missed while this process was late counts")
	}
	r.ackedAt.Store(acked)
	r.missing = map[string]time.Duration{"somebody.1": svc.now() - long}
	r.pauseTaking(svc.now())
	if look() {
		t.Error("declared dead just after Redis has lost its data, and who lives may not have shown it yet")
	}
	r.pauseTaking(-r.takePause)
	r.missing = map[string]time.Duration{"somebody.1": svc.now() - long}
	if !look() {
		t.Error("not declared dead by a process that is in time")
	}
}

// The limit of a wait holds however the lane stands to Redis, whether it flows or recovers, and for those who
// are told as for those who wait.
func TestWaitHasItsLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for i, stands := range []string{"without Redis", "with Redis", "in doubt", "kept off Redis"} {
		for _, mode := range []mode{flowing, recovering} {
			t.Run(fmt.Sprintf("%s, mode %d", stands, mode), func(t *testing.T) {
				cfg := arrivalOrder()
				svc, sender := startedOn(t, server.URL(), cfg), strangerNo(100+2*uint64(i)+uint64(mode))
				if stands == "without Redis" {
					local := must.Get(New(cfg, Deps{}))(t)
					svc = local
				}
				holder := mustWait(t, mustEnter(t, svc, sender, 0))
				waits, told := mustEnter(t, svc, sender, 1), mustEnter(t, svc, sender, 2)
				ln := holder.ticket.lane
				ln.mu.Lock()
				switch ln.chain.mode = mode; stands {
				case "in doubt":
					ln.link.sending = true // its worker waits for a heartbeat
				case "kept off Redis":
					ln.link.outUntil = svc.now() + time.Hour
				}
				ln.mu.Unlock()
				over := make(chan struct{})
				if !told.Notify(ms(50).Duration(), func() { close(over) }) {
					t.Error("it does not wait")
				}
				if _, err := waits.WaitWithin(t.Context(), ms(50).Duration()); !errors.Is(err, ErrInVain) || !errors.Is(err, ErrLeft) {
					t.Errorf("told %v", err)
				}
				<-over
				if _, err := told.WaitWithin(t.Context(), time.Hour); !errors.Is(err, ErrInVain) {
					t.Errorf("told %v", err)
				}
				if err := holder.Check(); err != nil {
					t.Errorf("the holder has lost its turn: %v", err)
				}
				ln.mu.Lock()
				if len(ln.queue) != 0 {
					t.Errorf("%d wait", len(ln.queue))
				}
				ln.link.sending, ln.link.outUntil = false, 0
				ln.mu.Unlock()
				holder.Release()
			})
		}
	}
}
