package lock_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

// calm has no heartbeat during a test that counts commands.
func calm() lock.Config {
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = envx.Millis(time.Hour)
	cfg.MaxQueue = 0
	return cfg
}

var statLine = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// commands returns how many commands the server has executed since the statistics were
// reset, in all and those that are scripts, but for those of the test itself.
func commands(t testing.TB, c *redis.Client) (all, scripts int) {
	t.Helper()
	info := must.Get(c.Info(context.Background(), "commandstats").Result())(t)
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		if m[1] == "info" || m[1] == "lindex" || strings.HasPrefix(m[1], "config") {
			continue
		}
		n := must.Get(strconv.Atoi(m[2]))(t)
		all += n
		if strings.HasPrefix(m[1], "eval") {
			scripts += n
		}
	}
	return all, scripts
}

func resetStats(t testing.TB, c *redis.Client) {
	t.Helper()
	must.Do(t, c.ConfigResetStat(context.Background()).Err())
}

// drain takes the turns of all tickets, one after the other.
func drain(t testing.TB, tickets []*lock.Ticket, each func(*lock.Lease, uint64)) {
	t.Helper()
	for _, ticket := range tickets {
		lease := wait(t, ticket)
		if each != nil {
			each(lease, ticket.Nonce())
		}
		lease.Release()
	}
}

// drained waits until the server has seen the last release.
func drained(t testing.TB, svcs ...*lock.Service) {
	t.Helper()
	eventually(t, "all lanes are idle", func() bool {
		for _, svc := range svcs {
			if busy, _ := svc.Sizes(); busy > 0 {
				return false
			}
		}
		return true
	})
}

func TestUncontendedIsTwoRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	svc, _ := onRedis(t, server.URL(), calm(), lock.Deps{})
	wait(t, enter(t, svc, 0)).Release() // loads the scripts
	drained(t, svc)
	c := server.Client()
	resetStats(t, c)
	const n = 50
	for i := range n {
		lease := wait(t, enter(t, svc, uint64(i)))
		advance(lease, uint64(i))
		lease.Release()
		drained(t, svc)
	}
	all, scripts := commands(t, c)
	if scripts != 2*n {
		t.Errorf("%d scripts for %d transactions, want exactly 2 each", scripts, n)
	}
	if all > 16*n {
		t.Errorf("%d commands for %d transactions, want at most 16 each", all, n)
	}
	t.Logf("%.1f commands per transaction, of which %.1f sent by the client", float64(all)/n, float64(scripts)/n)
}

// While others of its sender wait in the same process, a transaction is one call: the end of a turn is the claim for the next.
func TestBurstIsOneRoundTripEach(t *testing.T) {
	server := redistest.Start(t)
	for _, window := range []time.Duration{0, time.Hour} {
		cfg := calm()
		cfg.Window = envx.Millis(window)
		svc, stop := onRedis(t, server.URL(), cfg, lock.Deps{})
		burst := func(from, n uint64) {
			var tickets []*lock.Ticket
			for i := range n {
				tickets = append(tickets, enter(t, svc, from+i))
			}
			tickets[0].Observe(from)
			drain(t, tickets, func(l *lock.Lease, nonce uint64) { advance(l, nonce) })
			drained(t, svc)
		}
		burst(0, 3) // loads the scripts
		c := server.Client()
		resetStats(t, c)
		const n = 100
		burst(10, n)
		all, scripts := commands(t, c)
		t.Logf("window %v: %.2f commands per transaction, of which %.2f sent by the client", window, float64(all)/n, float64(scripts)/n)
		if scripts > n+3 || all > 6*(n+3) {
			t.Errorf("%d commands, %d of them scripts, for %d transactions", all, scripts, n)
		}
		stop()
	}
}

