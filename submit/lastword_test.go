package submit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/lock"
	"lockstep/submit"
)

// Nobody waits for 60 s without an answer, whatever the sender's lane is doing, and the answer is true:
// who got the hash was executed, and who was told that nothing was submitted was not, nor is it later.
func TestNobodyWaits60SecondsWithoutAnAnswer(t *testing.T) {
	const late = 5 * time.Minute
	for name, state := range map[string]struct {
		setUp func(n *network, o *options)
		told  string // to somebody
	}{
		"flowing and deep: every turn takes 3 s": {
			setUp: func(n *network, o *options) { n.delay, o.lock.Release = 3*time.Second, lock.ReleaseConsensus },
			told:  "did not come in time",
		},
		"the same with nobody kept in a lane that recovers": {
			setUp: func(n *network, o *options) {
				n.delay, o.lock.Release, o.lock.Recovery = 3*time.Second, lock.ReleaseConsensus, 0
			},
			told: "did not come in time",
		},
		"the turn itself hangs": {
			setUp: func(n *network, _ *options) {
				n.hang = func(ctx context.Context, nonce uint64) error {
					if nonce < 3 {
						return nil
					}
					<-ctx.Done()
					return &consensus.NotSentError{Err: ctx.Err()}
				}
			},
			told: "Nothing was submitted",
		},
		"recovering: one vanished, and nobody can tell": {
			setUp: func(n *network, _ *options) {
				n.vanish = once(3)
				begun := time.Now()
				n.asked = func(uint64) (bool, error) {
					if time.Since(begun) < late {
						return false, errors.New("no answer")
					}
					return false, nil
				}
			},
			told: "not executed in time",
		},
		"in doubt: a node may have one, and does not answer": {
			setUp: func(n *network, _ *options) {
				var lost *lateReceipt
				n.before = func(nonce uint64, s consensus.Submission) (bool, error) {
					if nonce != 3 || lost != nil {
						return true, nil
					}
					lost = &lateReceipt{submission: submission{network: n, id: recent(1000), nonce: 3}, done: make(chan struct{})}
					time.AfterFunc(late, func() {
						n.mu.Lock()
						defer n.mu.Unlock()
						n.execute(s.Sender, 3)
						close(lost.done)
					})
					return false, &hangs{lost}
				}
			},
			told: "not known yet",
		},
		"the network is slow: no verdict for minutes": {
			setUp: func(n *network, o *options) { n.delay, o.lock.MaxOpen = late, 2 },
			told:  "not known yet",
		},
		"the mirror node hangs": {
			setUp: func(n *network, o *options) { o.chain = &hangingChain{network: n, after: 3} },
			told:  "Mirror node upstream failure",
		},
		"redis is away, and every turn takes 3 s": {
			setUp: func(n *network, o *options) {
				n.delay, o.lock.Release = 3*time.Second, lock.ReleaseConsensus
				o.redis = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
			},
			told: "did not come in time",
		},
	} {
		for way, finish := range map[string]func(context.Context, *submit.Entry) <-chan submit.Result{
			"a goroutine each": finishes, "told when the wait is over": notified,
		} {
			bubble(t, name+", "+way, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				var client redis.UniversalClient
				t.Cleanup(func() {
					if client != nil {
						_ = client.Close()
						time.Sleep(time.Minute) //nolint:forbidigo // fake time: its goroutines end
					}
				})
				s := newSubmitter(t, n, func(o *options) {
					state.setUp(n, o)
					client = o.redis
				})
				results := map[uint64]submit.Result{}
				var mu sync.Mutex
				var all sync.WaitGroup
				for nonce := range uint64(40) {
					if nonce%10 == 9 {
						time.Sleep(5 * time.Second) //nolint:forbidigo // fake time
					}
					entry := enter(t, s, key, nonce)
					since, answer := time.Now(), finish(t.Context(), entry)
					all.Go(func() {
						r := <-answer
						if waited := time.Since(since); waited >= time.Minute {
							t.Errorf("nonce %d waited %v for: %v", nonce, waited, r.Err)
						}
						mu.Lock()
						defer mu.Unlock()
						results[nonce] = r
					})
				}
				all.Wait()
				s.Drain(t.Context()) // what goes on without its client
				told := false
				for nonce, r := range results {
					executed := nonce < nextOf(n)
					var e *eth.Error
					switch {
					case r.Err == nil:
						if !executed {
							t.Errorf("nonce %d: its client got the hash, and it was not executed", nonce)
						}
						continue
					case !errors.As(r.Err, &e):
						t.Errorf("nonce %d: %v", nonce, r.Err)
						continue
					case executed && !strings.Contains(e.Message, "not known yet"):
						t.Errorf("nonce %d was executed, and its client was told: %s", nonce, e.Message)
					}
					told = told || strings.Contains(e.Message, state.told)
				}
				if !told {
					t.Errorf("nobody was told %q: %v", state.told, results)
				}
			})
		}
	}
}

// A look-up ends with the wait it was for: a mirror node that hangs keeps nothing of those who have their answer.
func TestALookUpEndsWithItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		chain := &hangingChain{network: n, after: 1}
		s := newSubmitter(t, n, func(o *options) { o.chain = chain })
		entry := enter(t, s, key, 2) // a gap: it is looked for
		answer := notified(t.Context(), entry)
		time.Sleep(600 * time.Millisecond) //nolint:forbidigo // fake time: two rounds of look-ups
		if chain.hang.Load() == 0 {
			t.Error("nobody looks for the transaction before it")
		}
		<-answer
		synctest.Wait()
		if left := chain.hang.Load(); left != 0 {
			t.Errorf("%d look-ups go on after the answer", left)
		}
	})
}

// finishes waits for the turn in a goroutine.
func finishes(ctx context.Context, e *submit.Entry) <-chan submit.Result {
	answer := make(chan submit.Result, 1)
	go func() { answer <- e.Finish(ctx) }()
	return answer
}

// notified needs no goroutine for the wait.
func notified(ctx context.Context, e *submit.Entry) <-chan submit.Result {
	if err := e.Begin(ctx); err != nil {
		answer := make(chan submit.Result, 1)
		answer <- submit.Result{Err: err}
		return answer
	}
	answer := make(chan submit.Result, 1)
	if !e.Notify(ctx, func() { answer <- e.Finish(ctx) }) {
		return finishes(ctx, e)
	}
	return answer
}

// recent is an id of now.
func recent(n int32) hedera.TransactionID {
	id := transactionID(int(n))
	id.ValidStart.Seconds = time.Now().Unix()
	return id
}

// hangingChain is a mirror node that gives no answer any more after a number of look-ups, for as long as its
// client waits: 20 s.
type hangingChain struct {
	*network
	mu    sync.Mutex
	after int
	hang  atomic.Int32 // look-ups that hang now
}

func (c *hangingChain) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	c.mu.Lock()
	c.after--
	hangs := c.after < 0
	c.mu.Unlock()
	if !hangs {
		return c.network.Account(ctx, a)
	}
	c.hang.Add(1)
	defer c.hang.Add(-1)
	select {
	case <-time.After(20 * time.Second):
	case <-ctx.Done():
	}
	return submit.Account{}, false, eth.ErrUpstream(504, "no answer")
}
