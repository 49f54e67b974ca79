package submit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/lifecycle"
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

// promises notes what was promised, and what has its verdict.
type promises struct {
	mu         sync.Mutex
	kept, over []common.Hash
}

func (p *promises) Keep(tx *eth.Tx) func(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, tx.Hash())
	return func(context.Context) {}
}

func (p *promises) Release(tx *eth.Tx) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = append(p.over, tx.Hash())
}

func (p *promises) counts() (kept, over int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept), len(p.over)
}

// What was promised is tried again while no node takes it, and executed when one does, in order; then
// the promise is over.
func TestPromisedIsTriedAgainUntilANodeTakesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, told := newNetwork(), &promises{}
		var refused int
		n.before = func(uint64, consensus.Submission) (bool, error) {
			if refused++; refused <= 2 {
				return false, &consensus.NotSentError{Err: errors.New("nobody is there")}
			}
			return true, nil
		}
		s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.promises = true, told })
		key := newKey(t)
		for nonce := range uint64(3) {
			if r := s.Submit(t.Context(), transfer(t, key, nonce)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		waitUntil(t, func() bool { _, over := told.counts(); return over == 3 })
		if got := n.order(); !slices.Equal(got, []uint64{0, 1, 2}) {
			t.Errorf("arrived at the node: %v", got)
		}
		if kept, _ := told.counts(); kept != 3 {
			t.Errorf("%d promises, want 3", kept)
		}
	})
}

// What another relay has promised is sent here, in the order of nonces, however it comes; what is spent is not.
func TestPromisesOfAnotherRelayAreKeptHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, told := newNetwork(), &promises{}
		s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.promises = true, told })
		key := newKey(t)
		if r := s.Submit(t.Context(), transfer(t, key, 0)); r.Err != nil {
			t.Fatal(r.Err)
		}
		for _, nonce := range []uint64{3, 1, 0, 2} {
			tx := must.Get(eth.DecodeTx(transfer(t, key, nonce)))(t)
			if !s.TakeOver(tx, time.Now().Add(time.Minute)) {
				t.Fatalf("nonce %d was not taken over", nonce)
			}
		}
		waitUntil(t, func() bool { _, over := told.counts(); return over == 5 })
		if got := n.order(); !slices.Equal(got, []uint64{0, 1, 2, 3}) {
			t.Errorf("arrived at the node: %v", got)
		}
	})
}

// What a relay could not send before it stopped is left to others, and nothing is taken over any more.
func TestPromisesAreLeftWhenTheRelayStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, told := newNetwork(), &promises{}
		n.before = func(uint64, consensus.Submission) (bool, error) {
			return false, &consensus.NotSentError{Err: errors.New("nobody is there")}
		}
		s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.promises = true, told })
		raw := transfer(t, newKey(t), 0)
		if r := s.Submit(t.Context(), raw); r.Err != nil {
			t.Fatal(r.Err)
		}
		if left := s.Drain(t.Context()); left != 0 {
			t.Fatalf("%d are left", left)
		}
		if kept, over := told.counts(); kept != 1 || over != 0 {
			t.Errorf("%d promises, %d of them over; want 1 and 0", kept, over)
		}
		if tx, err := eth.DecodeTx(raw); err != nil || s.TakeOver(tx, time.Now().Add(time.Minute)) {
			t.Errorf("taken over by a relay that stops (%v)", err)
		}
	})
}

var _ submit.Promises = (*promises)(nil)

// waitUntil waits for what other goroutines bring about.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		if time.Now().After(end) {
			t.Fatal("not in time")
		}
		<-ticker.C
	}
}

// What is tried again takes its reservation again: three transactions cost three fees, however often nodes refused them.
func TestRetriesReserveOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		refused := 0
		n.before = func(uint64, consensus.Submission) (bool, error) {
			if refused++; refused <= 6 {
				return false, &consensus.NotSentError{Err: errors.New("nobody is there")}
			}
			return true, nil
		}
		budget, _ := newBudget(t, wholeBudget, wholeBudget)
		s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.budget = true, budget })
		key := newKey(t)
		for nonce := range uint64(3) {
			if r := s.Submit(t.Context(), transfer(t, key, nonce)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		waitUntil(t, func() bool { return nextOf(n) == 3 })
		s.Drain(t.Context())
		time.Sleep(time.Minute) //nolint:forbidigo // fake time: the budget has settled
		if got := spent(t, budget); got != 3*fee {
			t.Errorf("%v is spent, want %v", got, 3*fee)
		}
	})
}

