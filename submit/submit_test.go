package submit_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/lock"
	"lockstep/submit"
)

// unordered switches ordering off.
func unordered(o *options) { o.lock.Enabled = false }

// TestOutcomes is the table of faults by stage: what the client is told, and
// whether the transaction reached a node.
func TestOutcomes(t *testing.T) {
	refused := func(status hedera.Status) func(uint64, consensus.Submission) (bool, error) {
		return func(uint64, consensus.Submission) (bool, error) {
			return false, &consensus.StatusError{Status: status, Node: hedera.Entity(3), TransactionID: transactionID(1)}
		}
	}
	verdict := func(status hedera.Status) func(*network) {
		return func(n *network) {
			n.verdict = func(uint64) (hedera.Status, error) { return status, nil }
		}
	}
	tests := map[string]struct {
		fault   func(*network)
		nonce   uint64
		outcome submit.Outcome
		status  hedera.Status // 0: the network says nothing
		code    int           // 0: the hash is returned
		message string        // a part of it
		arrived int
	}{
		"success":         {outcome: submit.Executed, status: hapi.ResponseCodeEnum_SUCCESS, arrived: 1},
		"reverted":        {outcome: submit.Reverted, status: hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, fault: verdict(hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED), arrived: 1},
		"other execution": {outcome: submit.Reverted, status: hapi.ResponseCodeEnum_INSUFFICIENT_GAS, fault: verdict(hapi.ResponseCodeEnum_INSUFFICIENT_GAS), arrived: 1},
		"gap":             {outcome: submit.Rejected, status: hapi.ResponseCodeEnum_WRONG_NONCE, nonce: 7, code: -32000, message: "Nonce too high. Provided nonce: 7, current nonce: 0", arrived: 1},
		"no account":      {outcome: submit.NotSent, fault: func(n *network) { n.unknown = true }, code: -32001, message: "Requested resource not found. address"},
		"no balance": {
			outcome: submit.NotSent,
			fault:   func(n *network) { n.unaware = true },
			code:    -32001, message: "Requested resource not found. Account balance unavailable for address: 0x",
		},
		"poor sender":      {outcome: submit.NotSent, fault: func(n *network) { n.balance = 1 }, code: -32000, message: "Insufficient funds for transfer"},
		"mirror node down": {outcome: submit.NotSent, fault: func(n *network) { n.mirrorErr = eth.ErrUpstream(567, "no answer") }, code: -32020, message: "statusCode=567"},
		"mirror mystery": {
			outcome: submit.NotSent,
			fault:   func(n *network) { n.mirrorErr = errors.New("dial tcp 10.0.0.1:5551") }, code: -32603, message: "looking up the sender failed",
		},
		"refused by the node": {
			outcome: submit.Rejected, status: hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE,
			fault: func(n *network) { n.before = refused(hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE) },
			code:  -32000, message: "Consensus node error: INSUFFICIENT_PAYER_BALANCE (10)",
		},
		"refused as invalid": {
			outcome: submit.Rejected, status: hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION,
			fault: func(n *network) { n.before = refused(hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION) },
			code:  -32003, message: "Transaction rejected: INVALID_ETHEREUM_TRANSACTION",
		},
		"rejected at consensus": {outcome: submit.Rejected, status: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED, fault: verdict(hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED), code: -32003, message: "Transaction rejected: MAX_GAS_LIMIT_EXCEEDED", arrived: 1},
		"operator out of funds": {outcome: submit.Rejected, status: hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE, fault: verdict(hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE), code: -32000, message: "Consensus node error: INSUFFICIENT_TX_FEE (9)", arrived: 1},
		"no node": {
			outcome: submit.NotSent,
			fault: func(n *network) {
				n.before = func(uint64, consensus.Submission) (bool, error) {
					return false, &consensus.NotSentError{Err: errors.New("dial tcp 127.0.0.1:1: refused")}
				}
			},
			code: -32000, message: "Nothing was submitted",
		},
		"receipt lost": {
			outcome: submit.Rejected,
			fault: func(n *network) {
				n.verdict = func(uint64) (hedera.Status, error) { return 0, consensus.ErrReceiptNotFound }
			},
			code: -32003, message: "RECEIPT_NOT_FOUND", arrived: 1,
		},
		"receipt unreachable": {
			outcome: submit.Unknown,
			fault: func(n *network) {
				n.verdict = func(uint64) (hedera.Status, error) { return 0, context.DeadlineExceeded }
			},
			code: -32010, message: "its outcome is not known yet", arrived: 1,
		},
	}
	for name, test := range tests {
		for mode, change := range map[string]func(*options){"ordered": nil, "unordered": unordered} {
			bubble(t, name+"/"+mode, func(t *testing.T) {
				n := newNetwork()
				if test.fault != nil {
					test.fault(n)
				}
				raw := transfer(t, newKey(t), test.nonce)
				result := newSubmitter(t, n, change).Submit(t.Context(), raw)
				err := result.Err
				if result.Outcome != test.outcome || result.Status != test.status {
					t.Errorf("outcome %s, status %s; want %s, %s", result.Outcome, result.Status, test.outcome, test.status)
				}
				offered := test.arrived > 0 || test.outcome == submit.Rejected // to a node, which has a name
				if named := !result.TransactionID.IsZero() && !result.Node.IsZero(); named != offered {
					t.Errorf("transaction %s at node %s; offered: %v", result.TransactionID, result.Node, offered)
				}
				if result.Hash != crypto.Keccak256Hash(raw) {
					t.Errorf("the result is of %s", result.Hash)
				}
				if got := len(n.order()); got != test.arrived {
					t.Errorf("%d transactions reached a node, want %d", got, test.arrived)
				}
				if test.code == 0 {
					if err != nil {
						t.Errorf("the client is told %v", err)
					}
					return
				}
				var client *eth.Error
				if !errors.As(err, &client) || client.Code != test.code || !strings.Contains(client.Message, test.message) {
					t.Errorf("the client is told %v, want %d %q", err, test.code, test.message)
				}
				if strings.Contains(err.Error(), "dial tcp") {
					t.Errorf("the error tells where we connect: %v", err)
				}
			})
		}
	}
}

