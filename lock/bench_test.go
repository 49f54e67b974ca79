package lock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

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
