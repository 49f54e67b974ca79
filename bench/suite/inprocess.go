package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench/naive"
	"lockstep/internal/envx"
	"lockstep/lock"
)

// alice is the sender of the rows that use the lock without a relay.
var alice = common.HexToAddress("0xa11ce00000000000000000000000000000000001")

// quiet are settings under which the lock sends nothing but what it is asked for.
func quiet() lock.Config {
	cfg := lock.DefaultConfig()
	cfg.HeartbeatInterval = envx.Millis(time.Hour)
	cfg.MaxQueue = 0
	cfg.Window = 0 // these rows ask about the lock alone, which nobody tells what nonce is next
	return cfg
}

// handoffLocal lets many wait on one lane, and takes the time from each release to the
// moment in which the next waiter is running.
func handoffLocal(ctx context.Context, _ *lab, t *table, runs int) error {
	const waiters = 5000
	t.want("p50", "µs", atMost(5, "5"), "38,500, as the network saw it")
	t.want("p99", "µs", atMost(100, "100"), "52,000, as the network saw it")
	for range runs {
		svc, err := lock.New(quiet(), lock.Deps{})
		if err != nil {
			return err
		}
		times, err := relayRace(ctx, svc, waiters)
		if err != nil {
			return err
		}
		t.ours("p50", "µs", quantile(times, .5)*1e6)
		t.ours("p99", "µs", quantile(times, .99)*1e6)
		times = naiveRace(ctx, naive.NewLocal(), waiters)
		t.naive("p50", "µs", quantile(times, .5)*1e6)
		t.naive("p99", "µs", quantile(times, .99)*1e6)
	}
	t.note("The baseline inside one process is a mutex with a queue: what it costs is what is done while it is held; see the bursts.")
	return nil
}

// relayRace hands the lane's turn through all waiters and returns the seconds of each hand-off.
func relayRace(ctx context.Context, svc *lock.Service, waiters int) ([]float64, error) {
	first, err := svc.Enter(alice, 0)
	if err != nil {
		return nil, err
	}
	lease, err := first.Wait(ctx)
	if err != nil {
		return nil, err
	}
	race := newRace(waiters)
	for i := range waiters {
		ticket, err := svc.Enter(alice, uint64(i)+1)
		if err != nil {
			return nil, err
		}
		race.run(func() func() {
			lease, err := ticket.Wait(ctx)
			if err != nil {
				race.fail(err)
				return func() {}
			}
			return lease.Release
		})
	}
	return race.start(lease.Release)
}

// naiveRace is relayRace for a baseline.
func naiveRace(ctx context.Context, l naive.Lock, waiters int) []float64 {
	release, err := l.Acquire(ctx, alice)
	if err != nil {
		return nil
	}
	race := newRace(waiters)
	for range waiters {
		race.run(func() func() {
			release, err := l.Acquire(ctx, alice)
			if err != nil {
				race.fail(err)
				return func() {}
			}
			return release
		})
	}
	times, _ := race.start(release) // its only failure is the end of ctx
	return times
}

// race measures a turn that goes round.
type race struct {
	waiting sync.WaitGroup // until all are on their way to wait
	over    sync.WaitGroup

	mu    sync.Mutex
	last  time.Time // of the last release
	times []float64
	errs  []error
}

func newRace(n int) *race { return &race{times: make([]float64, 0, n)} }

// run starts a waiter: take waits for the turn and returns what ends it.
func (r *race) run(take func() (release func())) {
	r.waiting.Add(1)
	r.over.Go(func() {
		r.waiting.Done()
		release := take()
		now := time.Now()
		r.mu.Lock()
		r.times = append(r.times, now.Sub(r.last).Seconds())
		r.last = time.Now()
		r.mu.Unlock()
		release()
	})
}

func (r *race) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *race) start(release func()) ([]float64, error) {
	r.waiting.Wait()
	runtime.Gosched()
	runtime.GC()
	<-time.After(20 * time.Millisecond) // the last ones block meanwhile
	r.mu.Lock()
	r.last = time.Now()
	r.mu.Unlock()
	release()
	r.over.Wait()
	return r.times, errors.Join(r.errs...)
}

// uncontended takes and gives back a lock that nobody else wants.
func uncontended(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("local, time", "µs", atMost(1, "1"), "")
	t.want("local, allocations", "", never(2, "2"), "")
	t.want("Redis, round trips", "", always(2, "2 exactly"), "14 (7 for each of two locks)")
	t.want("Redis, until acquired", "µs", nil, "")
	t.want("Redis, until given back", "µs", nil, "")
	server, err := l.redis(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	for range runs {
		if err := uncontendedLocal(ctx, t); err != nil {
			return err
		}
		if err := uncontendedRedis(ctx, server, t); err != nil {
			return err
		}
		if err := uncontendedNaive(ctx, server, t); err != nil {
			return err
		}
	}
	return nil
}

func uncontendedLocal(ctx context.Context, t *table) error {
	const rounds = 200_000
	svc, err := lock.New(quiet(), lock.Deps{})
	if err != nil {
		return err
	}
	once := func() error { return lockOnce(ctx, svc) }
	seconds, allocations, err := repeat(rounds, once)
	if err != nil {
		return err
	}
	t.ours("local, time", "µs", seconds*1e6)
	t.ours("local, allocations", "", allocations)
	mutex := naive.NewLocal()
	seconds, allocations, err = repeat(rounds, func() error {
		release, err := mutex.Acquire(ctx, alice)
		if err == nil {
			release()
		}
		return err
	})
	t.naive("local, time", "µs", seconds*1e6)
	t.naive("local, allocations", "", allocations)
	return err
}

func lockOnce(ctx context.Context, svc *lock.Service) error {
	ticket, err := svc.Enter(alice, 1)
	if err != nil {
		return err
	}
	lease, err := ticket.Wait(ctx)
	if err != nil {
		return err
	}
	lease.Release()
	return nil
}

// repeat returns the mean seconds and allocations of f, after a warm-up.
func repeat(rounds int, f func() error) (seconds, allocations float64, err error) {
	for range rounds / 10 {
		if err := f(); err != nil {
			return 0, 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range rounds {
		if err := f(); err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(rounds)
	// Other goroutines of the process allocate now and then, which is not f's.
	return took.Seconds() / n, float64(int(float64(after.Mallocs-before.Mallocs)/n*100+.5)) / 100, nil
}
