package submit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/lock"
	"lockstep/submit"
)

// slowChain answers about accounts once it is told to, and lags: it has seen no transaction.
type slowChain struct {
	*network
	open chan struct{}
}

func (c *slowChain) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	<-c.open
	account, found, err := c.network.Account(ctx, a)
	account.Nonce = 0
	return account, found, err
}

// orders are ways in which connections may be read.
var orders = map[string]func(i, n int) uint64{
	"reverse": func(i, n int) uint64 { return uint64(n - 1 - i) },
	"mixed":   func(i, n int) uint64 { return uint64(i * 7 % n) },
	"sent":    func(i, _ int) uint64 { return uint64(i) },
}

// L18: a burst whose connections were read in any order reaches the node in order of
// nonces, with no hold-back window, if all of it is here by the time the first could go.
func TestBurstIsPutInOrder(t *testing.T) {
	t.Parallel()
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				testBurst(t, order, func(*options) {})
			})
		})
	}
}

// L7: … also while Redis is away, with a window and without, and before any receipt or the
// mirror node says what has become of the first.
func TestBurstIsPutInOrderWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, order := range orders {
		for _, window := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(name, ", window ", window), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, PoolSize: 1})
					t.Cleanup(func() {
						_ = nobody.Close()
						time.Sleep(time.Minute) //nolint:forbidigo // fake time: its goroutines end
					})
					testBurst(t, order, func(o *options) { o.redis, o.lock.Window = nobody, envx.Millis(window) })
				})
			})
		}
	}
}

func testBurst(t *testing.T, order func(i, n int) uint64, change func(*options)) {
	t.Helper()
	const n = 30
	net := newNetwork()
	net.hold = make(chan struct{})
	net.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
		if nonce == n-1 {
			close(net.hold)
		}
		return true, nil
	}
	chain := &slowChain{network: net, open: make(chan struct{})}
	s := newSubmitter(t, net, func(o *options) {
		o.chain, o.waitTime = chain, 10*time.Second
		o.lock = lock.DefaultConfig()
		change(o)
	})
	key := newKey(t)
	var all sync.WaitGroup
	for i := range n {
		nonce := order(i, n)
		entry, err := s.Enter(transfer(t, key, nonce))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := entry.Finish(t.Context()).Err; err != nil {
				t.Errorf("nonce %d: %v", nonce, err)
			}
		})
	}
	close(chain.open)
	all.Wait()
	if got := net.order(); len(got) != n || !slices.IsSorted(got) {
		t.Errorf("arrived at the node: %v", got)
	}
}

// TestNotify: transactions that wait without a goroutine go one after the other, in order,
// each when its turn has come; with a hold-back window the look-ups go on meanwhile.
func TestNotify(t *testing.T) {
	for name, window := range map[string]time.Duration{"no window": 0, "window": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const count = 20
				n := newNetwork()
				s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(window) })
				key := newKey(t)
				results := make(chan error, count)
				for nonce := range uint64(count) {
					entry, err := s.Enter(transfer(t, key, nonce))
					if err == nil {
						err = entry.Begin(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					finish := func() {
						err := entry.Finish(t.Context()).Err
						results <- err
					}
					if !entry.Notify(t.Context(), finish) {
						go finish()
					}
				}
				expectInOrder(t, n, results, count)
			})
		})
	}
}

// TestNotifyRefuses: who has no turn to wait for, is answered before it, or has to be
// watched while it waits, is to call Finish at once.
func TestNotifyRefuses(t *testing.T) {
	for name, change := range map[string]func(*options){
		"not ordered":                unordered,
		"answered before":            func(o *options) { o.submit.Async = true },
		"leaves with its connection": func(o *options) { o.lock.CancelOnDisconnect = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSubmitter(t, newNetwork(), change)
				key := newKey(t)
				first, err := s.Enter(transfer(t, key, 0))
				if err != nil {
					t.Fatal(err)
				}
				second, err := s.Enter(transfer(t, key, 1)) // would wait
				if err != nil {
					t.Fatal(err)
				}
				if err := second.Begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				if second.Notify(t.Context(), func() { t.Error("called") }) {
					t.Error("it waits")
				}
				for _, e := range []*submit.Entry{first, second} {
					if err := e.Finish(t.Context()).Err; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
