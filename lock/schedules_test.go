package lock

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

var bob = common.HexToAddress("0x00000000000000000000000000000000000000aa")

// arrivalOrder are settings with which nobody waits for a predecessor. However slow the machine is, nothing ends
// by itself with them: no turn, no heartbeat, no memory and no call.
func arrivalOrder() Config {
	cfg := DefaultConfig()
	cfg.Window = 0
	cfg.MaxHold, cfg.Memory = ms(hour), ms(hour)
	cfg.HeartbeatMissed, cfg.RedisTimeout = 1000, ms(60_000)
	return cfg
}

// hour is a limit that no test reaches, in milliseconds.
const hour = 3_600_000

// patience is for a machine that stands still at times; what passes, passes at once.
const patience = 2 * time.Minute

// advance reports that a node has the holder's transaction, which was next.
func advance(lease *Lease) *Submitted {
	lease.Next(shows(lease.ticket.nonce))
	return lease.Report(Report{Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true}})
}

// shows is a fresh look at the mirror node, which shows that nonce.
func shows(nonce uint64) Known { return Known{Shown: nonce, Looked: true, Fresh: true, Fleet: true} }

func ms(n int) envx.Millis { return envx.Millis(time.Duration(n) * time.Millisecond) }

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func startedOn(t *testing.T, url string, cfg Config, change ...func(*Service)) *Service {
	t.Helper()
	client := must.Get(redisx.Open(url, cfg.RedisOptions()))(t)
	return startedWith(t, client, cfg, change...)
}

// startedWith runs a service on a client, and closes both.
// What is to be changed in it is changed before it runs.
func startedWith(t *testing.T, client redis.UniversalClient, cfg Config, change ...func(*Service)) *Service {
	t.Helper()
	svc := must.Get(New(cfg, Deps{Redis: client}))(t)
	for _, f := range change {
		f(svc)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = svc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := svc.CheckLanes(); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	until(t, "redis is used", func() bool { return svc.remote.up.Load() && svc.remote.pushed.Load() })
	return svc
}

func mustEnter(t *testing.T, s *Service, sender common.Address, nonce uint64) *Ticket {
	t.Helper()
	k := must.Get(s.Enter(sender, nonce))(t)
	checkLane(t, k)
	return k
}

// checkLane demands that a ticket's lane is sound. It does not look at long queues, since each step of a test asks.
func checkLane(t *testing.T, k *Ticket) {
	t.Helper()
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	if len(k.lane.queue) > 100 {
		return
	}
	if err := k.lane.check(); err != nil {
		t.Errorf("nonce %d: %v", k.nonce, err)
	}
}

func mustWait(t *testing.T, k *Ticket) *Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	l, err := k.Wait(ctx)
	if err != nil {
		t.Fatalf("nonce %d: %v", k.nonce, err)
	}
	checkLane(t, k)
	return l
}

func holds(k *Ticket) bool {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return k.lane.holder == k
}

// L12: who has found a lane that was swept meanwhile, or is its timer, does nothing with it, so that a sender never has two.
func TestTimerOfADroppedLane(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.LocalEntries = 1
	svc := must.Get(New(cfg, Deps{}))(t)
	first := mustEnter(t, svc, bob, 7)
	mustWait(t, first).Release()
	for i := range uint64(4) {
		mustWait(t, mustEnter(t, svc, strangerNo(i), 0)).Release()
	}
	holder := mustEnter(t, svc, bob, 7)
	if holder.lane == first.lane || !first.lane.gone {
		t.Fatal("the old lane is still known: the schedule was not reached")
	}
	first.lane.onTimer()
	first.Leave()
	mustWait(t, holder)
	if next := mustEnter(t, svc, bob, 8); next.lane != holder.lane || holds(next) {
		t.Error("one sender has two lanes in one process")
	}
	if busy, idle := svc.reg.sizes(); busy != 1 || idle != 1 {
		t.Errorf("%d lanes in use, %d idle", busy, idle)
	}
}

// slowly tries what a slow machine may miss, until it is fast enough for a limit that doubles. try returns whether
// it was.
func slowly(t *testing.T, limit time.Duration, try func(t *testing.T, limit time.Duration) bool) {
	t.Helper()
	for inTime := false; !inTime && !t.Failed(); limit *= 2 {
		if limit > patience {
			t.Fatalf("the machine is too slow for a limit of %v", limit)
		}
		t.Run(limit.String(), func(t *testing.T) { inTime = try(t, limit) })
	}
}

