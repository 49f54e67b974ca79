package submit_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/pending"
	"lockstep/submit"
)

// What a node accepts proves nothing about the sender's nonce: it does not look at
// it. These tests let wrong, old and early transactions be accepted and check that
// the sender's right one is not shut out.

// accepted answers as soon as the node does; receipts are withheld.
func accepted(n *network) func(*options) {
	n.hold = make(chan struct{})
	return func(o *options) { o.submit.Returns = submit.ReturnsAccepted }
}

// A load balancer delivers nonce 1 before nonce 0, and the node takes it.
func TestGapDoesNotBlockItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, accepted(n))
		defer close(n.hold)
		if err := s.Submit(t.Context(), transfer(t, key, 1)).Err; err != nil {
			t.Fatalf("the node took nonce 1: %v", err)
		}
		if err := s.Submit(t.Context(), transfer(t, key, 0)).Err; err != nil {
			t.Errorf("nonce 0 is next and was refused: %v", err)
		}
	})
}

// With look-ups off anybody can send an old transaction of a sender again.
func TestReplayWithoutLookUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 7
		returns := accepted(n)
		s := newSubmitter(t, n, func(o *options) { returns(o); o.submit.SkipLookUps = true })
		defer close(n.hold)
		if err := s.Submit(t.Context(), transfer(t, key, 0)).Err; err != nil {
			t.Fatalf("the node took the replay: %v", err)
		}
		if err := s.Submit(t.Context(), transfer(t, key, 7)).Err; err != nil {
			t.Errorf("the right transaction was refused: %v", err)
		}
	})
}

// lagging is a mirror node that is behind its network.
type lagging struct {
	*network
	nonce uint64
}

func (l lagging) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	account, found, err := l.network.Account(ctx, a)
	account.Nonce = l.nonce
	return account, found, err
}

// The mirror node still says 5 where the network is at 7; a stray 5 fails before it
// leaves. That makes nothing of 5.
func TestLaggingMirrorNodeShutsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 7
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 5 {
				return false, &consensus.NotSentError{Err: errors.New("no connection")}
			}
			return true, nil
		}
		s := newSubmitter(t, n, func(o *options) { o.chain = lagging{n, 5} })
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				s := newSubmitter(t, n, func(o *options) { change(o); o.chain = lagging{n, 0} })
				for nonce := range uint64(3) {
					if err := s.Submit(t.Context(), transfer(t, key, nonce)).Err; err != nil {
						t.Fatal(err)
					}
				}
				var told *eth.Error
				if err := s.Submit(t.Context(), transfer(t, key, 1)).Err; !errors.As(err, &told) || !strings.Contains(told.Message, "Nonce too low. Provided nonce: 1, current nonce: 3") {
					t.Errorf("nonce 1, once more: %v", err)
				}
				if n.attempts != 3 {
					t.Errorf("%d submissions", n.attempts)
				}
			})
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 3
				n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
					if nonce == test.fails {
						return false, &consensus.NotSentError{Err: errors.New("no connection")}
					}
					return true, nil
				}
				s := newSubmitter(t, n, func(o *options) {
					o.pool, o.chain = fleet{newDiary(), 3}, lagging{n, test.nonces[0]}
				})
				var entries []*submit.Entry
				for _, nonce := range test.nonces {
					entry, err := s.Enter(transfer(t, key, nonce))
					if err != nil {
						t.Fatal(err)
					}
					entries = append(entries, entry)
				}
				for i, entry := range entries {
					if err := entry.Finish(t.Context()).Err; (err == nil) != test.want[i] {
						t.Errorf("nonce %d: %v", test.nonces[i], err)
					}
				}
				if n.attempts != test.tried {
					t.Errorf("%d were tried, want %d", n.attempts, test.tried)
				}
			})
		})
	}
}

// A panic on the way is answered, whenever the answer is due.
func TestPanicIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		returns := accepted(n)
		n.before = func(uint64, consensus.Submission) (bool, error) {
			n.mu.Unlock()
			defer n.mu.Lock()
			panic("a bug")
		}
		s := newSubmitter(t, n, returns)
		if err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err; err == nil {
			t.Error("a panic was answered with a hash")
		}
	})
}

