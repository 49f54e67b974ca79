package naive_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench/naive"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

var alice, bob = common.HexToAddress("0xa1"), common.HexToAddress("0xb0")

// locks are the two kinds, each over nothing that others use.
func locks(t *testing.T) map[string]naive.Lock {
	t.Helper()
	client := must.Get(redisx.Open(redistest.Start(t).URL(), redisx.Options{PoolSize: 50, Timeout: time.Minute}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return map[string]naive.Lock{"local": new(naive.Local), "redis": naive.NewRedis(client)}
}

func acquire(t *testing.T, l naive.Lock, sender common.Address) func() {
	t.Helper()
	return must.Get(l.Acquire(t.Context(), sender))(t)
}

func TestOneAtATime(t *testing.T) {
	for name, l := range locks(t) {
		t.Run(name, func(t *testing.T) {
			inside := 0 // guarded by the lock, which the race detector checks
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					release, err := l.Acquire(t.Context(), alice)
					if err != nil {
						t.Error(err)
						return
					}
					if inside++; inside != 1 {
						t.Errorf("%d hold the lock", inside)
					}
					inside--
					release()
				})
			}
			all.Wait()
		})
	}
}

func TestSendersDoNotBlockEachOther(t *testing.T) {
	for name, l := range locks(t) {
		t.Run(name, func(t *testing.T) {
			defer acquire(t, l, alice)()
			acquire(t, l, bob)()
		})
	}
}

func TestWhoGivesUpIsNotWaitedFor(t *testing.T) {
	for name, l := range locks(t) {
		t.Run(name, func(t *testing.T) {
			release := acquire(t, l, alice)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := l.Acquire(ctx, alice); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire of a held lock until the time is up: %v", err)
			}
			release()
			acquire(t, l, alice)()
		})
	}
}

// The design's own weakness is part of the baseline.
func TestWithoutRedisThereIsNoLock(t *testing.T) {
	server := redistest.Start(t)
	client := must.Get(redisx.Open(server.URL(), redisx.Options{Timeout: time.Minute}))(t)
	defer client.Close()
	l := naive.NewRedis(client)
	defer acquire(t, l, alice)()
	server.Kill()
	acquire(t, l, alice)()
}
