package submit_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/submit"
)

// While the mirror node is away a sender whose lane is sure of its nonce goes on with what was
// known; nobody else does, nor does anybody when that is too old or not wanted.
func TestMirrorOutageRefusesOnlyWhatNeedsTheMirror(t *testing.T) {
	for name, test := range map[string]struct {
		stale time.Duration
		goes  bool
	}{
		"known a moment ago": {time.Minute, true},
		"too old":            {1, false},
		"not wanted":         {0, false},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key, stranger := newNetwork(), newKey(t), newKey(t)
			s := newSubmitter(t, n, func(o *options) { o.submit.StaleFacts = envx.Millis(test.stale) })
			for nonce := range uint64(2) {
				must.Do(t, s.Submit(t.Context(), transfer(t, key, nonce)).Err)
			}
			<-time.After(time.Second)
			n.change(func() { n.mirrorErr = eth.ErrUpstream(503, "away") })
			for nonce := uint64(2); nonce < 5; nonce++ {
				result := s.Submit(t.Context(), transfer(t, key, nonce))
				if goes := result.Outcome == submit.Executed; goes != test.goes {
					t.Fatalf("nonce %d: %v, %v", nonce, result.Outcome, result.Err)
				}
				if !test.goes {
					break
				}
			}
			sent := len(n.order())
			if result := s.Submit(t.Context(), transfer(t, key, 9)); result.Outcome != submit.NotSent {
				t.Errorf("one that is ahead: %v, %v", result.Outcome, result.Err)
			}
			if result := s.Submit(t.Context(), transfer(t, stranger, 0)); result.Outcome != submit.NotSent {
				t.Errorf("one of whom nothing is known: %v, %v", result.Outcome, result.Err)
			}
			if more := len(n.order()) - sent; more != 0 {
				t.Errorf("%d were sent that need the mirror node", more)
			}
		})
	}
}

// What was remembered of the mirror node proves nothing in a lane that recovers.
func TestARememberedNonceIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.nonces[senderOf(key)] = 5
		status := hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE // the operator's fault, so that the lane recovers
		n.verdict = func(uint64) (hedera.Status, error) { return status, nil }
		s := newSubmitter(t, n, func(o *options) { o.submit.StaleFacts = envx.Millis(time.Minute) })
		if result := s.Submit(t.Context(), transfer(t, key, 5)); result.Outcome != submit.Rejected {
			t.Fatalf("%v: %v", result.Outcome, result.Err)
		}
		n.change(func() { n.mirrorErr, status = eth.ErrUpstream(503, "away"), hapi.ResponseCodeEnum_SUCCESS })
		if result := s.Submit(t.Context(), transfer(t, key, 5)); result.Outcome != submit.NotSent {
			t.Errorf("%v: %v", result.Outcome, result.Err)
		}
	})
}

// A look-up that fails is repeated for a while: nobody is refused right after an outage, neither
// newcomers nor those whose lane is not sure, on the strength of what the client of the mirror node
// remembers.
func TestLookUpsArePersistent(t *testing.T) {
	for name, test := range map[string]struct{ first, elsewhere uint64 }{
		"a newcomer":                 {},
		"one whose lane is not sure": {first: 1, elsewhere: 2},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			s := newSubmitter(t, n, func(o *options) { o.submit.StaleFacts = envx.Millis(time.Minute) })
			for nonce := range test.first {
				must.Do(t, s.Submit(t.Context(), transfer(t, key, nonce)).Err)
			}
			n.mu.Lock()
			n.nonces[senderOf(key)] += test.elsewhere
			n.mirrorErr = eth.ErrUpstream(503, "away")
			n.mu.Unlock()
			time.AfterFunc(time.Second, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.mirrorErr = nil
			})
			if result := s.Submit(t.Context(), transfer(t, key, test.first+test.elsewhere)); result.Outcome != submit.Executed {
				t.Errorf("%v, %v", result.Outcome, result.Err)
			}
		})
	}
}

// Thousands of transactions that look up at the same time have one goroutine each, and few more.
func TestManyLookUpsHaveFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, few = 1000, 300
		n, key := newNetwork(), newKey(t)
		n.mirror = make(chan struct{})
		s := newSubmitter(t, n, nil)
		before := runtime.NumGoroutine()
		entries := make([]*submit.Entry, count)
		for i := range entries {
			var err error
			if entries[i], err = s.Enter(transfer(t, key, uint64(i))); err != nil {
				t.Fatal(err)
			}
			must.Do(t, entries[i].Begin(t.Context()))
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more < count || more > count+few {
			t.Errorf("%d transactions look up with %d goroutines", count, more)
		}
		close(n.mirror)
		for i, entry := range entries {
			if r := entry.Finish(t.Context()); r.Outcome != submit.Executed {
				t.Fatalf("nonce %d: %v, %v", i, r.Outcome, r.Err)
			}
		}
	})
}

// A lane that recovers knows from verdicts what is next: that is as good without the mirror node.
func TestLaneRecoversWithoutTheMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.submit.StaleFacts = envx.Millis(time.Minute) })
		must.Do(t, s.Submit(t.Context(), transfer(t, key, 0)).Err)
		n.mu.Lock()
		n.mirrorErr = eth.ErrUpstream(503, "away")
		n.vanish = func(uint64) bool { return n.attempts == 3 } // nonce 2, the first time
		n.mu.Unlock()
		expectExecuted(t, sendAll(t, s, key, 1, 2, 3, 4, 5), 5)
	})
}
