package lock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// beatWire is a way to Redis on which the answers to heartbeats, and only they, can be held back.
type beatWire struct {
	mu   sync.Mutex // guards all below
	hold chan struct{}
	conn net.Conn // the last one that a heartbeat used
}

type beatWireConn struct {
	net.Conn
	wire     *beatWire
	beat     bool
	deadline time.Time
}

// client is one as a relay has it, over the wire.
func (w *beatWire) client(t *testing.T, addr string, cfg Config) *redis.Client {
	t.Helper()
	made, single := must.Get(redisx.Open("redis://"+addr, cfg.RedisOptions()))(t).(*redis.Client)
	if !single {
		t.Fatal("not a client of one server")
	}
	options := *made.Options()
	options.MaxRetries = -1 // 0 by now, which would be the default again
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return &beatWireConn{Conn: c, wire: w}, err
	}
	return redis.NewClient(&options)
}

func (c *beatWireConn) Write(b []byte) (int, error) {
	if c.beat = bytes.Contains(b, []byte("evalsha")) && bytes.Contains(b, []byte(heartbeatPrefix)); c.beat {
		c.wire.mu.Lock()
		c.wire.conn = c.Conn
		c.wire.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *beatWireConn) Read(b []byte) (int, error) {
	c.wire.mu.Lock()
	hold := c.wire.hold
	c.wire.mu.Unlock()
	if c.beat && hold != nil {
		late := make(<-chan time.Time) // never
		if !c.deadline.IsZero() {
			late = time.After(time.Until(c.deadline))
		}
		select {
		case <-hold:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
	return c.Conn.Read(b)
}

// SetReadDeadline is kept by answers that are held back, too.
func (c *beatWireConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (w *beatWire) holdBack(t *testing.T) (passedBy func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hold := make(chan struct{})
	w.hold = hold
	passedBy = sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hold = nil
		close(hold)
	})
	t.Cleanup(passedBy)
	return passedBy
}

func beatService(t *testing.T, timeout time.Duration, change ...func(*Service)) (*Service, *beatWire) {
	t.Helper()
	cfg := arrivalOrder()
	cfg.HeartbeatInterval, cfg.HeartbeatMissed, cfg.RedisTimeout = ms(100), 1000, envx.Millis(timeout)
	wire := &beatWire{}
	return startedWith(t, wire.client(t, redistest.Start(t).Addr(), cfg), cfg, change...), wire
}

// A heartbeat that is late is waited for as long as Redis answers anything else.
func TestLateHeartbeat(t *testing.T) {
	t.Parallel()
	slowly(t, time.Second, testLateHeartbeat)
}

// testLateHeartbeat returns whether Redis did answer something else all the time, for much longer than a heartbeat
// without an answer is waited for, and for less than any is waited for.
func testLateHeartbeat(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	svc, wire := beatService(t, timeout, func(s *Service) { s.remote.beatLimit = 5 * timeout })
	r := svc.remote
	epoch, passedBy := r.epoch.Load(), wire.holdBack(t)
	longest, start := time.Duration(0), svc.now()
	for last := start; svc.now()-start < timeout*5/2; {
		mustWait(t, mustEnter(t, svc, bob, 1)).Release()
		now := svc.now()
		longest, last = max(longest, now-last), now
	}
	up := r.epoch.Load() == epoch
	late := svc.now() - time.Duration(r.ackedAt.Load())
	if longest > timeout/3 || svc.now()-start > 4*timeout {
		passedBy()
		return false
	}
	if !up || late < timeout {
		t.Errorf("Redis was given up, or no heartbeat was late: up %t, %v late", up, late)
	}
	passedBy()
	answered := svc.now()
	until(t, "heartbeats are answered again", func() bool { return time.Duration(r.ackedAt.Load()) > answered })
	return true
}

// A heartbeat that is late while nothing else is answered, either, is the end of the order in Redis.
func TestSilentHeartbeat(t *testing.T) {
	t.Parallel()
	svc, wire := beatService(t, time.Second)
	wire.holdBack(t)
	until(t, "Redis is given up", func() bool { return !svc.remote.up.Load() })
}

// A heartbeat whose connection is cut goes over another.
func TestCutHeartbeat(t *testing.T) {
	t.Parallel()
	svc, wire := beatService(t, 15*time.Second)
	r := svc.remote
	epoch := r.epoch.Load()
	wire.mu.Lock()
	cut := wire.conn
	wire.mu.Unlock()
	_ = cut.Close()
	until(t, "another is used", func() bool {
		wire.mu.Lock()
		defer wire.mu.Unlock()
		return wire.conn != cut
	})
	since := svc.now()
	until(t, "heartbeats are answered", func() bool { return time.Duration(r.ackedAt.Load()) > since })
	if r.epoch.Load() != epoch {
		t.Error("Redis was given up for one connection")
	}
}

// A turn whose owner stood still is in doubt until a heartbeat shows whether others may have it.
func TestCheckAfterAStandstill(t *testing.T) {
	t.Parallel()
	for name, lapsed := range map[string]bool{"still alive": false, "taken for dead": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := arrivalOrder()
			cfg.HeartbeatInterval = ms(hour) // but for the one that is asked for
			svc := startedWith(t, redistest.Start(t).Client(), cfg)
			r := svc.remote
			lease := mustWait(t, mustEnter(t, svc, bob, 1))
			defer lease.Release()
			if lapsed {
				must.Do(t, r.client.Del(t.Context(), heartbeatPrefix+svc.Instance()).Err())
			}
			r.ackedAt.Store(int64(svc.now() - r.ttl)) // as if it had just woken up
			if err := lease.Check(); errors.Is(err, ErrLost) != lapsed || err != nil != lapsed {
				t.Errorf("checked: %v", err)
			}
		})
	}
}

