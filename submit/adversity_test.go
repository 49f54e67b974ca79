package submit_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/internal/envx"
	"lockstep/submit"
	"lockstep/txpool"
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
	n, key := newNetwork(), newKey(t)
	s := newSubmitter(t, n, accepted(n))
	defer close(n.hold)
	if _, err := s.Submit(t.Context(), transfer(t, key, 1)); err != nil {
		t.Fatalf("the node took nonce 1: %v", err)
	}
	if _, err := s.Submit(t.Context(), transfer(t, key, 0)); err != nil {
		t.Errorf("nonce 0 is next and was refused: %v", err)
	}
}

// With look-ups off anybody can send an old transaction of a sender again.
func TestReplayWithoutLookUps(t *testing.T) {
	n, key := newNetwork(), newKey(t)
	n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 7
	returns := accepted(n)
	s := newSubmitter(t, n, func(o *options) { returns(o); o.submit.SkipLookUps = true })
	defer close(n.hold)
	if _, err := s.Submit(t.Context(), transfer(t, key, 0)); err != nil {
		t.Fatalf("the node took the replay: %v", err)
	}
	if _, err := s.Submit(t.Context(), transfer(t, key, 7)); err != nil {
		t.Errorf("the right transaction was refused: %v", err)
	}
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
	n, key := newNetwork(), newKey(t)
	n.nonces[crypto.PubkeyToAddress(key.PublicKey)] = 7
	n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
		if nonce == 5 {
			return false, &consensus.NotSentError{Err: errors.New("no connection")}
		}
		return true, nil
	}
	s := newSubmitter(t, n, func(o *options) { o.chain = lagging{n, 5} })
	if _, err := s.Submit(t.Context(), transfer(t, key, 5)); err == nil {
		t.Fatal("a transaction that did not leave was accepted")
	}
	if _, err := s.Submit(t.Context(), transfer(t, key, 7)); err != nil {
		t.Errorf("the right transaction was refused: %v", err)
	}
}

