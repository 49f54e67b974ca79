package lock

import (
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

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