// Whoever waits for a heartbeat that tells whether a turn is lost does so no longer than the turn's context lives.
func TestCheckInDoubtEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = ms(hour)
	wire := &beatWire{}
	svc := startedWith(t, wire.client(t, redistest.Start(t).Addr(), cfg), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	lease := must.Get(mustEnter(t, svc, bob, 1).Wait(ctx))(t)
	defer lease.Release()
	passedBy := wire.holdBack(t)
	defer passedBy()
	next := func() <-chan struct{} {
		svc.remote.mu.Lock()
		defer svc.remote.mu.Unlock()
		return svc.remote.beaten
	}
	begun := next()
	svc.remote.ackedAt.Store(int64(svc.now() - svc.remote.ttl))
	checked := make(chan error, 1)
	go func() { checked <- lease.Check() }()
	until(t, "a heartbeat is under way", func() bool { return next() != begun })
	cancel()
	select {
	case err := <-checked:
		if !errors.Is(err, ErrLost) {
			t.Errorf("checked: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for a heartbeat although its context has ended")
	}
}

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

func strangerNo(n uint64) common.Address {
	var a common.Address
	binary.BigEndian.PutUint64(a[12:], n+1)
	return a
}

// L10: the owner is dead. New tickets of the sender keep arriving; each reply counts as news of the
// lane, so that nobody ever looks whether the owner lives.
func TestDeadOwnerUnderTraffic(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.HeartbeatInterval, cfg.MaxQueue = ms(1000), 0 // a slow machine is not too late to judge others
	a := startedOn(t, server.URL(), cfg)
	c := server.Client()
	c.Set(t.Context(), keys(bob)[0], "s|dead.1|4|1||||||", time.Hour)
	first := mustEnter(t, a, bob, 5)
	start := time.Now()
	for i := 0; !holds(first); i++ {
		if time.Since(start) > patience {
			t.Fatalf("a dead owner still blocks after %v; its TTL is %v", time.Since(start).Round(time.Second), c.PTTL(t.Context(), keys(bob)[0]).Val())
		}
		k := mustEnter(t, a, bob, uint64(6+i))
		defer k.Leave()
		<-time.After(100 * time.Millisecond)
	}
	t.Logf("reclaimed after %v", time.Since(start))
}

// a burst of distinct senders over a network with latency: the pool, not Redis, is what is slow.
func TestBurstOfSenders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()), "redis", "127.0.0.1:0", server.Addr())
	must.Do(t, p.Start())
	t.Cleanup(p.Stop)
	must.Get(p.Toxics.AddToxicJson(strings.NewReader(`{"type":"latency","attributes":{"latency":5}}`)))(t)
	// A third of what the burst takes, and more than a machine needs that is not too slow.
	slowly(t, 1500*time.Millisecond, func(t *testing.T, timeout time.Duration) bool {
		return testBurst(t, "redis://"+p.Listen, timeout)
	})
}

// testBurst returns whether single calls were answered in time, beside the burst.
func testBurst(t *testing.T, url string, timeout time.Duration) bool {
	t.Helper()
	cfg := arrivalOrder()
	cfg.RedisTimeout = envx.Millis(timeout)
	a := startedOn(t, url, cfg)
	slowest := slowestCall(t, url)
	const n = 8000 / slowdown
	var wg sync.WaitGroup
	var mu sync.Mutex
	by := map[string]int{}
	for i := range uint64(n) {
		k := mustEnter(t, a, strangerNo(i), 0)
		wg.Go(func() {
			l := mustWait(t, k)
			mu.Lock()
			by[l.Turn().Strategy]++
			mu.Unlock()
			l.Release()
		})
	}
	wg.Wait()
	slow := slowest()
	t.Logf("Redis is well, 5 ms away, and answered within %v; turns by strategy: %v, epochs %d", slow, by, a.remote.epoch.Load())
	if by["local"] > 0 && slow > timeout/4 {
		return false
	}
	if by["local"] > 0 {
		t.Errorf("%d of %d turns failed open although Redis answers", by["local"], n)
	}
	return true
}

