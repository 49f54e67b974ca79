package lock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
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

// expected is what the lane itself knows of the next nonce.
func expected(lease *Lease) (nonce uint64, known bool) {
	n := lease.Next(Known{})
	return n.Nonce, n.Certainty != Unknown
}

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
	client, err := redisx.Open(url, redisx.Options{Timeout: cfg.RedisTimeout.Duration()})
	if err != nil {
		t.Fatal(err)
	}
	return startedWith(t, client, cfg, change...)
}

// startedWith runs a service on a client, and closes both.
// What is to be changed in it is changed before it runs.
func startedWith(t *testing.T, client redis.UniversalClient, cfg Config, change ...func(*Service)) *Service {
	t.Helper()
	svc, err := New(cfg, Deps{Redis: client})
	if err != nil {
		t.Fatal(err)
	}
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
	k, err := s.Enter(sender, nonce)
	if err != nil {
		t.Fatal(err)
	}
	checkLane(t, k)
	return k
}

// checkLane demands that a ticket's lane is sound. It does not look at long queues, since each step of a test asks.
func checkLane(t *testing.T, k *Ticket) {
	t.Helper()
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	if k.lane.length > 100 {
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
	return k.state == granted
}

// L12: who has found a lane that was swept meanwhile, or is its timer, does nothing with it, so that a sender never has two.
func TestTimerOfADroppedLane(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.LocalEntries = 1
	svc, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
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
	calls := &lostJoin{transport: a.calls, lose: make(chan struct{})}
	a.calls = calls
	mustWait(t, mustEnter(t, a, bob, 4)).Release() // teaches the server the scripts
	until(t, "idle", func() bool { n, _ := a.reg.sizes(); return n == 0 })
	c := server.Client()
	key := keys(bob)[0]
	calls.armed.Store(true)
	mine := mustEnter(t, a, bob, 5)
	until(t, "the script has taken the lock", func() bool { return strings.Contains(c.Get(t.Context(), key).Val(), "|5|") })
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
		return !mine.lane.link.sending && !mine.lane.link.want.has(jobAdopt) && len(mine.lane.link.handbacks) == 0
	})
	for range 100 {
		if holds(other) && holds(mine) {
			t.Fatalf("two turns at once with Redis well; owner %q", c.Get(t.Context(), key).Val())
		}
		<-time.After(2 * time.Millisecond)
	}
	if v, err := c.Get(t.Context(), key).Result(); errors.Is(err, redis.Nil) || !strings.Contains(v, mine.session) {
		t.Errorf("the turn in progress is not adopted: %q", v)
	}
	lease.Release()
}

// L21: whoever leaves while its place is being taken leaves no place behind, although others have the turn.
func TestLeaveWhileJoining(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	a, b := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	c := server.Client()
	lease, other, _ := lineUp(t, c, a, b)
	server.Pause()
	brief := mustEnter(t, b, bob, 7)
	l := brief.lane
	locked := func(f func() bool) func() bool {
		return func() bool { l.mu.Lock(); defer l.mu.Unlock(); return f() }
	}
	until(t, "the place is on its way", locked(func() bool { return brief.place == placeJoining }))
	brief.Leave()
	server.Resume()
	until(t, "b is done with its news", locked(func() bool {
		return !l.link.sending && len(l.link.joining)+len(l.link.handbacks)+len(l.link.releasing) == 0
	}))
	if n := c.ZCard(t.Context(), keys(bob)[3]).Val(); n != 1 {
		t.Errorf("%d places are taken, want that of the one who waits", n)
	}
	lease.Release()
	mustWait(t, other).Release()
}

// lineUp gives a the turn, at nonce 5, and lets b wait for it with nonce 6. queued tells whether
// b's place is in Redis.
func lineUp(t *testing.T, c *redis.Client, a, b *Service) (lease *Lease, other *Ticket, queued func() bool) {
	t.Helper()
	lease = mustWait(t, mustEnter(t, a, bob, 5))
	other = mustEnter(t, b, bob, 6)
	queued = func() bool { return c.ZCard(t.Context(), keys(bob)[3]).Val() == 1 }
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
	// b leaves a the time to notice, on however busy a machine. Nobody has to leave b any.
	a := startedOn(t, server.URL(), slow, func(s *Service) { s.remote.takePause = 500 * time.Millisecond })
	b := startedOn(t, server.URL(), fast)
	bad := 0
	for round := range 3 {
		c := server.Client()
		lease, other, _ := lineUp(t, c, a, b)
		former := a.remote.instance()
		c.FlushAll(t.Context())
		until(t, "a has noticed", func() bool { return a.remote.instance() != former })
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
		mustWait(t, other).Release()
		until(t, "idle", func() bool { x, _ := a.reg.sizes(); y, _ := b.reg.sizes(); return x == 0 && y == 0 })
	}
	if bad > 0 {
		t.Errorf("in %d of 3 rounds a live holder's lock was given away by its own process", bad)
	}
}