// With a window, the first transaction of a sender of whom nothing is known is two round trips, too: its place is
// sent with what the mirror node shows.
func TestFirstOfASenderIsTwoRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	cfg := calm()
	cfg.Window = envx.Millis(time.Hour)
	svc, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	c := server.Client()
	first := func(sender common.Address) (inTime bool) {
		begun := time.Now()
		ticket := must.Get(svc.Enter(sender, 7))(t)
		<-time.After(10 * time.Millisecond) // the look-up
		ticket.Observe(7)
		took := time.Since(begun)
		lease := wait(t, ticket)
		advance(lease, 7)
		lease.Release()
		drained(t, svc)
		// A starved process may miss the moment: then the place goes first, and what is known follows.
		return took < 50*time.Millisecond
	}
	first(common.Address{1}) // loads the scripts
	const n = 20
	all, scripts := 0, 0
	for i, counted := uint64(0), 0; counted < n; i++ {
		resetStats(t, c)
		if !first(stranger(i)) {
			if i > 10_000 {
				t.Fatal("the machine is too slow")
			}
			continue
		}
		a, s := commands(t, c)
		all, scripts, counted = all+a, scripts+s, counted+1
	}
	t.Logf("%.1f commands per transaction, of which %.1f sent by the client", float64(all)/n, float64(scripts)/n)
	if scripts != 2*n || all > 15*n {
		t.Errorf("%d scripts and %d commands for %d transactions", scripts, all, n)
	}
}

// L14: the work for a transaction is the same whether 1 or 1,000 wait. Each ticket is from
// the other process than the one before and joins alone, which is the dearest case.
func TestCommandsDoNotGrowWithTheQueue(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	for _, gap := range []time.Duration{0, time.Hour} {
		cfg := calm()
		cfg.Window = envx.Millis(gap)
		one, stopOne := onRedis(t, server.URL(), cfg, lock.Deps{})
		two, stopTwo := onRedis(t, server.URL(), cfg, lock.Deps{})
		for _, n := range []int{1, 10, 100, 1000} {
			t.Run(fmt.Sprintf("gap=%v/waiting=%d", gap, n), func(t *testing.T) {
				for _, svc := range []*lock.Service{one, two} { // loads the scripts
					ticket := enter(t, svc, 0)
					ticket.Observe(1)
					wait(t, ticket).Release()
					drained(t, svc)
				}
				first := enter(t, one, 0)
				first.Observe(1)
				holder := wait(t, first)
				advance(holder, 0)
				resetStats(t, c)
				var tickets []*lock.Ticket
				for i := range n {
					svc := []*lock.Service{two, one}[i%2]
					tickets = append(tickets, enter(t, svc, uint64(i+1)))
					eventually(t, "the place is taken", func() bool {
						return queued(t.Context(), c, alice, one, two) == i+1
					})
				}
				holder.Release()
				drain(t, tickets, func(l *lock.Lease, nonce uint64) {
					advance(l, nonce)
				})
				drained(t, one, two)
				all, scripts := commands(t, c)
				// The first release is counted besides those of the n that waited.
				turns := float64(n)
				t.Logf("%.2f commands per transaction, of which %.2f sent by the client", float64(all)/turns, float64(scripts)/turns)
				if limit := 10*(n+n/3) + 30; all > limit { // see below
					t.Errorf("%d commands for %d transactions", all, n)
				}
				// Two claims, the release, and each one's end: a message brings the turn, unless it comes while its process is asking, as more do where
				// processors are short. Without messages that bring turns there would be two for each.
				if scripts > n+n/3+3 {
					t.Errorf("%d scripts for %d transactions and one release", scripts, n)
				}
			})
		}
		stopOne()
		stopTwo()
	}
}

