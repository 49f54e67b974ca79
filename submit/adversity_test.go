package submit_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/pending"
	"lockstep/submit"
)

// What a node accepts proves nothing about the sender's nonce: it does not look at
// it. These tests let wrong, old and early transactions be accepted and check that
// the sender's right one is not shut out.

// A load balancer delivers nonce 1 before nonce 0, and the node takes it; and with look-ups off anybody can send an old
// transaction of a sender again. Neither shuts the right one out.
func TestAcceptanceProvesNoNonce(t *testing.T) {
	for name, test := range map[string]struct {
		next, wrong uint64
		change      func(*options)
	}{
		"gap":                     {0, 1, nil},
		"replay without look-ups": {7, 0, func(o *options) { o.submit.SkipLookUps = true }},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.nonces[senderOf(key)] = test.next
			n.hold = make(chan struct{})
			defer close(n.hold)
			s := newSubmitter(t, n, func(o *options) {
				o.submit.Returns = submit.ReturnsAccepted
				if test.change != nil {
					test.change(o)
				}
			})
			for _, nonce := range []uint64{test.wrong, test.next} {
				if err := s.Submit(t.Context(), transfer(t, key, nonce)).Err; err != nil {
					t.Errorf("the node took nonce %d: %v", nonce, err)
				}
			}
		})
	}
}

// The mirror node still says 5 where the network is at 7; a stray 5 fails before it
// leaves. That makes nothing of 5.
func TestLaggingMirrorNodeShutsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.nonces[senderOf(key)] = 7
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 5 {
				return false, &consensus.NotSentError{Err: errors.New("no connection")}
			}
			return true, nil
		}
		n.shows = behind(5, time.Hour)
		s := newSubmitter(t, n, nil)
		if err := s.Submit(t.Context(), transfer(t, key, 5)).Err; err == nil {
			t.Fatal("a transaction that did not leave was accepted")
		}
		if err := s.Submit(t.Context(), transfer(t, key, 7)).Err; err != nil {
			t.Errorf("the right transaction was refused: %v", err)
		}
	})
}

// pooled keeps what is on its way.
func pooled(o *options) {
	o.pool = pending.New(pending.Config{MaxEntries: 100, MaxBytes: 1 << 20, ExecutedTTL: envx.Millis(time.Minute)}, pending.Deps{})
}

// What the network has executed is refused for free although the mirror node does not show it
// yet: with ordering by what the lane proved, without it by what the pool did.
func TestProvedNonceIsNotSentAgain(t *testing.T) {
	for name, change := range map[string]func(*options){
		"ordered":                func(*options) {},
		"unordered, with a pool": func(o *options) { unordered(o); pooled(o) },
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.shows = behind(0, time.Hour)
			s := newSubmitter(t, n, change)
			for nonce := range uint64(3) {
				must.Do(t, s.Submit(t.Context(), transfer(t, key, nonce)).Err)
			}
			var told *eth.Error
			if err := s.Submit(t.Context(), transfer(t, key, 1)).Err; !errors.As(err, &told) || !strings.Contains(told.Message, "Nonce too low. Provided nonce: 1, current nonce: 3") {
				t.Errorf("nonce 1, once more: %v", err)
			}
			if n.attempts != 3 {
				t.Errorf("%d submissions", n.attempts)
			}
		})
	}
}

// fleet is a pool whose other relays have proved a nonce.
type fleet struct {
	*diary
	next uint64
}

func (f fleet) Latest(context.Context, common.Address, uint64) uint64 { return f.next }

// Another relay has executed 0 to 2 and the mirror node still says 0. A stray 0 that fails in
// front of the line is not taken for the one that the line follows; a 3 that fails is.
func TestStrayDoesNotBlockTheLine(t *testing.T) {
	for name, test := range map[string]struct {
		nonces []uint64
		fails  uint64
		want   []bool
		tried  int
	}{
		"stray":       {[]uint64{0, 3, 4}, 0, []bool{false, true, true}, 3},
		"predecessor": {[]uint64{3, 4, 5}, 3, []bool{false, false, false}, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.nonces[senderOf(key)] = 3
			n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
				if nonce == test.fails {
					return false, &consensus.NotSentError{Err: errors.New("no connection")}
				}
				return true, nil
			}
			n.shows = behind(test.nonces[0], time.Hour)
			s := newSubmitter(t, n, func(o *options) { o.pool = fleet{newDiary(), 3} })
			for i, entry := range enterAll(t, s, key, test.nonces...) {
				if err := entry.Finish(t.Context()).Err; (err == nil) != test.want[i] {
					t.Errorf("nonce %d: %v", test.nonces[i], err)
				}
			}
			if n.attempts != test.tried {
				t.Errorf("%d were tried, want %d", n.attempts, test.tried)
			}
		})
	}
}