// A refusal carries the network's status as data, for clients that want to know.
func TestRejectionCarriesTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.verdict = func(uint64) (hedera.Status, error) { return hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED, nil }
		err := newSubmitter(t, n, nil).Submit(t.Context(), transfer(t, newKey(t), 0)).Err
		var client *eth.Error
		if !errors.As(err, &client) {
			t.Fatal(err)
		}
		if data, ok := client.Data.(map[string]any); !ok || data["hederaStatus"] != "CONSENSUS_GAS_EXHAUSTED" {
			t.Errorf("data = %v", client.Data)
		}
	})
}

// "Failed but it happened": the node took the transaction and the answer was lost.
// That is unknown, not rejected, and it is not sent again.
func TestUnclearSubmissionIsUnknown(t *testing.T) {
	client := must.Get(consensus.New(consensus.Config{
		Network: `{"127.0.0.1:1":"0.0.3"}`, AttemptTimeout: 1e9, RequestTimeout: 1e9, MaxAttempts: 1,
	}, slog.New(slog.DiscardHandler)))(t)
	defer client.Close()
	n := newNetwork()
	n.before = func(uint64, consensus.Submission) (bool, error) {
		return true, &consensus.SentError{Pending: client.Pending(transactionID(1), hedera.Entity(3)), Err: context.DeadlineExceeded}
	}
	raw := transfer(t, newKey(t), 0)
	result := newSubmitter(t, n, nil).Submit(t.Context(), raw)
	var told *eth.Error
	if !errors.As(result.Err, &told) || told.Code != eth.CodeRequestTimeout {
		t.Fatalf("error %v", result.Err)
	}
	if result.Outcome != submit.Unknown || result.TransactionID != transactionID(1) {
		t.Errorf("result %+v", result)
	}
	data, _ := told.Data.(map[string]any)
	if data["txHash"] != crypto.Keccak256Hash(raw).Hex() || data["provisional"] != true {
		t.Errorf("data = %v", data)
	}
	if n.attempts != 1 {
		t.Errorf("sent %d times", n.attempts)
	}
}

func TestReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubmitter(t, newNetwork(), func(o *options) { o.submit.ReadOnly = true })
		if err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err; err == nil || err.Error() != "Unsupported operation. Relay is in read-only mode" {
			t.Errorf("error %v", err)
		}
	})
}