// L14 again: when all windows have ended while somebody had the turn, nobody looks, neither beside the release of a turn
// nor while the other process has it.
func TestCommandsAfterTheWindows(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	cfg := calm()
	cfg.Window = envx.Millis(time.Millisecond)
	one, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	two, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	before := enter(t, one, 0) // loads the scripts
	before.Observe(0)
	wait(t, before).Release()
	drained(t, one)
	holder := wait(t, enter(t, one, 0))
	advance(holder, 0)
	const n = 50
	var tickets []*lock.Ticket
	for i := range n {
		tickets = append(tickets, enter(t, []*lock.Service{two, one}[i%2], uint64(i+1)))
		eventually(t, "the place is taken", func() bool { return queued(t.Context(), c, alice, one, two) == i+1 })
	}
	<-time.After(100 * time.Millisecond) // the windows end, by the clock of Redis too
	resetStats(t, c)
	holder.Release()
	drain(t, tickets, func(l *lock.Lease, nonce uint64) { advance(l, nonce) })
	drained(t, one, two)
	if _, scripts := commands(t, c); scripts > n+n/3+1 { // as in TestCommandsDoNotGrowWithTheQueue
		t.Errorf("%d scripts for %d turns that change the process, and one release", scripts, n)
	}
}

// Off means off: not a command.
func TestOffCostsNothing(t *testing.T) {
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.Enabled = false
	cfg.HeartbeatInterval = envx.Millis(10 * time.Millisecond)
	cfg.RedisTimeout = envx.Millis(9 * time.Second)
	c := server.Client()
	resetStats(t, c)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	svc := must.Get(lock.New(cfg, lock.Deps{Redis: client}))(t)
	if n := testing.AllocsPerRun(100, func() {
		if svc.Enabled(alice) {
			t.Error("on")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	stop := running(t, svc)
	defer stop()
	<-time.After(100 * time.Millisecond) // ten heartbeats
	if all, _ := commands(t, c); all > 0 {
		t.Errorf("%d commands although ordering is off", all)
	}
	// Switched on at run time it is there, without a restart; and off again.
	svc.SetEnabled(true)
	eventually(t, "Redis is used", svc.RedisUp)
	wait(t, enter(t, svc, 1)).Release()
	svc.SetEnabled(false)
	eventually(t, "Redis is left alone", func() bool { return !svc.RedisUp() })
}

// The dearest order of arrival costs no more than any other: the lane is idle, and each transaction
// finds its successor waiting for it, who came through another process.
func TestCommandsOfThoseThatComeTooEarly(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	cfg := calm()
	cfg.Window = envx.Millis(time.Hour)
	one, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	two, _ := onRedis(t, server.URL(), cfg, lock.Deps{})
	pair := func(nonce uint64) {
		early := enter(t, two, nonce+1)
		eventually(t, "the place is taken", func() bool { return queued(t.Context(), c, alice, one, two) == 1 })
		late := enter(t, one, nonce)
		late.Observe(nonce) // news on the first one only
		drain(t, []*lock.Ticket{late, early}, func(l *lock.Lease, nonce uint64) {
			advance(l, nonce)
		})
		drained(t, one, two)
	}
	pair(1) // loads the scripts
	resetStats(t, c)
	const pairs = 20
	for i := range uint64(pairs) {
		pair(3 + 2*i)
	}
	all, scripts := commands(t, c)
	t.Logf("%.2f commands per transaction, of which %.2f sent by the client", float64(all)/(2*pairs), float64(scripts)/(2*pairs))
	// Two claims and two ends. A message that comes before the answer to its process's own question costs one more.
	const more = pairs / 4
	if all > 13*2*pairs+13*more || scripts > 4*pairs+more {
		t.Errorf("%d commands for %d transactions, %d of them scripts", all, 2*pairs, scripts)
	}
}

func BenchmarkLocalUncontended(b *testing.B) {
	svc := newLocal(b, nil)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		ticket := must.Get(svc.Enter(alice, 1))(b)
		lease := must.Get(ticket.Wait(ctx))(b)
		lease.Release()
	}
}

// BenchmarkLocalWithContext is what a submission does: it asks for the turn's context too.
func BenchmarkLocalWithContext(b *testing.B) {
	svc := newLocal(b, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		ticket := must.Get(svc.Enter(alice, 1))(b)
		lease := must.Get(ticket.Wait(ctx))(b)
		_ = lease.Context()
		must.Do(b, lease.Check())
		lease.Report(lock.Report{Submission: lock.Submission{Node: "0.0.3"}})
		lease.Release()
	}
}

// quantiles reports the middle and the tail of what was measured.
func quantiles(b *testing.B, name string, d []time.Duration) {
	b.Helper()
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Nanoseconds())/1e3, name+"-p50-µs")
	b.ReportMetric(float64(d[len(d)*99/100].Nanoseconds())/1e3, name+"-p99-µs")
}