// With a hold-back window, predecessors that went another way release transactions as soon as the mirror node shows
// them, not when the window ends. One timer looks after all: it goes on while there are any, and starts again after there
// were none.
func TestHeldBackTransactionsLearnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(time.Hour) })
		for range 2 {
			results := map[*ecdsa.PrivateKey]<-chan submit.Result{}
			for range 3 {
				key := newKey(t)
				results[key] = sendAll(t, s, key, 5)
			}
			for key, result := range results {
				begun := time.Now()
				synctest.Wait()
				n.change(func() { n.nonces[senderOf(key)] = 5 }) // somebody else sent 0 to 4
				expectExecuted(t, result, 1)
				if waited := time.Since(begun); waited > time.Second {
					t.Errorf("it waited %v", waited)
				}
			}
		}
	})
}

// A transaction that was queued for long is not taken for a gap because of what the
// mirror node said at its arrival.
func TestOldLookUpIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, nil)
		first := enter(t, s, key, 9) // has the turn, and does not go on
		results := sendAll(t, s, key, 5, 6)
		synctest.Wait()
		n.change(func() { n.nonces[senderOf(key)] = 5 })
		time.Sleep(time.Second) //nolint:forbidigo // fake time: the look-ups grow old
		first.Leave()
		expectExecuted(t, results, 2)
		if got := n.order(); !slices.Equal(got, []uint64{5, 6}) {
			t.Errorf("nonces reached the node as %v", got)
		}
	})
}

// unanswered is what a submission ends with whose answer was lost. Its receipt is waited for
// in vain, for ten seconds more.
func unanswered(t *testing.T) error {
	t.Helper()
	client := must.Get(consensus.New(consensus.Config{
		Network: `{"127.0.0.1:1":"0.0.3"}`, AttemptTimeout: 1e9, RequestTimeout: 1e9, MaxAttempts: 1,
	}, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = client.Close() })
	id := hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.TimestampOf(time.Now().Add(-160 * time.Second))}
	return &consensus.SentError{Pending: client.Pending(id, hedera.Entity(3)), Err: context.DeadlineExceeded}
}

// A submission whose answer was lost may be at its node: the caller is not told that it
// was accepted, and the next one is sent when there is a verdict on it, and not before.
func TestUnclearSubmissionIsAwaited(t *testing.T) {
	t.Parallel()
	n, key := newNetwork(), newKey(t)
	lost := unanswered(t)
	n.before = func(nonce uint64, sub consensus.Submission) (bool, error) {
		if nonce == 0 {
			n.nonces[sub.Sender] = 1 // it was executed, which the mirror node shows
			return false, lost
		}
		if len(n.awaited) != 1 {
			t.Errorf("sent after the verdicts on %v", n.awaited)
		}
		return true, nil
	}
	s := newSubmitter(t, n, func(o *options) { o.submit.Returns = submit.ReturnsAccepted })
	err := s.Submit(t.Context(), transfer(t, key, 0)).Err
	var told *eth.Error
	if !errors.As(err, &told) || told.Code != eth.CodeRequestTimeout {
		t.Errorf("no node is known to have it, and its caller got %v", err)
	}
	if err := s.Submit(t.Context(), transfer(t, key, 1)).Err; err != nil {
		t.Error(err)
	}
}

// Behind a submission whose answer was lost nothing is sent before it is known what has become of
// it. Who waits in vain is told that, and not that its nonce is wrong, and can send again.
func TestUnclearSubmissionHoldsTheLine(t *testing.T) {
	t.Parallel()
	n, key := newNetwork(), newKey(t)
	lost := unanswered(t)
	n.before = func(nonce uint64, sub consensus.Submission) (bool, error) {
		if nonce == 0 {
			n.nonces[sub.Sender] = 1 // it was executed, and nobody here knows
			return false, lost
		}
		return true, nil
	}
	n.shows = behind(0, time.Hour)
	s := newSubmitter(t, n, func(o *options) {
		o.submit.Returns, o.lock.Recovery = submit.ReturnsAccepted, envx.Millis(500*time.Millisecond)
	})
	for i, entry := range enterAll(t, s, key, upTo(5)...) {
		want := "not executed in time"
		if i == 0 {
			want = "outcome is not known"
		}
		var client *eth.Error
		if err := entry.Finish(t.Context()).Err; !errors.As(err, &client) || !strings.Contains(client.Message, want) {
			t.Errorf("nonce %d: %v, want %q", i, err, want)
		}
	}
	if n.attempts != 1 {
		t.Errorf("%d submissions were tried, want 1", n.attempts)
	}
	n.change(func() { n.shows = nil })
	for nonce := uint64(1); nonce < 5; nonce++ {
		if err := s.Submit(t.Context(), transfer(t, key, nonce)).Err; err != nil {
			t.Errorf("nonce %d, sent again: %v", nonce, err)
		}
	}
}

// A wallet that waits for every receipt and sends one transaction some other way is not
// refused because this lane remembers its own last nonce better than the mirror node.
func TestIdleLaneRefusesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.shows = behind(0, time.Hour)
		s := newSubmitter(t, n, nil)
		must.Do(t, s.Submit(t.Context(), transfer(t, key, 0)).Err)
		n.change(func() { n.nonces[senderOf(key)]++ }) // nonce 1 goes another way
		time.Sleep(time.Second)                        //nolint:forbidigo // fake time
		if err := s.Submit(t.Context(), transfer(t, key, 2)).Err; err != nil {
			t.Errorf("nonce 2 is right and was refused: %v", err)
		}
	})
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
