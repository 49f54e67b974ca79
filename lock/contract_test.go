package lock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/lock"
	"lockstep/lock/locktest"
)

// running runs a service until stop, which waits for it.
func running(t testing.TB, svc *lock.Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := svc.CheckLanes(); err != nil {
			t.Error(err)
		}
	}
}

// onRedis starts a service on the Redis of a URL, and waits until it uses it.
func onRedis(t testing.TB, url string, cfg lock.Config, deps lock.Deps) (*lock.Service, func()) {
	t.Helper()
	client := must.Get(redisx.Open(url, cfg.RedisOptions()))(t)
	deps.Redis = client
	svc := must.Get(lock.New(cfg, deps))(t)
	stop := running(t, svc)
	stopAll := func() {
		stop()
		_ = client.Close()
	}
	t.Cleanup(stopAll)
	ready(t, svc)
	return svc, stopAll
}

func queueKey(sender common.Address) string {
	return "lock:queue:{" + strings.ToLower(sender.Hex()) + "}"
}

// queued returns how many tickets of a sender wait in processes whose claim Redis has, or that have the turn.
func queued(ctx context.Context, c redis.UniversalClient, sender common.Address, svcs ...*lock.Service) (n int) {
	claims := ""
	for i := int64(0); ; i++ { // no script uses this command, so that who counts commands need not count it
		claim, err := c.LIndex(ctx, queueKey(sender), i).Result()
		if err != nil {
			break
		}
		claims += claim + "\n"
	}
	for _, svc := range svcs {
		for _, l := range svc.Lanes() {
			if l.Sender == sender && (l.Held || strings.Contains(claims, svc.Instance())) {
				n += l.Waiting
			}
		}
	}
	return n
}

// leftovers lists the keys that must not outlive the use of their lanes. Memories expire.
func leftovers(ctx context.Context, t *testing.T, c redis.UniversalClient) []string {
	t.Helper()
	var mu sync.Mutex // masters are looked at together
	var left []string
	look := func(ctx context.Context, c *redis.Client) error {
		all, err := c.Keys(ctx, "*").Result()
		if err != nil {
			return err
		}
		for _, key := range all {
			ttl, err := c.PTTL(ctx, key).Result()
			if err != nil {
				return err
			}
			transient := strings.HasPrefix(key, "lock:memory:") || strings.HasPrefix(key, "lock:heartbeat:") || key == "lock:instances"
			if !transient || ttl == -1 {
				mu.Lock()
				left = append(left, key)
				mu.Unlock()
			}
		}
		return nil
	}
	var err error
	switch c := c.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return look(ctx, c) })
	case *redis.Client:
		err = look(ctx, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func redisHarness(t *testing.T, url string) locktest.Harness {
	t.Helper()
	client := must.Get(redisx.Open(url, redisx.Options{Timeout: 20 * time.Second}))(t)
	t.Cleanup(func() { _ = client.Close() })
	var svcs []*lock.Service
	return locktest.Harness{
		Processes: 2,
		Check:     (*lock.Service).CheckLanes,
		Start: func(t *testing.T, cfg lock.Config) (*lock.Service, func()) {
			t.Helper()
			svc, stop := onRedis(t, url, cfg, lock.Deps{})
			svcs = append(svcs, svc)
			return svc, stop
		},
		Queued: func(t *testing.T, sender common.Address) int {
			t.Helper()
			return queued(t.Context(), client, sender, svcs...)
		},
		Leftovers: func(t *testing.T) []string {
			t.Helper()
			return leftovers(t.Context(), t, client)
		},
	}
}

func TestContractLocal(t *testing.T) {
	t.Parallel()
	var current *lock.Service
	locktest.Exercise(t, locktest.Harness{
		Processes: 1,
		Check:     (*lock.Service).CheckLanes,
		Start: func(t *testing.T, cfg lock.Config) (*lock.Service, func()) {
			t.Helper()
			svc := must.Get(lock.New(cfg, lock.Deps{}))(t)
			current = svc
			return svc, running(t, svc)
		},
		Queued: func(_ *testing.T, sender common.Address) int {
			for _, l := range current.Lanes() {
				if l.Sender == sender {
					return l.Waiting
				}
			}
			return 0
		},
	})
}

func TestContractRedis(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, redisHarness(t, redistest.Start(t).URL()))
}

func TestContractCluster(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, redisHarness(t, redistest.StartCluster(t).URL()))
}