// Look-ups that fail while a transaction is queued end it there.
func TestFailedLookUpLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, nil)
		first, err := s.Enter(transfer(t, key, 0)) // has the turn, and does not go on
		if err != nil {
			t.Fatal(err)
		}
		defer first.Leave()
		n.mirrorErr = errors.New("the mirror node is out")
		if err := s.Submit(t.Context(), transfer(t, key, 1)).Err; err == nil {
			t.Error("a transaction without facts was submitted")
		}
	})
}

// With a hold-back window, predecessors that went another way release the transaction
// as soon as the mirror node shows them, not when the window ends.
func TestHeldBackTransactionKeepsLearning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(time.Hour) })
		result := make(chan error, 1)
		begun := time.Now()
		go func() {
			err := s.Submit(t.Context(), transfer(t, key, 5)).Err
			result <- err
		}()
		synctest.Wait()
		n.mu.Lock()
		n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 5 // somebody else sent 0 to 4
		n.mu.Unlock()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("it waited %v", waited)
		}
	})
}

// One timer looks after all held-back transactions: it goes on while there are any, and
// starts again after there were none.
func TestHeldBackTransactionsLearnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(time.Hour) })
		for range 2 {
			keys := []*ecdsa.PrivateKey{newKey(t), newKey(t), newKey(t)}
			results := make(chan error, len(keys))
			for _, key := range keys {
				go func() {
					err := s.Submit(t.Context(), transfer(t, key, 5)).Err
					results <- err
				}()
			}
			for _, key := range keys {
				begun := time.Now()
				synctest.Wait()
				n.mu.Lock()
				n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 5 // somebody else sent 0 to 4
				n.mu.Unlock()
				if err := <-results; err != nil {
					t.Error(err)
				}
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
		first, err := s.Enter(transfer(t, key, 9)) // has the turn, and does not go on
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 2)
		for _, nonce := range []uint64{5, 6} {
			go func() {
				err := s.Submit(t.Context(), transfer(t, key, nonce)).Err
				result <- err
			}()
			synctest.Wait()
		}
		n.mu.Lock()
		n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 5
		n.mu.Unlock()
		time.Sleep(time.Second) //nolint:forbidigo // fake time: the look-ups grow old
		first.Leave()
		for range 2 {
			if err := <-result; err != nil {
				t.Error(err)
			}
		}
		if got := n.order(); len(got) != 2 || got[0] != 5 || got[1] != 6 {
			t.Errorf("nonces reached the node as %v", got)
		}
	})
}

// unanswered is what a submission ends with whose answer was lost. Its receipt is waited for
// in vain, for ten seconds more.
func unanswered(t *testing.T) error {
	t.Helper()
	client, err := consensus.New(consensus.Config{
		Network: `{"127.0.0.1:1":"0.0.3"}`, AttemptTimeout: 1e9, RequestTimeout: 1e9, MaxAttempts: 1,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
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
	mirror := &changing{lagging: lagging{n, 0}}
	s := newSubmitter(t, n, func(o *options) {
		o.submit.Returns, o.lock.Recovery, o.chain = submit.ReturnsAccepted, envx.Millis(500*time.Millisecond), mirror
	})
	var entries []*submit.Entry
	for nonce := range uint64(5) {
		entry, err := s.Enter(transfer(t, key, nonce))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	for i, entry := range entries {
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
	mirror.shows.Store(true)
	for nonce := uint64(1); nonce < 5; nonce++ {
		if err := s.Submit(t.Context(), transfer(t, key, nonce)).Err; err != nil {
			t.Errorf("nonce %d, sent again: %v", nonce, err)
		}
	}
}

// changing is a mirror node that lags until it shows everything.
type changing struct {
	lagging
	shows atomic.Bool
}

func (c *changing) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	if c.shows.Load() {
		return c.network.Account(ctx, a)
	}
	return c.lagging.Account(ctx, a)
}

// A wallet that waits for every receipt and sends one transaction some other way is not
// refused because this lane remembers its own last nonce better than the mirror node.
func TestIdleLaneRefusesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.chain = lagging{n, 0} })
		if err := s.Submit(t.Context(), transfer(t, key, 0)).Err; err != nil {
			t.Fatal(err)
		}
		n.mu.Lock()
		n.nonces[crypto.PubkeyToAddress(key.PublicKey)]++ // nonce 1 goes another way
		n.mu.Unlock()
		time.Sleep(time.Second) //nolint:forbidigo // fake time
		if err := s.Submit(t.Context(), transfer(t, key, 2)).Err; err != nil {
			t.Errorf("nonce 2 is right and was refused: %v", err)
		}
	})
}
