package lock

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// beatWire is a way to Redis on which the answers to heartbeats, and only they, can be held back.
type beatWire struct {
	mu   sync.Mutex // guards all below
	hold chan struct{}
	conn net.Conn // the last one that a heartbeat used
}

type beatWireConn struct {
	net.Conn
	wire *beatWire
	beat bool
}

func (w *beatWire) client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &beatWireConn{Conn: c, wire: w}, err
	}})
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
		<-hold
	}
	return c.Conn.Read(b)
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
	return startedWith(t, wire.client(redistest.Start(t).Addr()), cfg, change...), wire
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
	svc, wire := beatService(t, timeout, func(s *Service) { s.remote.maxBeatLimit = 5 * timeout })
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
	svc := startedWith(t, wire.client(redistest.Start(t).Addr()), cfg)
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