// A caller that waited long enough is told that the outcome is unknown; the verdict
// is awaited all the same, and recorded, and the process does not stop before it.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, d := newNetwork(), newDiary()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, func(o *options) { o.pool, o.trace = d, d })
		err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err // 30 s of fake time
		var told *eth.Error
		if !errors.As(err, &told) || told.Code != eth.CodeRequestTimeout {
			t.Fatalf("error %v", err)
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if left := s.Drain(impatient); left != 1 {
			t.Errorf("%d in progress after the answer, want 1", left)
		}
		close(n.hold)
		s.Drain(t.Context())
		want := []string{"received", "queued", "pool: add", "submitted", "accepted", "pool: accepted", "unknown", "consensus SUCCESS", "pool: done, spent"}
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestTooManyInProgress: the bound is the process's, and its error does not blame the sender.
func TestTooManyInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.submit.MaxInProgress = true, 1 })
		if result := s.Submit(t.Context(), transfer(t, newKey(t), 0)); result.Err != nil {
			t.Fatal(result.Err)
		}
		result := s.Submit(t.Context(), transfer(t, newKey(t), 0))
		if want := eth.ErrTooManyInProgress(1); result.Outcome != submit.NotSent || result.Err == nil || result.Err.Error() != want.Error() {
			t.Errorf("a second sender: %+v", result)
		}
		close(n.hold)
		s.Drain(t.Context())
	})
}

// A panic below ends one transaction, whenever its answer is due; where that waits for it, it is answered.
func TestPanicEndsOneTransaction(t *testing.T) {
	for name, change := range map[string]func(*options){
		"at once": func(o *options) { o.submit.Async = true }, "accepted": func(o *options) { o.submit.Returns = submit.ReturnsAccepted }, "consensus": nil,
	} {
		bubble(t, name, func(t *testing.T) {
			n := newNetwork()
			n.before = func(uint64, consensus.Submission) (bool, error) {
				n.mu.Unlock()
				defer n.mu.Lock()
				panic("a bug")
			}
			s := newSubmitter(t, n, change)
			if err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err; (err == nil) != (name == "at once") {
				t.Errorf("told: %v", err)
			}
			if left := s.Drain(t.Context()); left != 0 {
				t.Errorf("%d left", left)
			}
		})
	}
}

// A transaction whose look-ups failed can go nowhere: it does not sit out the
// hold-back window, nor wait behind others, before it is refused.
func TestFailedLookUpDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(time.Hour) })
		first := enter(t, s, key, 0) // has the turn, and does not go on
		defer first.Leave()
		n.unknown = true
		begun := time.Now()
		for _, nonce := range []uint64{1, 3} {
			err := s.Submit(t.Context(), transfer(t, key, nonce)).Err
			var told *eth.Error
			if !errors.As(err, &told) || told.Code != eth.CodeNotFound {
				t.Errorf("error %v", err)
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the refusals took %v", waited)
		}
	})
}

// The turn ends when the node has the transaction, not when the network decided:
// with every receipt withheld, all transactions of a sender still reach the node,
// in order.
func TestReleaseAtAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, nil)
		const count = 20
		results := sendAll(t, s, newKey(t), upTo(count)...)
		synctest.Wait()
		if got := n.order(); len(got) != count {
			t.Errorf("%d of %d transactions reached the node before the first receipt: %v", len(got), count, got)
		}
		close(n.hold)
		expectInOrder(t, n, results, count)
	})
}

// With NONCE_ORDERING_RELEASE=consensus one transaction at a time is in flight.
func TestReleaseAtConsensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, func(o *options) { o.lock.Release = lock.ReleaseConsensus })
		const count = 5
		results := sendAll(t, s, newKey(t), upTo(count)...)
		synctest.Wait()
		if got := n.order(); len(got) != 1 {
			t.Errorf("%v reached the node before the first receipt", got)
		}
		close(n.hold)
		expectInOrder(t, n, results, count)
	})
}

func expectInOrder(t *testing.T, n *network, results <-chan submit.Result, count int) {
	t.Helper()
	expectExecuted(t, results, count)
	if got := n.order(); !slices.IsSorted(got) {
		t.Fatalf("nonces reached the node as %v", got)
	}
}

