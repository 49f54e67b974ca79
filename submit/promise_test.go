package submit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/submit"
)

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