// diary writes down what a pool and a trace are told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func newDiary() *diary { return &diary{} }

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) Add(*eth.Tx)      { d.write("pool: add") }
func (d *diary) Accepted(*eth.Tx) { d.write("pool: accepted") }

func (d *diary) Alone(*eth.Tx) bool { return true }
func (d *diary) Next(_ context.Context, _ common.Address, confirmed uint64) uint64 {
	return confirmed
}
func (d *diary) Follows(context.Context, *eth.Tx, uint64) bool         { return true }
func (d *diary) Proven(common.Address) uint64                          { return 0 }
func (d *diary) Latest(context.Context, common.Address, uint64) uint64 { return 0 }
func (d *diary) Done(_ *eth.Tx, spent, perhaps bool) {
	switch {
	case spent:
		d.write("pool: done, spent")
	case perhaps:
		d.write("pool: done, perhaps")
	default:
		d.write("pool: done")
	}
}

func (d *diary) Record(_ common.Hash, step lifecycle.Step) {
	line := step.Name
	if step.Status != "" {
		line += " " + step.Status
	}
	d.write(line)
}

// Every outcome is told to the pool and the trace, once, and in order.
func TestPoolAndTraceAreTold(t *testing.T) {
	status := func(s hedera.Status) func(*network) {
		return func(n *network) { n.verdict = func(uint64) (hedera.Status, error) { return s, nil } }
	}
	receipt := func(err error) func(*network) {
		return func(n *network) { n.verdict = func(uint64) (hedera.Status, error) { return 0, err } }
	}
	before := func(err error) func(*network) {
		return func(n *network) {
			n.before = func(uint64, consensus.Submission) (bool, error) { return false, err }
		}
	}
	begin := []string{"received", "queued", "pool: add"}
	sent := slices.Clip(append(slices.Clone(begin), "submitted"))
	taken := slices.Clip(append(sent, "accepted", "pool: accepted"))
	for name, test := range map[string]struct {
		fault func(*network)
		want  []string
	}{
		"executed":       {nil, append(taken, "consensus SUCCESS", "pool: done, spent")},
		"reverted":       {status(hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED), append(taken, "consensus CONTRACT_REVERT_EXECUTED", "pool: done, spent")},
		"perhaps run":    {status(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID), append(taken, "consensus INVALID_CONTRACT_ID", "pool: done, perhaps")},
		"wrong nonce":    {status(hapi.ResponseCodeEnum_WRONG_NONCE), append(taken, "rejected WRONG_NONCE", "pool: done")},
		"dropped":        {receipt(consensus.ErrReceiptNotFound), append(taken, "rejected", "pool: done")},
		"no verdict":     {receipt(errors.New("no route to host")), append(taken, "unknown", "pool: done, perhaps")},
		"refused":        {before(&consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY, Node: hedera.Entity(3)}), append(sent, "rejected BUSY", "pool: done")},
		"not sent":       {before(&consensus.NotSentError{Err: errors.New("no node")}), append(sent, "rejected", "pool: done")},
		"precheck fails": {func(n *network) { n.balance = 1 }, append(begin, "rejected", "pool: done")},
	} {
		bubble(t, name, func(t *testing.T) {
			n, d := newNetwork(), newDiary()
			if test.fault != nil {
				test.fault(n)
			}
			s := newSubmitter(t, n, func(o *options) { o.pool, o.trace = d, d })
			err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err
			if diff := cmp.Diff(test.want, d.lines); diff != "" {
				t.Errorf("after %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// A call that goes away before Finish leaves nothing behind.
func TestLeaveTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		s := newSubmitter(t, newNetwork(), func(o *options) { o.pool, o.trace = d, d })
		entry := enter(t, s, newKey(t), 0)
		entry.Leave()
		s.Drain(context.Background())
		if len(d.lines) != 0 {
			t.Errorf("told: %q", d.lines)
		}
	})
}