// What the network has executed is refused for free although the mirror node does not show it
// yet: with ordering by what the lane proved, without it by what the pool did.
func TestProvedNonceIsNotSentAgain(t *testing.T) {
	pool := func(o *options) {
		o.pool = txpool.New(txpool.Config{MaxEntries: 100, MaxBytes: 1 << 20, ExecutedTTL: envx.Millis(time.Minute)}, txpool.Deps{})
	}
	for name, change := range map[string]func(*options){
		"ordered":                func(*options) {},
		"unordered, with a pool": func(o *options) { unordered(o); pool(o) },
	} {
		t.Run(name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			s := newSubmitter(t, n, func(o *options) { change(o); o.chain = lagging{n, 0} })
			for nonce := range uint64(3) {
				if _, err := s.Submit(t.Context(), transfer(t, key, nonce)); err != nil {
					t.Fatal(err)
				}
			}
			var told *eth.Error
			if _, err := s.Submit(t.Context(), transfer(t, key, 1)); !errors.As(err, &told) || !strings.Contains(told.Message, "Nonce too low. Provided nonce: 1, current nonce: 3") {
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
		t.Run(name, func(t *testing.T) {
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
				if _, err := entry.Finish(t.Context()); (err == nil) != test.want[i] {
					t.Errorf("nonce %d: %v", test.nonces[i], err)
				}
			}
			if n.attempts != test.tried {
				t.Errorf("%d were tried, want %d", n.attempts, test.tried)
			}
		})
	}
}

// A panic on the way is answered, whenever the answer is due.
func TestPanicIsAnswered(t *testing.T) {
	n := newNetwork()
	returns := accepted(n)
	n.before = func(uint64, consensus.Submission) (bool, error) {
		n.mu.Unlock()
		defer n.mu.Lock()
		panic("a bug")
	}
	s := newSubmitter(t, n, returns)
	if _, err := s.Submit(t.Context(), transfer(t, newKey(t), 0)); err == nil {
		t.Error("a panic was answered with a hash")
	}
}

// Look-ups that fail while a transaction is queued end it there.
func TestFailedLookUpLeavesTheQueue(t *testing.T) {
	n, key := newNetwork(), newKey(t)
	s := newSubmitter(t, n, nil)
	first, err := s.Enter(transfer(t, key, 0)) // has the turn, and does not go on
	if err != nil {
		t.Fatal(err)
	}
	defer first.Leave()
	n.mirrorErr = errors.New("the mirror node is out")
	if _, err := s.Submit(t.Context(), transfer(t, key, 1)); err == nil {
		t.Error("a transaction without facts was submitted")
	}
}

// With a hold-back window, predecessors that went another way release the transaction
// as soon as the mirror node shows them, not when the window ends.
func TestHeldBackTransactionKeepsLearning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.lock.GapHold = envx.Millis(time.Hour) })
		result := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := s.Submit(t.Context(), transfer(t, key, 5))
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
		s := newSubmitter(t, n, func(o *options) { o.lock.GapHold = envx.Millis(time.Hour) })
		for range 2 {
			keys := []*ecdsa.PrivateKey{newKey(t), newKey(t), newKey(t)}
			results := make(chan error, len(keys))
			for _, key := range keys {
				go func() {
					_, err := s.Submit(t.Context(), transfer(t, key, 5))
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
				_, err := s.Submit(t.Context(), transfer(t, key, nonce))
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
// was accepted, and the next one goes to that node and no other.
func TestUnclearSubmissionBindsTheNode(t *testing.T) {
	t.Parallel()
	n, key := newNetwork(), newKey(t)
	lost := unanswered(t)
	var second consensus.Submission
	n.before = func(nonce uint64, sub consensus.Submission) (bool, error) {
		if nonce == 0 {
			return false, lost
		}
		second = sub
		return true, nil
	}
	s := newSubmitter(t, n, func(o *options) { o.submit.Returns = submit.ReturnsAccepted })
	_, err := s.Submit(t.Context(), transfer(t, key, 0))
	var told *eth.Error
	if !errors.As(err, &told) || told.Code != eth.CodeRequestTimeout {
		t.Errorf("no node is known to have it, and its caller got %v", err)
	}
	if _, err := s.Submit(t.Context(), transfer(t, key, 1)); err != nil {
		t.Error(err)
	}
	if !second.SameNodeOnly || second.Node != hedera.Entity(3) {
		t.Errorf("the next one may go elsewhere: node %v, only there %v", second.Node, second.SameNodeOnly)
	}
}

// Behind a submission whose answer was lost, one waits in vain for the verdict; those behind
// that one are not tried one after the other, and it can be sent again.
func TestUnclearSubmissionHoldsTheLineOnce(t *testing.T) {
	t.Parallel()
	n, key := newNetwork(), newKey(t)
	lost, out := unanswered(t), true
	n.before = func(nonce uint64, sub consensus.Submission) (bool, error) {
		switch {
		case nonce == 0:
			n.nonces[sub.Sender] = 1 // it was executed, and nobody here knows
			return false, lost
		case out:
			return false, &consensus.NodeUnavailableError{Node: sub.Node, Err: errors.New("refused")}
		default:
			return true, nil
		}
	}
	s := newSubmitter(t, n, func(o *options) {
		o.submit.Returns = submit.ReturnsAccepted
		o.chain = lagging{n, 0}
	})
	var entries []*submit.Entry
	for nonce := range uint64(5) {
		entry, err := s.Enter(transfer(t, key, nonce))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	for i, want := range []string{"outcome is not known", "Nothing was submitted", "Nonce too high", "Nonce too high", "Nonce too high"} {
		var client *eth.Error
		if _, err := entries[i].Finish(t.Context()); !errors.As(err, &client) || !strings.Contains(client.Message, want) {
			t.Errorf("nonce %d: %v, want %q", i, err, want)
		}
	}
	if n.attempts != 2 {
		t.Errorf("%d submissions were tried, want 2", n.attempts)
	}
	out = false
	for nonce := uint64(1); nonce < 5; nonce++ {
		if _, err := s.Submit(t.Context(), transfer(t, key, nonce)); err != nil {
			t.Errorf("nonce %d, sent again: %v", nonce, err)
		}
	}
}

// A wallet that waits for every receipt and sends one transaction some other way is not
// refused because this lane remembers its own last nonce better than the mirror node.
func TestIdleLaneRefusesNoGap(t *testing.T) {
	n, key := newNetwork(), newKey(t)
	s := newSubmitter(t, n, func(o *options) { o.chain = lagging{n, 0} })
	if _, err := s.Submit(t.Context(), transfer(t, key, 0)); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.nonces[crypto.PubkeyToAddress(key.PublicKey)]++ // nonce 1 goes another way
	n.mu.Unlock()
	if _, err := s.Submit(t.Context(), transfer(t, key, 2)); err != nil {
		t.Errorf("nonce 2 is right and was refused: %v", err)
	}
}