// L19, a failure stops what is behind it: after the first of a burst failed before
// execution, the rest is answered at once and the operator pays for none of it.
// L20, a gap can be refilled: the failed nonce may be sent again at once.
func TestL19L20FailureStopsItsSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.balance = 1 // too poor
		s := newSubmitter(t, n, nil)
		key := newKey(t)
		entries := enterAll(t, s, key, upTo(5)...)
		if err := entries[0].Finish(t.Context()).Err; err == nil {
			t.Fatal("a poor sender's transaction was accepted")
		}
		n.change(func() { n.balance = 1000 * hedera.Hbar })
		for _, entry := range entries[1:] {
			err := entry.Finish(t.Context()).Err
			var client *eth.Error
			if !errors.As(err, &client) || !strings.HasPrefix(client.Message, "Nonce too high") {
				t.Errorf("successor of a failed transaction: %v", err)
			}
		}
		if n.attempts != 0 {
			t.Errorf("%d doomed transactions were paid for", n.attempts)
		}
		for nonce := range uint64(5) {
			if err := s.Submit(t.Context(), transfer(t, key, nonce)).Err; err != nil {
				t.Errorf("nonce %d after the failure: %v", nonce, err)
			}
		}
	})
}

// L1 and L23, a holder that lost its turn sends nothing: the last check before the
// bytes leave fails it with a clear error, or sends it back to the line for another turn.
func TestL1LostTurnIsNotSent(t *testing.T) {
	refused := func(s consensus.Submission) error { return s.BeforeSend() }
	// Who stood still finds its own time over, and takes that for a node that does not answer.
	late := func(consensus.Submission) error { return context.DeadlineExceeded }
	t.Run("told", func(t *testing.T) { testLostTurn(t, 0, refused) })
	t.Run("another turn", func(t *testing.T) { testLostTurn(t, time.Minute, refused) })
	t.Run("another turn, too late for a node", func(t *testing.T) { testLostTurn(t, time.Minute, late) })
}

func testLostTurn(t *testing.T, recovery time.Duration, wakes func(consensus.Submission) error) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		s := newSubmitter(t, n, func(o *options) { o.lock.Recovery = envx.Millis(recovery) })
		first := true
		stuck := make(chan struct{})
		n.before = func(_ uint64, sub consensus.Submission) (bool, error) {
			if !first {
				return true, nil
			}
			first = false
			n.mu.Unlock() // the first one hangs between two nodes, past the hold limit
			<-stuck
			n.mu.Lock()
			if err := wakes(sub); err != nil {
				return false, &consensus.NotSentError{Err: err}
			}
			return true, nil
		}
		result := sendAll(t, s, newKey(t), 0)
		time.Sleep(31 * time.Second) //nolint:forbidigo // fake time: past LOCK_MAX_HOLD_MS
		synctest.Wait()
		if got := n.order(); len(got) != 0 {
			t.Errorf("%v reached the node after the turn was lost", got)
		}
		close(stuck)
		r := <-result
		if recovery == 0 && (r.Err == nil || !strings.Contains(r.Err.Error(), "Nothing was submitted")) {
			t.Errorf("the holder of a lost turn got %v", r.Err)
		}
		if want := int(min(recovery, 1)); len(n.order()) != want || recovery != 0 && r.Err != nil {
			t.Errorf("%v reached the node, and its holder got %v", n.order(), r.Err)
		}
	})
}

// A turn that is lost while the look-ups are under way says nothing of the transaction: it gets another.
func TestTurnLostOverLookUpsIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.mirror = make(chan struct{})
		s := newSubmitter(t, n, nil)
		result := sendAll(t, s, newKey(t), 0)
		time.Sleep(31 * time.Second) //nolint:forbidigo // fake time: past LOCK_MAX_HOLD_MS
		close(n.mirror)
		expectExecuted(t, result, 1)
	})
}

// So does a turn that came and was over before anybody looked, as for a process that stood still.
func TestTurnLostUnseenIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		s := newSubmitter(t, n, nil)
		entry := enter(t, s, newKey(t), 0)
		time.Sleep(31 * time.Second) //nolint:forbidigo // fake time: past LOCK_MAX_HOLD_MS
		if r := entry.Finish(t.Context()); r.Outcome != submit.Executed {
			t.Errorf("%v: %v", r.Outcome, r.Err)
		}
	})
}