// L9: the enter script took the lock, its reply was lost, the process failed open. When Redis
// is back the turn in progress must be adopted; instead it is given away first.
func TestLostReplyIsAdopted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.RedisTimeout = ms(150)
	a, b := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), arrivalOrder())
	calls := &lostAnswer{sync: a.sync, lose: make(chan struct{})}
	a.sync = calls.state
	mustWait(t, mustEnter(t, a, bob, 4)).Release() // teaches the server the scripts
	until(t, "idle", func() bool { n, _ := a.reg.sizes(); return n == 0 })
	c := server.Client()
	key := keys(bob)[0]
	calls.armed.Store(true)
	mine := mustEnter(t, a, bob, 5)
	until(t, "the script has taken the lock", func() bool { return strings.Contains(c.Get(t.Context(), key).Val(), a.remote.process) })
	server.Pause()
	close(calls.lose)
	lease := mustWait(t, mine) // by the order of the process
	if lease.Turn().Strategy != "local" {
		t.Fatal("not failed open")
	}
	other := mustEnter(t, b, bob, 6) // behind it, in the server's buffers
	<-time.After(50 * time.Millisecond)
	server.Resume()
	until(t, "both use redis again", func() bool { return a.remote.up.Load() && b.remote.up.Load() })
	until(t, "a is done with its news", func() bool {
		mine.lane.mu.Lock()
		defer mine.lane.mu.Unlock()
		return !mine.lane.link.sending && !mine.lane.link.dirty
	})
	for range 100 {
		if holds(other) && holds(mine) {
			t.Fatalf("two turns at once with Redis well; owner %q", c.Get(t.Context(), key).Val())
		}
		<-time.After(2 * time.Millisecond)
	}
	if v, err := c.Get(t.Context(), key).Result(); errors.Is(err, redis.Nil) || !strings.Contains(v, a.remote.process) {
		t.Errorf("the turn in progress is not adopted: %q", v)
	}
	lease.Release()
}

// L21: whoever leaves while the claim for it is on its way leaves no claim behind, although others have the turn.
func TestLeaveWhileJoining(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	a, b := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	c := server.Client()
	lease := mustWait(t, mustEnter(t, a, bob, 5))
	server.Pause()
	brief := mustEnter(t, b, bob, 7)
	until(t, "the claim is on its way", func() bool { brief.lane.mu.Lock(); defer brief.lane.mu.Unlock(); return brief.lane.link.sending })
	brief.Leave()
	server.Resume()
	until(t, "b is done", func() bool { n, _ := b.reg.sizes(); return n == 0 })
	if n := c.LLen(t.Context(), keys(bob)[1]).Val(); n != 0 {
		t.Errorf("%d claims are there", n)
	}
	lease.Release()
}

// lineUp gives a the turn, at nonce 5, and lets b wait for it with nonce 6. queued tells whether
// b's place is in Redis.
func lineUp(t *testing.T, c *redis.Client, a, b *Service) (lease *Lease, other *Ticket, queued func() bool) {
	t.Helper()
	lease = mustWait(t, mustEnter(t, a, bob, 5))
	other = mustEnter(t, b, bob, 6)
	queued = func() bool { return c.LLen(t.Context(), keys(bob)[1]).Val() == 1 }
	until(t, "b waits", queued)
	return lease, other, queued
}

// L11: Redis loses its data. b notices first and queues its waiter (take = 0). a notices
// next: its reclaim of its former name runs before its adoption, and passes the free lock on.
func TestHolderOutlivesLossOfData(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	slow, fast := arrivalOrder(), arrivalOrder()
	slow.HeartbeatInterval, fast.HeartbeatInterval = ms(400), ms(100)
	// b leaves a the time to notice, on however busy a machine, and gives nothing before it is told to. Nobody has to leave b any.
	a := startedOn(t, server.URL(), slow, func(s *Service) { s.remote.takePause = 500 * time.Millisecond })
	b := startedOn(t, server.URL(), fast)
	bad := 0
	for round := range 3 {
		c := server.Client()
		lease, other, _ := lineUp(t, c, a, b)
		former := a.remote.lapsed.Load()
		c.FlushAll(t.Context())
		until(t, "a has noticed", func() bool { return a.remote.lapsed.Load() != former })
		for range 150 {
			if holds(other) || lease.Check() != nil {
				break
			}
			<-time.After(2 * time.Millisecond)
		}
		if holds(other) || lease.Check() != nil {
			bad++
			t.Logf("round %d: other has the turn: %v; the holder's check: %v", round, holds(other), lease.Check())
		}
		lease.Release()
		b.remote.pauseTaking(-b.remote.takePause) // a has had its time
		b.remote.verifyAll()
		mustWait(t, other).Release()
		until(t, "idle", func() bool { x, _ := a.reg.sizes(); y, _ := b.reg.sizes(); return x == 0 && y == 0 })
	}
	if bad > 0 {
		t.Errorf("in %d of 3 rounds a live holder's lock was given away by its own process", bad)
	}
}

