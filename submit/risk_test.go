package submit_test

import (
	"context"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/limit"
	"lockstep/lock"
	"lockstep/submit"
)

// A sender whose transactions were refused for their nonce, for a reason that is not the network's, has no more
// at nodes than may still be refused.
func TestChargedSenderHasFewAtNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, count = 10, 60
		n, key := newNetwork(), newKey(t)
		n.delay = 100 * time.Millisecond
		nonces := limit.NewWrongNonces(limit.Config{WrongNonces: budget}, nil)
		s := newSubmitter(t, n, func(o *options) { o.nonces = nonces })
		for range budget + 5 {
			nonces.Charge(senderOf(key))
		}
		open, most := 0, 0
		n.before = func(uint64, consensus.Submission) (bool, error) {
			open++
			most = max(most, open)
			time.AfterFunc(n.delay-time.Millisecond, func() { // before the verdict
				n.mu.Lock()
				defer n.mu.Unlock()
				open--
			})
			return true, nil
		}
		results := make(chan submit.Result, count)
		for nonce := range uint64(count) {
			entry := enter(t, s, key, nonce)
			go func() { results <- entry.Finish(t.Context()) }()
		}
		for range count {
			if r := <-results; r.Err != nil {
				t.Error(r.Err)
			}
		}
		if most != 1 {
			t.Errorf("%d were at the node at a time, want 1", most)
		}
	})
}

// A burst that its sender cannot pay is refused before the network refuses all of it.
func TestBurstBeyondTheBalanceIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 30
		n, key := newNetwork(), newKey(t)
		n.balance, n.delay = 10*hedera.Hbar, 100*time.Millisecond
		n.before = func(nonce uint64, s consensus.Submission) (bool, error) {
			if n.nonces[s.Sender] == nonce {
				n.balance -= 3 * hedera.Hbar
			}
			return true, nil
		}
		s := newSubmitter(t, n, nil)
		results := make(chan submit.Result, count)
		for nonce := range uint64(count) {
			raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
				ChainID: chainID, Nonce: nonce, Gas: 21000, GasFeeCap: price, To: &receiver, Value: (3 * hedera.Hbar / 10 * 9).Weibar(),
			}).MarshalBinary())(t)
			entry := must.Get(s.Enter(raw))(t)
			go func() { results <- entry.Finish(t.Context()) }()
		}
		executed := 0
		for range count {
			switch r := <-results; r.Outcome {
			case submit.Executed:
				executed++
			case submit.NotSent:
			default:
				t.Errorf("%v: %v", r.Outcome, r.Err)
			}
		}
		if executed != 3 {
			t.Errorf("%d are executed, want 3", executed)
		}
	})
}

// The mirror node shows more than a sender has left. Without ordering the network refuses no more of what the sender
// cannot pay than there are risks, and the first one, which had the nonce for itself.
func TestRefusalsForWantOfFundsTakeRisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, count = 10, 60
		n, key := newNetwork(), newKey(t)
		n.verdict = func(uint64) (hedera.Status, error) { return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, nil }
		s := newSubmitter(t, n, func(o *options) {
			unordered(o)
			pooled(o)
			o.nonces = limit.NewWrongNonces(limit.Config{WrongNonces: budget}, nil)
		})
		n.delay = 100 * time.Millisecond
		var all sync.WaitGroup
		for value := range int64(count) {
			raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
				ChainID: chainID, Gas: 21000, GasFeeCap: price, To: &receiver, Value: big.NewInt(value * 1e10),
			}).MarshalBinary())(t)
			all.Go(func() {
				time.Sleep(time.Duration(value/budget) * 2 * n.delay) //nolint:forbidigo // fake time: each wave finds the risks free again
				if r := s.Submit(t.Context(), raw); r.Err == nil {
					t.Error("executed")
				}
			})
		}
		all.Wait()
		if got := len(n.order()); got > budget+1 {
			t.Errorf("the network refused %d, want %d as a maximum", got, budget+1)
		}
	})
}

// A transaction for which its sender has no risk waits for one while all before it are on their way, for
// NONCE_RECOVERY_MS and no longer; nothing of it is sent. One with a gap before it does not wait.
func TestRiskIsAwaitedForTheTimeOfRecoveryOnly(t *testing.T) {
	const budget = 2
	for _, recovery := range []time.Duration{5 * time.Second, 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.hang = func(context.Context, uint64) error { // longer than anybody waits
				time.Sleep(5 * time.Minute) //nolint:forbidigo // fake time
				return nil
			}
			s := newSubmitter(t, n, func(o *options) {
				unordered(o)
				pooled(o)
				o.lock.Recovery, o.nonces = envx.Millis(recovery), limit.NewWrongNonces(limit.Config{WrongNonces: budget}, nil)
			})
			send := func(nonce uint64) <-chan time.Duration {
				entry := enter(t, s, key, nonce)
				since, refused := time.Now(), make(chan time.Duration, 1)
				go func() {
					if r := entry.Finish(t.Context()); r.Outcome != submit.NotSent && (nonce == 2 || nonce == 600) {
						t.Errorf("nonce %d: %v, %v", nonce, r.Outcome, r.Err)
					}
					refused <- time.Since(since)
				}()
				synctest.Wait()
				return refused
			}
			for _, nonce := range []uint64{0, 1, 500} { // the next one, and two that have a risk
				send(nonce)
			}
			if waited := <-send(2); waited < recovery || waited > recovery+time.Second {
				t.Errorf("waited %v for a risk, want %v", waited, recovery)
			}
			if waited := <-send(600); waited > time.Second {
				t.Errorf("waited %v with a gap before it", waited)
			}
			s.Drain(t.Context())
			if n.attempts != budget+1 {
				t.Errorf("%d were sent, want %d", n.attempts, budget+1)
			}
		})
	}
}

// A turn that is lost while its holder waits for a risk is no refusal: the transaction goes back to its line, and is sent after the one
// that it follows.
func TestTurnLostWhileARiskIsAwaitedIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		nonces := limit.NewWrongNonces(limit.Config{WrongNonces: 1}, nil)
		nonces.Charge(senderOf(key))
		var locks *lock.Service
		s := newSubmitter(t, n, func(o *options) {
			o.nonces, o.pool = nonces, newDiary() // whose answer is always that those before it are on their way
			o.locked = func(l *lock.Service) { locks = l }
		})
		results := make(chan submit.Result, 2)
		send := func(nonce uint64) {
			entry := enter(t, s, key, nonce)
			go func() { results <- entry.Finish(t.Context()) }()
		}
		send(1)
		time.Sleep(time.Second) //nolint:forbidigo // fake time: its window is over
		send(0)
		synctest.Wait()
		if len(n.order()) != 0 {
			t.Fatal("nobody waits for a risk: this test shows nothing")
		}
		if taken, err := locks.ForceRelease(t.Context(), senderOf(key)); err != nil || !taken {
			t.Fatal(taken, err)
		}
		for range 2 {
			if r := <-results; r.Outcome != submit.Executed {
				t.Errorf("%v: %v", r.Outcome, r.Err)
			}
		}
		if order := n.order(); !slices.Equal(order, []uint64{0, 1}) {
			t.Errorf("sent: %v", order)
		}
		if refused := counted(t, "lockstep_wrong_nonce_budget_refusals_total", nonces.Collectors()); refused != 0 {
			t.Errorf("%d were counted as refused", refused)
		}
	})
}
