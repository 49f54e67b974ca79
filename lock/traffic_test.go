package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/lock"
)

// wire is a process's way to Redis, which can be cut like a cable.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = c.Close()
		return nil, errors.New("the wire is cut")
	}
	if w.conns == nil {
		w.conns = map[net.Conn]struct{}{}
	}
	w.conns[c] = struct{}{}
	return redisx.Patient(c), nil
}

// sever closes all connections and lets no new one through; mend undoes it.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

// swift is a configuration whose reactions a test can wait for.
func swift() lock.Config {
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = envx.Millis(100 * time.Millisecond)
	cfg.RedisTimeout = envx.Millis(500 * time.Millisecond)
	cfg.MaxQueue = 0
	return cfg
}

// steady is swift with a Redis that is missed only when connections end.
func steady() lock.Config {
	cfg := swift()
	cfg.RedisTimeout = envx.Millis(time.Minute)
	return cfg
}

var started = time.Now()

// sameClock is the clock of all processes that a test runs here.
func sameClock() time.Duration { return time.Since(started) }

// process starts a service at addr behind a wire of its own.
func process(t testing.TB, addr string, cfg lock.Config, log *slog.Logger) (*lock.Service, *wire) {
	t.Helper()
	svc, w, client := wired(t, addr, cfg, log)
	stop := running(t, svc)
	t.Cleanup(func() {
		stop()
		_ = client.Close()
	})
	ready(t, svc)
	return svc, w
}

// wired makes a service at addr behind a wire of its own. Nothing runs yet.
func wired(t testing.TB, addr string, cfg lock.Config, log *slog.Logger) (*lock.Service, *wire, *redis.Client) {
	t.Helper()
	w := &wire{}
	client := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: w.dial, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		DialTimeout: cfg.RedisTimeout.Duration(), PoolTimeout: cfg.RedisTimeout.Duration(),
		ReadTimeout: cfg.RedisTimeout.Duration(), WriteTimeout: cfg.RedisTimeout.Duration(),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	svc := must.Get(lock.New(cfg, lock.Deps{Clock: sameClock, Redis: client, Log: log}))(t)
	return svc, w, client
}

// traffic takes turns on several services and notes their order.
type traffic struct {
	mu       sync.Mutex
	order    []string
	inside   map[*lock.Lease]struct{}
	overlaps atomic.Int32 // turns that began while another one counted still
	alone    atomic.Int32 // turns by the order of a process
	pauseAt  int          // with so many turns begun, each waits for goOn; 0 = none does
	goOn     chan struct{}
	wg       sync.WaitGroup
}

// send draws tickets 0…n-1 on one service and works through them.
func (tr *traffic) send(t *testing.T, svc *lock.Service, name string, n int, work time.Duration) {
	t.Helper()
	for i := range n {
		ticket := enter(t, svc, uint64(i))
		tr.wg.Go(func() {
			lease, err := ticket.Wait(context.Background())
			if err != nil {
				t.Errorf("%s %d: %v", name, i, err)
				return
			}
			defer lease.Release()
			if n := tr.begin(lease, fmt.Sprintf("%s%04d", name, i)); tr.pauseAt > 0 && n >= tr.pauseAt {
				<-tr.goOn
			}
			<-time.After(work)
			tr.end(lease)
		})
	}
}

// begin notes a turn that has begun, and returns the number of turns so far. Two turns at once are an overlap if both
// count: who stood still for too long has lost its turn, and is told so.
func (tr *traffic) begin(lease *lock.Lease, name string) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for other := range tr.inside {
		if other.Check() == nil && lease.Check() == nil {
			tr.overlaps.Add(1)
			break
		}
	}
	if tr.inside == nil {
		tr.inside = map[*lock.Lease]struct{}{}
	}
	tr.inside[lease] = struct{}{}
	if lease.Turn().Strategy != "redis" {
		tr.alone.Add(1)
	}
	tr.order = append(tr.order, name)
	return len(tr.order)
}

func (tr *traffic) end(lease *lock.Lease) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	delete(tr.inside, lease)
}

// done waits for all, and checks each process's own order. The limit is that of a fast machine; a slow one has much
// more time.
func (tr *traffic) done(t *testing.T, limit time.Duration) {
	t.Helper()
	limit *= 24
	finished := make(chan struct{})
	go func() {
		tr.wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(limit):
		t.Fatalf("not all done within %v; so far %d", limit, tr.count())
	}
	perName := map[byte][]string{}
	for _, s := range tr.order {
		perName[s[0]] = append(perName[s[0]], s)
	}
	for _, list := range perName {
		if !slices.IsSorted(list) {
			t.Errorf("out of order: %v", list)
		}
	}
}

func (tr *traffic) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.order)
}

// sharedAgain checks that the order between two services holds and leaves nothing behind.
func sharedAgain(t *testing.T, server *redistest.Server, a, b *lock.Service) {
	t.Helper()
	for end := time.Now().Add(2 * patience); ; {
		ready(t, a)
		ready(t, b)
		drained(t, a, b)
		tr := &traffic{}
		tr.send(t, a, "a", 20, time.Millisecond)
		tr.send(t, b, "b", 20, time.Millisecond)
		tr.done(t, 10*time.Second)
		drained(t, a, b)
		if tr.alone.Load() == 0 {
			if n := tr.overlaps.Load(); n > 0 {
				t.Errorf("%d overlaps after the recovery", n)
			}
			break
		}
		// The machine was too slow for the timeout of these settings, so that Redis was missed once more.
		if time.Now().After(end) {
			t.Fatal("Redis does not decide the order for long enough")
		}
	}
	c := server.Client()
	cleared(t, c, a, b)
}

// cleared waits until no key is left that ought not to be.
func cleared(t *testing.T, c *redis.Client, svcs ...*lock.Service) {
	t.Helper()
	var left []string
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		if left = leftovers(t.Context(), t, c); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	for _, key := range left {
		t.Log(key, c.PTTL(t.Context(), key).Val(), c.Get(t.Context(), key).Val(), c.LRange(t.Context(), key, 0, -1).Val())
	}
	for _, svc := range svcs {
		t.Logf("%s: %+v", svc.Instance(), svc.Lanes())
	}
	t.Fatalf("left behind: %v", left)
}
