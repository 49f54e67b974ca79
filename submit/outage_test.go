package submit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/submit"
)

// outOfNodes are the ways in which no node takes a transaction, and what the client is told.
var outOfNodes = map[string]struct {
	err  error
	told string
}{
	"no node can be reached": {&consensus.NotSentError{Err: errors.New("no connection")}, "No consensus node could be reached"},
	"all nodes are busy":     {&consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY, Node: hedera.Entity(3)}, "BUSY"},
}

// When no node takes the head of a sender's line, those behind it hear why. Their nonces are right, so nobody
// is told anything about a nonce, whenever it came to the line.
func TestFollowersHearWhyTheHeadWasNotSent(t *testing.T) {
	const taken, line = 3, 8
	for cause, out := range outOfNodes {
		for name, change := range map[string]func(*network, *options){
			"verdicts known":     nil,
			"verdicts open":      func(n *network, o *options) { n.delay = 20 * time.Second },
			"told at acceptance": func(n *network, o *options) { n.delay = 20 * time.Second; o.submit.Returns = submit.ReturnsAccepted },
			"mirror node behind": func(n *network, _ *options) { n.shows = behind(0, time.Hour) },
			"without look-ups":   func(_ *network, o *options) { o.submit.SkipLookUps = true },
			"without a window":   func(_ *network, o *options) { o.lock.Window = 0 },
			"with a long window": func(_ *network, o *options) { o.lock.Window = envx.Millis(5 * time.Second) },
			"without recovery":   func(_ *network, o *options) { o.lock.Recovery = 0 },
			"neither of both":    func(_ *network, o *options) { o.lock.Recovery, o.lock.Window = 0, 0 },
		} {
			bubble(t, cause+", "+name, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				n.hang = func(ctx context.Context, nonce uint64) error {
					if nonce < taken {
						return nil
					}
					time.Sleep(2 * time.Second) //nolint:forbidigo // fake time: the client tries other nodes
					return out.err
				}
				s := newSubmitter(t, n, func(o *options) {
					if change != nil {
						change(n, o)
					}
				})
				answers := make([]error, line+2)
				begun := time.Now()
				var clients sync.WaitGroup
				send := func(nonce uint64) {
					entry, err := s.Enter(transfer(t, key, nonce))
					if err != nil {
						t.Error(err)
						return
					}
					clients.Go(func() {
						answers[nonce] = entry.Finish(t.Context()).Err
						if waited := time.Since(begun); waited > 10*time.Second && nonce >= taken {
							t.Errorf("nonce %d was answered after %v", nonce, waited)
						}
					})
				}
				for nonce := range uint64(line) {
					send(nonce)
				}
				time.Sleep(time.Second) //nolint:forbidigo // fake time: the head is on its way
				send(line)
				time.Sleep(time.Second + 50*time.Millisecond) //nolint:forbidigo // fake time: the head has its answer
				send(line + 1)
				clients.Wait()
				for nonce, err := range answers {
					want := ""
					if nonce >= taken {
						want = out.told
					}
					var client *eth.Error
					if got := fmt.Sprint(err); err != nil && !errors.As(err, &client) || (err != nil) != (want != "") || !strings.Contains(got, want) {
						t.Errorf("nonce %d hears %v, want %q", nonce, err, want)
					}
				}
			})
		}
	}
}