// L5: only the heartbeat key of a live holder is evicted; the lock key is intact.
func TestEvictedHeartbeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// a notices long before b may take it for dead, who looks at once and again and again.
	quick, slow := arrivalOrder(), arrivalOrder()
	quick.HeartbeatInterval, slow.HeartbeatInterval = ms(100), ms(20_000)
	a, b := startedOn(t, server.URL(), quick), startedOn(t, server.URL(), slow)
	c := server.Client()
	lease, other, _ := lineUp(t, c, a, b)
	former := a.remote.lapsed.Load()
	c.Del(t.Context(), heartbeatPrefix+a.remote.process)
	signal(b.remote.look)
	until(t, "a has noticed", func() bool { return a.remote.lapsed.Load() != former })
	for range 400 {
		if holds(other) || lease.Check() != nil {
			t.Fatalf("a live holder (last heartbeat fresh) lost its turn: other holds %v, check %v", holds(other), lease.Check())
		}
		signal(b.remote.look)
		<-time.After(2 * time.Millisecond)
	}
	lease.Release()
}

// A heartbeat lapsed and was renewed by another one whose answer was lost: the next one shows it,
// since others may have taken what is owned meanwhile.
func TestLapseShowsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc := startedOn(t, server.URL(), arrivalOrder())
	key := heartbeatPrefix + svc.remote.process
	must.Get(server.Client().TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		p.Eval(t.Context(), beatLua, []string{key}, "settings", svc.remote.ttl.Milliseconds(), "nobody")
		return nil
	}))(t)
	until(t, "it knows", func() bool { return svc.remote.lapsed.Load() != 0 })
}

// After an outage a relay does not rely on what Redis says of the next nonce, and Redis gives the turn by it all the same. The turn is
// used: its holder looks the nonce up. Given back, it would be given again, and again.
func TestATurnByAnOldStateIsUsed(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.Window = ms(hour)
	svc := startedOn(t, redistest.Start(t).URL(), cfg)
	first := mustEnter(t, svc, bob, 4)
	first.Observe(4)
	lease := mustWait(t, first)
	advance(lease)
	svc.remote.staleBefore.Store(lease.Turn().Fence + 1)
	lease.Release()
	lease = mustWait(t, mustEnter(t, svc, bob, 5))
	if n := lease.Next(Known{}); !n.Recovering {
		t.Errorf("next %+v", n)
	}
	lease.Release()
}

// A claim says since when its oldest ticket waits. When that ticket leaves, the turn that it wins is given back: a younger one of the same
// process must not go ahead of another process's that came before it.
func TestATurnWonByATicketThatHasLeftIsGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder, a, b := startedOn(t, server.URL(), arrivalOrder()), startedOn(t, server.URL(), arrivalOrder()), startedOn(t, server.URL(), arrivalOrder())
	c := server.Client()
	lease, brief, _ := lineUp(t, c, holder, a)
	next := mustEnter(t, b, bob, 7)
	until(t, "b waits", func() bool { return c.LLen(t.Context(), keys(bob)[1]).Val() == 2 })
	last := mustEnter(t, a, bob, 8)
	brief.Leave()
	lease.Release()
	until(t, "somebody has the turn", func() bool { return holds(next) || holds(last) })
	if holds(last) {
		t.Fatal("the younger one has the turn")
	}
	mustWait(t, next).Release()
	mustWait(t, last).Release()
}

// A bad verdict does not shorten the memory of a lane in which somebody waits.
func TestVerdictKeepsTheMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.Window = ms(60_000)
	svc, look := startedOn(t, server.URL(), cfg), server.Client()
	first := mustEnter(t, svc, bob, 5)
	first.Observe(5)
	lease := mustWait(t, first)
	sent := advance(lease)
	defer mustEnter(t, svc, bob, 9).Leave()
	lease.Release()
	memory := keys(bob)[2]
	until(t, "the lane is free", func() bool { return look.Exists(t.Context(), memory).Val() == 1 })
	sent.Conclude(t.Context(), Verdict{Reached: true})
	if left := look.PTTL(t.Context(), memory).Val(); left <= cfg.Memory.Duration() {
		t.Errorf("it is remembered for %v more", left)
	}
}

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

// Where the access list of the server forbids to publish, turns are found by looking.
func TestPublishingIsForbidden(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must.Do(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-publish").Err())
	start := func() *Service {
		cfg := arrivalOrder()
		client := must.Get(redisx.Open("redis://mute:secret@"+server.Addr(), cfg.RedisOptions()))(t)
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