// L15 and the sticky node: while a verdict is open only the node that has it will
// do; if that node is out, the verdict is awaited before another node is asked.
func TestStickyNodeAwaitsItsPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		n.before = func(nonce uint64, s consensus.Submission) (bool, error) {
			if nonce != 1 {
				return true, nil
			}
			if !s.SameNodeOnly || s.Node != hedera.Entity(3) {
				t.Errorf("bound to node %v: %v", s.Node, s.SameNodeOnly)
			}
			n.mu.Unlock()
			defer n.mu.Lock()
			return true, s.Free(t.Context()) // the node is out: may another take it?
		}
		results := sendAll(t, newSubmitter(t, n, nil), newKey(t), upTo(2)...)
		synctest.Wait()
		close(n.hold)
		expectInOrder(t, n, results, 2)
		if len(n.awaited) != 1 || n.awaited[0] != transactionID(1) {
			t.Errorf("awaited %v, want the first transaction", n.awaited)
		}
	})
}

// L25, async: the hash comes back after the prechecks, failures of the prechecks
// still reach the caller, and what was promised survives the request and is
// drained at the end.
func TestAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, func(o *options) { o.submit.Async = true })
		key := newKey(t)
		for nonce := range uint64(3) {
			ctx, cancel := context.WithCancel(t.Context())
			raw := transfer(t, key, nonce)
			result := s.Submit(ctx, raw)
			cancel()
			if result.Err != nil || result.Outcome != submit.Unknown || result.Hash != crypto.Keccak256Hash(raw) {
				t.Fatalf("Submit = %+v", result)
			}
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if left := s.Drain(impatient); left == 0 {
			t.Error("nothing is in progress although no receipt came")
		}
		close(n.hold)
		if left := s.Drain(t.Context()); left != 0 {
			t.Errorf("%d left", left)
		}
		if got := n.order(); len(got) != 3 || got[0] != 0 || got[1] != 1 || got[2] != 2 {
			t.Errorf("nonces reached the node as %v", got)
		}
		if err := s.Submit(t.Context(), transfer(t, key, 3)).Err; err == nil {
			t.Error("a draining submitter took a transaction")
		}
	})
}

// SEND_RAW_TRANSACTION_RETURNS=accepted: the hash at the node's OK.
func TestReturnsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.hold = make(chan struct{})
		s := newSubmitter(t, n, func(o *options) { o.submit.Returns = submit.ReturnsAccepted })
		raw := transfer(t, newKey(t), 0)
		result := s.Submit(t.Context(), raw) // would block for ever if it waited for the receipt
		if result.Err != nil || result.Outcome != submit.Unknown || result.Hash != crypto.Keccak256Hash(raw) || result.Node != hedera.Entity(3) {
			t.Errorf("Submit = %+v", result)
		}
		close(n.hold)
		n.change(func() { n.balance = 1 })
		if err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err; err == nil {
			t.Error("a failed precheck did not reach the caller")
		}
	})
}

// L17: a queued transaction gives up its place when its client goes away, if the
// operator wants that; otherwise it is submitted all the same.
func TestL17ClientLeaves(t *testing.T) {
	for name, cancels := range map[string]bool{"kept": false, "given up": true} {
		bubble(t, name, func(t *testing.T) {
			n := newNetwork()
			s := newSubmitter(t, n, func(o *options) { o.lock.CancelOnDisconnect = cancels })
			gate := make(chan struct{})
			n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
				if nonce == 0 {
					n.mu.Unlock()
					<-gate
					n.mu.Lock()
				}
				return true, nil
			}
			key := newKey(t)
			first, _ := s.Enter(transfer(t, key, 0))
			second, _ := s.Enter(transfer(t, key, 1))
			results := make(chan error, 2)
			go func() { err := first.Finish(t.Context()).Err; results <- err }()
			ctx, cancel := context.WithCancel(t.Context())
			go func() { err := second.Finish(ctx).Err; results <- err }()
			synctest.Wait()
			cancel()
			synctest.Wait()
			close(gate)
			failed := 0
			for range 2 {
				if err := <-results; err != nil {
					failed++
				}
			}
			if want := map[bool]int{false: 2, true: 1}[cancels]; len(n.order()) != want || failed != 2-want {
				t.Errorf("%v reached the node and %d failed, want %d to reach it", n.order(), failed, want)
			}
		})
	}
}