// L11: Redis loses its data, and who waits finds its place gone before any heartbeat shows why. It does
// not take the turn, which somebody may hold.
func TestLossIsSeenByALook(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = ms(hour) // nothing is looked at but by this test
	a, b := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	c := server.Client()
	lease, other, _ := lineUp(t, c, a, b)
	former := b.remote.instance()
	c.FlushAll(t.Context())
	b.remote.watch(t.Context(), 0)
	// The look itself puts the place back, and then the loss is understood: the place becomes one of the new instance. A grant
	// between the two is one to the former instance, which is found at the next look.
	until(t, "b waits again, as a new instance", func() bool {
		places := c.ZRange(t.Context(), keys(bob)[3], 0, -1).Val()
		return b.remote.instance() != former && len(places) == 1 && strings.HasSuffix(places[0], "|"+b.remote.instance())
	})
	if holds(other) || lease.Check() != nil {
		t.Fatalf("other has the turn: %v; the holder's check: %v", holds(other), lease.Check())
	}
	a.remote.wake()
	until(t, "the turn is adopted", func() bool { return c.Exists(t.Context(), keys(bob)[0]).Val() == 1 })
	lease.Release()
	mustWait(t, other).Release()
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
	former := a.remote.instance()
	c.Del(t.Context(), heartbeatPrefix+former)
	signal(b.remote.look)
	until(t, "a has noticed", func() bool { return a.remote.instance() != former })
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
	former := svc.remote.instance()
	key := heartbeatPrefix + former
	_, err := server.Client().TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), key)
		p.Eval(t.Context(), heartbeatLua, []string{key}, "settings", svc.remote.ttl.Milliseconds(), "nobody", 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it goes on under another name", func() bool { return svc.remote.instance() != former })
}

// Clients that went away leave nothing in Redis, however long the turn before them takes.
func TestLeftPlacesAreCleared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc, look := startedOn(t, server.URL(), arrivalOrder()), server.Client()
	lease := mustWait(t, mustEnter(t, svc, bob, 0))
	var left []*Ticket
	for nonce := range uint64(3) {
		left = append(left, mustEnter(t, svc, bob, nonce+1))
	}
	queue, waiting := keys(bob)[1], keys(bob)[3]
	until(t, "their places are taken", func() bool { return look.ZCard(t.Context(), waiting).Val() == 3 })
	for _, ticket := range left {
		ticket.Leave()
	}
	until(t, "the queue is gone", func() bool { return look.Exists(t.Context(), queue, waiting).Val() == 0 })
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
	lease.Release()
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

// L11: Redis has lost its data and given the next turn to what this process was before it
// had to take another name. The holder, who is of this process too, keeps its turn.
func TestFormerNameIsNotAnother(t *testing.T) {
	t.Parallel()
	svc := startedOn(t, redistest.Start(t).URL(), arrivalOrder())
	lease := mustWait(t, mustEnter(t, svc, bob, 5))
	l := lease.ticket.lane
	heard := func(instance string) {
		l.mu.Lock()
		defer l.unlock()
		now := svc.now()
		l.applyView(view{owner: lockValue{session: "s", instance: instance, fence: lease.Turn().Fence + 1}, left: -1, wait: -1}, now, now)
		l.dispatch(now)
	}
	heard(svc.remote.process + ".0")
	if err := lease.Check(); err != nil {
		t.Errorf("heard of a former name: %v", err)
	}
	heard("another.1")
	if lease.Check() == nil {
		t.Error("heard of another process and kept the turn")
	}
}

// A turn that ends while Redis is being told that it may have lost it must not come back: its
// release would be carried out first, and the turn be adopted after its end.
func TestReleaseIsNotUndone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	look, client := server.Client(), server.Client()
	hold := &holdAdoption{adopting: make(chan struct{}), open: make(chan struct{}), released: make(chan struct{})}
	client.AddHook(hold)
	cfg := arrivalOrder()
	cfg.MaxHold = ms(hour) // what is left does not expire
	svc := startedWith(t, client, cfg)
	lease := mustWait(t, mustEnter(t, svc, bob, 5))
	hold.enter.Store(svc.remote.scripts.enter.Hash())
	hold.release.Store(svc.remote.scripts.release.Hash())
	l := lease.ticket.lane
	l.mu.Lock()
	l.link.want |= jobAdopt
	l.dispatch(svc.now())
	l.mu.Unlock()
	<-hold.adopting
	lease.Release()
	select {
	case <-hold.released: // it did not wait
	case <-time.After(100 * time.Millisecond):
	}
	close(hold.open)
	until(t, "nobody has the lock", func() bool {
		busy, _ := svc.reg.sizes()
		return busy == 0 && look.Exists(t.Context(), keys(bob)[0]).Val() == 0
	})
}

// holdAdoption keeps the first script that adopts a turn until open is closed.
type holdAdoption struct {
	enter, release atomic.Value // hashes of the scripts
	adopting, open chan struct{}
	released       chan struct{}
	first, last    sync.Once
}

func (h *holdAdoption) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *holdAdoption) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *holdAdoption) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		const adopted = 2 + 1 + 4 + 8 // after the name, the hash and the number of keys: the keys, and the ninth argument
		args := cmd.Args()
		switch {
		case len(args) < 3:
		case args[1] == h.enter.Load() && args[adopted] != "":
			h.first.Do(func() { close(h.adopting) })
			<-h.open
			ctx = context.WithoutCancel(ctx) // its deadline may be over
		case args[1] == h.release.Load():
			defer h.last.Do(func() { close(h.released) })
		}
		return next(ctx, cmd)
	}
}