// slowestCall calls the server all the time, over a connection of its own, until it is asked how long the slowest call took.
func slowestCall(t *testing.T, url string) func() time.Duration {
	t.Helper()
	client := must.Get(redisx.Open(url, redisx.Options{Timeout: patience}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	result := make(chan time.Duration, 1)
	go func() {
		defer func() { _ = client.Close() }()
		slowest := time.Duration(0)
		for last := time.Now(); ctx.Err() == nil; {
			_ = client.Ping(context.WithoutCancel(ctx)).Err() // an error is a slow call, too
			now := time.Now()
			slowest, last = max(slowest, now.Sub(last)), now
			<-time.After(5 * time.Millisecond)
		}
		result <- slowest
	}()
	return func() time.Duration { cancel(); return <-result }
}

// one shard of a cluster is out. Senders of the other shards must not be affected.
func TestOneShardOut(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		must.Do(t, n.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	cfg := arrivalOrder()
	cfg.RedisTimeout = ms(15_000) // a node that is out refuses connections at once
	a := startedOn(t, cluster.URL(), cfg)
	third := func(key string) int64 {
		n, _ := cluster.Nodes[0].Client().ClusterKeySlot(t.Context(), key).Result()
		return n / 5462
	}
	beat := third(heartbeatPrefix + a.remote.process)
	kill := (beat + 1) % 3
	if kill == 0 {
		kill = (beat + 2) % 3
	}
	var well, ill common.Address
	for i := uint64(0); ; i++ {
		s := strangerNo(i)
		switch third(keys(s)[0]) {
		case kill:
			ill = s
		case beat:
			well = s
		}
		if well != (common.Address{}) && ill != (common.Address{}) {
			break
		}
	}
	b := startedOn(t, cluster.URL(), cfg) // its only sender is well
	for third(heartbeatPrefix+b.remote.process) == kill {
		b = startedOn(t, cluster.URL(), cfg) // and so is the shard of its heartbeat
	}
	holder := mustWait(t, mustEnter(t, b, well, 0))
	waiter := mustEnter(t, a, well, 1)
	until(t, "a waits", func() bool {
		waiter.lane.mu.Lock()
		defer waiter.lane.mu.Unlock()
		return waiter.lane.link.stated.session != ""
	})
	cluster.Nodes[kill].Kill()
	from := a.remote.epoch.Load()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		mustWait(t, mustEnter(t, a, ill, 0)).Release()
		if holds(waiter) && holder.Check() == nil {
			t.Error("a sender of a healthy shard has two turns at once")
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Logf("changes of mode: %d", a.remote.epoch.Load()-from)
}

// L12: throw-away senders. Idle lanes are bounded by LocalEntries; what is kept per sender besides?
func TestFloodKeepsNoMemory(t *testing.T) {
	cfg := arrivalOrder()
	cfg.LocalEntries = 10
	svc := must.Get(New(cfg, Deps{}))(t)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 20000
	per := math.Inf(1)
	for try := range uint64(5) { // what else goes on in the process may take memory meanwhile
		before := heap()
		for i := range uint64(n) {
			k := must.Get(svc.Enter(strangerNo(try*n+i), 0))(t)
			l := must.Get(k.Wait(context.Background()))(t)
			l.Release()
		}
		if per = min(per, float64(int64(heap())-int64(before))/n); per <= 50 {
			break
		}
	}
	t.Logf("%.0f bytes per gone sender", per)
	if per > 50 {
		t.Errorf("%.0f bytes stay for each of %d senders that are gone (until MaxHold after their turn)", per, n)
	}
	runtime.KeepAlive(svc)
}

// force release of a holder in another process whose Pub/Sub is down must stick.
func TestForceReleaseSticks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	a, b := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	lease := mustWait(t, mustEnter(t, a, bob, 5))
	c := server.Client()
	// a's subscription is cut and comes back 100 ms later: the "lost" message falls into the gap.
	must.Do(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	released, err := b.ForceRelease(t.Context(), bob)
	t.Logf("released %v %v", released, err)
	// Else the lock is its former holder's again.
	until(t, "the holder learns that its turn was taken", func() bool { return lease.Check() != nil })
	t.Logf("owner %q, holder's check: %v", c.Get(t.Context(), keys(bob)[0]).Val(), lease.Check())
	lease.Release()
}