// A lane recovers from a hole, and then no node takes the transaction that is missing: what came back to the line
// to wait for it hears why it waits in vain.
func TestFollowersInARecoveringLaneHearWhy(t *testing.T) {
	const missing, line = 3, 8
	for cause, out := range outOfNodes {
		bubble(t, cause, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.vanish = once(missing)
			offers := 0
			n.hang = func(_ context.Context, nonce uint64) error {
				if nonce == missing {
					offers++
				}
				if offers < 2 {
					return nil
				}
				return out.err
			}
			s := newSubmitter(t, n, nil)
			answers := make([]error, line)
			begun := time.Now()
			var clients sync.WaitGroup
			for nonce := range uint64(line) {
				entry := enter(t, s, key, nonce)
				clients.Go(func() {
					answers[nonce] = entry.Finish(t.Context()).Err
					if waited := time.Since(begun); waited > 10*time.Second {
						t.Errorf("nonce %d was answered after %v", nonce, waited)
					}
				})
			}
			clients.Wait()
			for nonce, err := range answers {
				want := ""
				if nonce > missing {
					want = out.told
				}
				if nonce == missing { // its node took it once, and one node's word is no proof
					want = "outcome is not known"
				}
				if (err != nil) != (want != "") || !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("nonce %d hears %v, want %q", nonce, err, want)
				}
			}
		})
	}
}

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

// About the operator or the envelope, by their names.
var aboutPayer = []hedera.Status{
	hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE,
	hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND, hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED,
	hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE, hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION,
	hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE,
	hapi.ResponseCodeEnum_WRONG_CHAIN_ID, hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT,
	hapi.ResponseCodeEnum_ACCESS_LIST_UNSUPPORTED, hapi.ResponseCodeEnum_CONTRACT_FILE_EMPTY,
	hapi.ResponseCodeEnum_FILE_DELETED,
}

// The record decides what became of a transaction, and not the name of its status: what was run has spent its nonce,
// what is in a block has its hash, and what no record tells is not known where the name can mean both.
func TestProofBeatsNames(t *testing.T) {
	var names []hedera.Status
	for _, name := range hedera.NeverExecuted() {
		if status, _ := hedera.ParseStatus(name); status != hapi.ResponseCodeEnum_WRONG_NONCE { // which is a proof
			names = append(names, status)
		}
	}
	names = append(names, aboutPayer...)
	names = append(names, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID, hapi.ResponseCodeEnum_INVALID_ALIAS_KEY)
	for _, status := range names {
		refusal := slices.Contains(hedera.NeverExecuted(), status.String()) || slices.Contains(aboutPayer, status)
		for record, want := range map[submit.Record]submit.Outcome{
			submit.RecordRan: submit.Reverted, submit.RecordInBlock: submit.Reverted,
			submit.RecordRefused: submit.Rejected, submit.RecordOpen: submit.Rejected,
		} {
			switch {
			case !refusal:
				want = submit.Reverted
			case record == submit.RecordOpen && hedera.AlsoFromRun(status):
				want = submit.Unknown
			}
			synctest.Test(t, func(t *testing.T) {
				n, key := newNetwork(), newKey(t)
				sent := time.Now()
				n.verdict = func(nonce uint64) (hedera.Status, error) {
					if nonce > 0 {
						return hapi.ResponseCodeEnum_SUCCESS, nil
					}
					return status, nil
				}
				n.record = func(hedera.TransactionID) (submit.Record, error) {
					if time.Since(sent) < 3*time.Second { // the mirror node lags
						return submit.RecordOpen, nil
					}
					return record, nil
				}
				n.shows = behind(0, time.Minute)
				s := newSubmitter(t, n, nil)
				r := s.Submit(t.Context(), transfer(t, key, 0))
				var told *eth.Error
				if (r.Err == nil) != (want == submit.Reverted) || r.Outcome != want || errors.As(r.Err, &told) && strings.Contains(told.Message, "did not accept") {
					t.Errorf("%s, record %d: %s, %v; want %s", status, record, r.Outcome, r.Err, want)
				}
				if record != submit.RecordRan {
					return
				}
				// The right next nonce goes, although the mirror node does not show the old one as spent.
				n.change(func() { n.nonces[senderOf(key)] = 1 })
				if r := s.Submit(t.Context(), transfer(t, key, 1)); r.Outcome != submit.Executed {
					t.Errorf("after %s, which was run: %s, %v", status, r.Outcome, r.Err)
				}
			})
		}
	}
}