// handOff measures from Release to the next one's Wait having returned. The tickets are from
// the given services in turn.
func handOff(b *testing.B, svcs []*lock.Service, queued func(int), between func()) {
	b.Helper()
	ctx := context.Background()
	var took []time.Duration
	type got struct {
		lease *lock.Lease
		at    time.Time
		err   error
	}
	holder := wait(b, enter(b, svcs[0], 0))
	i := 0
	for b.Loop() {
		i++
		ticket := enter(b, svcs[i%len(svcs)], uint64(i))
		waiting, turn := make(chan struct{}), make(chan got)
		go func() {
			close(waiting)
			lease, err := ticket.Wait(ctx)
			turn <- got{lease, time.Now(), err}
		}()
		<-waiting
		queued(1)
		start := time.Now()
		holder.Release()
		g := <-turn
		if g.err != nil {
			b.Fatal(g.err)
		}
		took = append(took, g.at.Sub(start))
		holder = g.lease
		between()
	}
	holder.Release()
	quantiles(b, "handoff", took)
}

func BenchmarkLocalHandOff(b *testing.B) {
	// The one that waits needs a moment to have gone to sleep.
	handOff(b, []*lock.Service{newLocal(b, nil)}, func(int) { <-time.After(20 * time.Microsecond) }, func() {})
}

// pinger measures round trips to the server with the same client library and deadlines,
// one at a time between other work, as the calls of the lock are.
type pinger struct {
	client *redis.Client
	took   []time.Duration
}

func newPinger(server *redistest.Server) *pinger {
	p := &pinger{client: server.Client()}
	p.client.Options().ContextTimeoutEnabled = true
	return p
}

func (p *pinger) ping(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	start := time.Now()
	must.Do(b, p.client.Ping(ctx).Err())
	p.took = append(p.took, time.Since(start))
}

func BenchmarkRedisUncontended(b *testing.B) {
	server := redistest.Start(b)
	svc, _ := onRedis(b, server.URL(), calm(), lock.Deps{})
	wait(b, enter(b, svc, 0)).Release()
	drained(b, svc)
	c := server.Client()
	resetStats(b, c)
	n := 0
	for b.Loop() {
		wait(b, enter(b, svc, 1)).Release()
		n++
	}
	drained(b, svc)
	all, scripts := commands(b, c)
	p := newPinger(server)
	for range 2000 {
		p.ping(b)
	}
	quantiles(b, "ping", p.took)
	b.ReportMetric(float64(all)/float64(n), "commands/op")
	b.ReportMetric(float64(scripts)/float64(n), "sent/op")
}

func benchmarkRedisHandOff(b *testing.B, processes int) {
	server := redistest.Start(b)
	var svcs []*lock.Service
	for range processes {
		svc, _ := onRedis(b, server.URL(), arrivalOrder(), lock.Deps{})
		svcs = append(svcs, svc)
	}
	c, p := server.Client(), newPinger(server)
	handOff(b, svcs, func(n int) {
		for queued(context.Background(), c, alice, svcs...) != n {
		}
	}, func() {
		p.ping(b)
	})
	quantiles(b, "ping", p.took)
}

// BenchmarkRedisHandOffInside: from one ticket of a process to another of the same.
func BenchmarkRedisHandOffInside(b *testing.B) { benchmarkRedisHandOff(b, 1) }

// BenchmarkRedisHandOffAcross: to a ticket of another process each time.
func BenchmarkRedisHandOffAcross(b *testing.B) { benchmarkRedisHandOff(b, 2) }
