package submit_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/submit"
)

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
			bubble(t, fmt.Sprint(name, ", window ", window), func(t *testing.T) {
				nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1, PoolSize: 1})
				t.Cleanup(func() {
					_ = nobody.Close()
					time.Sleep(time.Minute) //nolint:forbidigo // fake time: its goroutines end
				})
				testBurst(t, order, func(o *options) { o.redis, o.lock.Window = nobody, envx.Millis(window) })
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
	net.shows, net.mirror = behind(0, time.Hour), make(chan struct{})
	s := newSubmitter(t, net, func(o *options) {
		o.waitTime = 10 * time.Second
		change(o)
	})
	var nonces []uint64
	for i := range n {
		nonces = append(nonces, order(i, n))
	}
	results := sendAll(t, s, newKey(t), nonces...)
	close(net.mirror)
	expectExecuted(t, results, n)
	if got := net.order(); len(got) != n || !slices.IsSorted(got) {
		t.Errorf("arrived at the node: %v", got)
	}
}

// TestNotify: transactions that wait without a goroutine go one after the other, in order,
// each when its turn has come; with a hold-back window the look-ups go on meanwhile.
func TestNotify(t *testing.T) {
	for name, window := range map[string]time.Duration{"no window": 0, "window": time.Minute} {
		bubble(t, name, func(t *testing.T) {
			const count = 20
			n := newNetwork()
			s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(window) })
			results := make(chan submit.Result, count)
			for _, entry := range enterAll(t, s, newKey(t), upTo(count)...) {
				must.Do(t, entry.Begin(t.Context()))
				finish := func() { results <- entry.Finish(t.Context()) }
				if !entry.Notify(t.Context(), finish) {
					go finish()
				}
			}
			expectInOrder(t, n, results, count)
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
		bubble(t, name, func(t *testing.T) {
			s := newSubmitter(t, newNetwork(), change)
			key := newKey(t)
			first := enter(t, s, key, 0)
			second := enter(t, s, key, 1) // would wait
			must.Do(t, second.Begin(t.Context()))
			if second.Notify(t.Context(), func() { t.Error("called") }) {
				t.Error("it waits")
			}
			for _, e := range []*submit.Entry{first, second} {
				if err := e.Finish(t.Context()).Err; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
