package submit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/limit"
	"lockstep/lock"
	"lockstep/submit"
)

// paid counts the transactions that reached consensus with a nonce that was not next.
func paid(t *testing.T, s *submit.Submitter) int {
	t.Helper()
	return counted(t, "rpc_relay_wrong_nonce_errors_total", s.Collectors())
}

// counted is the sum of a counter's or a gauge's values.
func counted(t *testing.T, name string, collectors []prometheus.Collector) int {
	t.Helper()
	return int(must.Measure(t, collectors...).Of(name))
}

// once is true for the first time that it is asked about a nonce.
func once(nonce uint64) func(uint64) bool {
	done := false
	return func(n uint64) bool {
		if n != nonce || done {
			return false
		}
		done = true
		return true
	}
}

// A node takes nonce 5 of a burst, and consensus never sees it. What follows it is refused, once
// each, and kept; 5 is sent again when it is proven that it vanished, and then the rest. With room for two transactions
// without a verdict it costs one paid rejection. It is nobody's fault: the sender has its whole budget afterwards.
func TestVanishedTransactionCostsTimeOnly(t *testing.T) {
	const count = 40
	for name, test := range map[string]struct {
		delay       time.Duration
		open        int
		least, most int
	}{
		"":                               {0, 0, 0, count - 6},
		"receipts later":                 {100 * time.Millisecond, 0, 2, count - 6}, // the next row shows something
		"receipts later, room for two":   {100 * time.Millisecond, 2, 1, 1},
		"receipts later, room for three": {100 * time.Millisecond, 3, 1, 2},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.vanish, n.delay = once(5), test.delay
			nonces := limit.NewWrongNonces(limit.Config{WrongNonces: 10}, nil)
			s := newSubmitter(t, n, func(o *options) { o.lock.MaxOpen, o.nonces = test.open, nonces })
			expectExecuted(t, sendAll(t, s, key, upTo(count)...), count)
			if got := paid(t, s); got < test.least || got > test.most {
				t.Errorf("%d paid rejections, want %d to %d", got, test.least, test.most)
			}
			if left, charged := nonces.Left(t.Context(), senderOf(key)); charged {
				t.Errorf("%d risks are left", left)
			}
		})
	}
}

// A failed query proves nothing: while the node does not answer, what may have vanished is not
// sent again.
func TestVanishedIsNotSentAgainWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.vanish = once(1)
		n.asked = func(uint64) (bool, error) { return false, errors.New("no answer") }
		s := newSubmitter(t, n, func(o *options) { o.lock.Recovery = envx.Millis(20 * time.Second) })
		results := sendAll(t, s, newKey(t), upTo(4)...)
		var told []string
		for range 4 {
			if r := <-results; r.Err != nil {
				told = append(told, r.Err.Error())
			}
		}
		if sent := slices.DeleteFunc(n.order(), func(nonce uint64) bool { return nonce != 1 }); len(sent) != 1 {
			t.Errorf("nonce 1 was sent %d times", len(sent))
		}
		if next := nextOf(n); len(told) != 3 || next != 1 {
			t.Errorf("%d were told of a failure, and the next nonce is %d: %q", len(told), next, told)
		}
		for _, text := range told {
			if !strings.Contains(text, "not known yet") && !strings.Contains(text, "not executed in time") {
				t.Errorf("told: %s", text)
			}
		}
		n.change(func() { n.asked = nil }) // the node answers again: then it is
	})
}

// nextOf is the next nonce of the only sender of a network.
func nextOf(n *network) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, nonce := range n.nonces {
		return nonce
	}
	return 0
}

// What seemed to have vanished was executed after all: its client is told so, and not that its
// nonce is too low.
func TestLateTransactionIsNotTakenForFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		late := &lateReceipt{done: make(chan struct{})}
		n.late = func(nonce uint64) *lateReceipt {
			if nonce == 1 && !late.used {
				late.used = true
				return late
			}
			return nil
		}
		n.before = func(nonce uint64, s consensus.Submission) (bool, error) {
			if nonce == 1 && late.used && n.nonces[s.Sender] == 1 {
				n.nonces[s.Sender] = 2 // the first one arrives just before the second
				close(late.done)
			}
			return true, nil
		}
		s := newSubmitter(t, n, nil)
		results := sendAll(t, s, newKey(t), upTo(3)...)
		expectExecuted(t, results, 3)
	})
}

// What seems to have vanished and cannot be sent again, for want of time or of a node, is not told to have failed: only one node says
// that it vanished.
func TestVanishedIsNotToldAsFailed(t *testing.T) {
	for name, recovery := range map[string]envx.Millis{"no time": 1, "no node": lock.DefaultConfig().Recovery} {
		bubble(t, name, func(t *testing.T) {
			n := newNetwork()
			n.vanish = once(1)
			n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
				if nonce == 1 { // once more
					return false, &consensus.NotSentError{Err: errors.New("no connection")}
				}
				return true, nil
			}
			s := newSubmitter(t, n, func(o *options) { o.lock.Recovery = recovery })
			results := sendAll(t, s, newKey(t), 0, 1, 2)
			var unknown, missing int
			for range 3 {
				switch r := <-results; r.Outcome {
				case submit.Unknown:
					unknown++
				case submit.NotSent:
					missing++
				}
			}
			if unknown != 1 || missing != 1 {
				t.Errorf("%d were told that the outcome is not known, and %d that nothing was sent; want one of each", unknown, missing)
			}
		})
	}
}

// A node hangs on one transaction and takes it only when it is offered again, under the same id.
// What follows waits, and nothing is paid for.
func TestHangingNodeIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		hung := false
		var raw []byte
		lost := &lateReceipt{submission: submission{network: n, id: transactionID(1000), nonce: 3}, done: make(chan struct{})}
		n.before = func(nonce uint64, s consensus.Submission) (bool, error) {
			if nonce == 3 && !hung {
				hung, raw = true, s.Ethereum
				return false, &hangs{lost}
			}
			return true, nil
		}
		n.again = func(s consensus.Submission, p submit.Pending) bool {
			if p.ID() != lost.id || string(s.Ethereum) != string(raw) {
				t.Errorf("offered again as %v", p.ID())
			}
			if n.execute(s.Sender, 3) == hapi.ResponseCodeEnum_SUCCESS {
				close(lost.done)
			}
			return true
		}
		s := newSubmitter(t, n, nil)
		const count = 20
		results := sendAll(t, s, newKey(t), upTo(count)...)
		expectExecuted(t, results, count)
		if got := paid(t, s); got != 0 {
			t.Errorf("%d paid rejections", got)
		}
	})
}

// A node that was killed has forgotten the transaction that it accepted last, and nothing follows that one. It gets it
// again, as the same bytes.
func TestForgottenTransactionIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, raw := newNetwork(), transfer(t, newKey(t), 0)
		lost := &lateReceipt{done: make(chan struct{})}
		n.denied = make(chan struct{})
		n.late = func(uint64) *lateReceipt { return lost }
		n.again = func(s consensus.Submission, p submit.Pending) bool {
			if p.ID() != lost.id || string(s.Ethereum) != string(raw) {
				t.Errorf("offered again as %v", p.ID())
			}
			if n.execute(s.Sender, 0) == hapi.ResponseCodeEnum_SUCCESS {
				close(lost.done)
			}
			return true
		}
		time.AfterFunc(time.Second, func() { close(n.denied) })
		if r := newSubmitter(t, n, nil).Submit(t.Context(), raw); r.Outcome != submit.Executed {
			t.Errorf("%v: %v", r.Outcome, r.Err)
		}
	})
}

// A gap that is the sender's own, and no hole of the lane, is answered soon: after the verdict it waits for four windows more. It is
// paid for once.
func TestOwnGapIsNotKept(t *testing.T) {
	for window, longest := range map[time.Duration]time.Duration{0: 10 * time.Millisecond, 250 * time.Millisecond: 1300 * time.Millisecond} {
		bubble(t, fmt.Sprint(window), func(t *testing.T) {
			n := newNetwork()
			s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(window) })
			begun := time.Now()
			r := s.Submit(t.Context(), transfer(t, newKey(t), 7))
			var told *eth.Error
			if r.Outcome != submit.Rejected || !errors.As(r.Err, &told) || !strings.Contains(told.Message, "Nonce too high") {
				t.Errorf("%v, told %v", r.Outcome, r.Err)
			}
			if waited := time.Since(begun); waited > longest {
				t.Errorf("it waited %v", waited)
			}
			if got := paid(t, s); got != 1 {
				t.Errorf("%d paid rejections", got)
			}
		})
	}
}

// The sender's next nonce is 0, and it sends some from 3 on. The first is sent after its window, in case the mirror node lags, and the
// network refuses it. That proves the gap for all, also where the mirror node does not answer any more by then: each is answered within
// nine windows, beside the time of the verdict, and one is paid for. One that came alone is answered within five.
func TestAGapIsToldInTime(t *testing.T) {
	for _, window := range []time.Duration{0, 250 * time.Millisecond, 2 * time.Second} {
		for _, verdict := range []time.Duration{100 * time.Millisecond, 3 * time.Second} {
			for _, count := range []uint64{1, 2, 5, 50} {
				for name, mirror := range map[string]error{"": nil, " without the mirror": eth.ErrUpstream(500, "out")} {
					t.Run(fmt.Sprint(window, verdict, count, name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { testGap(t, window, verdict, count, mirror) })
					})
				}
			}
		}
	}
}

// testGap is TestAGapIsToldInTime for one row. mirror is what look-ups fail with once the first has been sent.
func testGap(t *testing.T, window, verdict time.Duration, count uint64, mirror error) {
	n, key := newNetwork(), newKey(t)
	n.delay = verdict
	n.before = func(uint64, consensus.Submission) (bool, error) {
		n.mirrorErr = mirror
		return true, nil
	}
	s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(window) })
	begun := time.Now()
	var line []*submit.Entry
	for nonce := range count {
		entry, err := s.Enter(transfer(t, key, 3+nonce))
		if err == nil {
			err = entry.Begin(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, entry)
	}
	synctest.Wait() // their look-ups are over
	var all sync.WaitGroup
	for i, entry := range line {
		all.Go(func() {
			r := entry.Finish(t.Context())
			if r.Err == nil || !strings.Contains(r.Err.Error(), "Nonce too high") {
				t.Errorf("nonce %d: %v, %v", 3+i, r.Outcome, r.Err)
			}
			longest := 9*window + verdict
			if count == 1 {
				longest = 5*window + verdict
			}
			if waited := time.Since(begun); waited > longest {
				t.Errorf("nonce %d waited %v", 3+i, waited)
			}
		})
	}
	all.Wait()
	if got := paid(t, s); got != 1 {
		t.Errorf("%d paid rejections", got)
	}
}

// The same through two relays: what the network refused to one of them holds for the other, too. A machine that is busy shows no times, but
// who had waited for a recovery would be told otherwise.
func TestAGapIsToldAtAnotherRelay(t *testing.T) {
	t.Parallel()
	type row struct {
		window time.Duration
		count  uint64
		mirror error
	}
	rows := []row{{2 * time.Second, 5, nil}, {0, 5, eth.ErrUpstream(500, "out")}, {250 * time.Millisecond, 5, eth.ErrUpstream(500, "out")}}
	for _, count := range []uint64{2, 5, 50} {
		rows = append(rows, row{0, count, nil}, row{250 * time.Millisecond, count, nil})
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			t.Parallel()
			n, key, server := newNetwork(), newKey(t), redistest.Start(t)
			n.delay = 100 * time.Millisecond
			n.before = func(uint64, consensus.Submission) (bool, error) {
				n.mirrorErr = row.mirror
				return true, nil
			}
			var relays [2]*submit.Submitter
			var locks []*lock.Service
			for i := range relays {
				relays[i] = newSubmitter(t, n, func(o *options) {
					o.lock.Window, o.redis = envx.Millis(row.window), server.Client()
					o.lock.HeartbeatMissed, o.lock.RedisTimeout = 1000, envx.Millis(time.Minute) // a machine that stands still is no dead relay
					o.locked = func(l *lock.Service) { locks = append(locks, l) }
				})
			}
			for _, l := range locks {
				for counted(t, "lockstep_lock_redis_up", l.Collectors()) == 0 {
					<-time.After(time.Millisecond)
				}
			}
			var line []*submit.Entry
			for nonce := range row.count {
				entry, err := relays[nonce%2].Enter(transfer(t, key, 3+nonce))
				if err == nil {
					err = entry.Begin(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				line = append(line, entry)
			}
			for n.looked.Load() < 2*int64(row.count) { // both the sender and the receiver of each
				<-time.After(time.Millisecond)
			}
			var all sync.WaitGroup
			for i, entry := range line {
				all.Go(func() {
					if r := entry.Finish(t.Context()); r.Err == nil || !strings.Contains(r.Err.Error(), "Nonce too high") {
						t.Errorf("nonce %d: %v, %v", 3+i, r.Outcome, r.Err)
					}
				})
			}
			all.Wait()
			if got := paid(t, relays[0]) + paid(t, relays[1]); got != 1 {
				t.Errorf("%d paid rejections", got)
			}
		})
	}
}

// What a transaction follows comes after its window, and after the network has refused it: all are executed, at the price of one
// rejection. Where this relay's own transactions lead up to the missing one, nothing of what follows is sent before it comes: a
// load balancer gave it to another relay, or its connection was read late.
func TestWhatComesAMomentTooLateIsStillFollowed(t *testing.T) {
	const count = 20
	for name, test := range map[string]struct {
		late, count uint64
		paid        int
		order       func(i, n int) uint64
	}{
		"alone":                   {0, 2, 1, orders["sent"]},
		"in front of others":      {0, count, 1, orders["sent"]},
		"in a sure chain":         {2, count, 0, orders["sent"]},
		"in a sure chain, mixed":  {2, count, 0, orders["mixed"]},
		"in a sure chain, behind": {2, count, 0, orders["reverse"]},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			n.delay = 100 * time.Millisecond
			s := newSubmitter(t, n, nil)
			var early []uint64
			for i := range int(test.count) {
				if nonce := test.order(i, int(test.count)); nonce != test.late {
					early = append(early, nonce)
				}
			}
			results := sendAll(t, s, key, early...)
			time.Sleep(time.Second - 400*time.Millisecond*time.Duration(test.paid)) //nolint:forbidigo // fake time: the window was 250 ms
			if sent := len(n.order()); paid(t, s) != test.paid || sent != int(test.late)+test.paid {
				t.Fatalf("%d paid rejections, and %d sent, before it comes: this test shows nothing", paid(t, s), sent)
			}
			expectExecuted(t, sendAll(t, s, key, test.late), 1)
			expectExecuted(t, results, len(early))
			if got := paid(t, s); got != test.paid {
				t.Errorf("%d paid rejections", got)
			}
		})
	}
}

// A process that stood still for longer than its client waits for the verdict looks for it before it tells the client that the outcome is not
// known. What is not known stays so, and the lane would wait for it.
func TestVerdictAfterAStandstill(t *testing.T) {
	for name, still := range map[string]struct {
		lasts time.Duration
		want  submit.Outcome
	}{
		"it is looked for again":         {40 * time.Second, submit.Executed},
		"late, but no more than usually": {30*time.Second + 500*time.Millisecond, submit.Unknown},
	} {
		bubble(t, name, func(t *testing.T) {
			n := newNetwork()
			asked := 0
			n.verdict = func(uint64) (hedera.Status, error) {
				if asked++; asked != 2 { // the first is at the node
					return hapi.ResponseCodeEnum_SUCCESS, nil
				}
				time.Sleep(still.lasts) //nolint:forbidigo // fake time, in which the deadline of the call passes unseen
				return 0, context.DeadlineExceeded
			}
			r := newSubmitter(t, n, nil).Submit(t.Context(), transfer(t, newKey(t), 0))
			if r.Outcome != still.want {
				t.Errorf("%v: %v", r.Outcome, r.Err)
			}
		})
	}
}

// Where nothing is looked up the relay cannot tell what is missing, so nothing waits for it.
func TestNothingIsMissedWithoutLookUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.submit.SkipLookUps = true })
		begun := time.Now()
		var all sync.WaitGroup
		for _, nonce := range []uint64{0, 2} {
			entry := enter(t, s, key, nonce)
			all.Go(func() { entry.Finish(t.Context()) })
		}
		all.Wait()
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("they waited %v", waited)
		}
	})
}

// A gap in a sure chain is answered after the window and four more, and nothing is sent. Without a window it is answered at once.
func TestGapInASureChainIsAnswered(t *testing.T) {
	for window, wait := range map[time.Duration]time.Duration{0: 0, 250 * time.Millisecond: 1250 * time.Millisecond} {
		bubble(t, fmt.Sprint(window), func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			s := newSubmitter(t, n, func(o *options) { o.lock.Window = envx.Millis(window) })
			entries := enterAll(t, s, key, 0, 2)
			begun := time.Now()
			go entries[0].Finish(t.Context())
			var told *eth.Error
			if err := entries[1].Finish(t.Context()).Err; !errors.As(err, &told) || !strings.Contains(told.Message, "Nonce too high. Provided nonce: 2, current nonce: 1") {
				t.Errorf("told %v", err)
			}
			if waited := time.Since(begun); waited < wait || waited > wait+50*time.Millisecond {
				t.Errorf("it waited %v", waited)
			}
			if got := n.order(); len(got) != 1 {
				t.Errorf("arrived at the node: %v", got)
			}
		})
	}
}

// What is ahead waits while the network judges another one that went ahead, and no longer: what it follows may have gone another way,
// and the mirror node may not show it for a while.
func TestWhatIsAheadGoesAfterAnothersVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.delay = time.Second
		n.nonces[senderOf(key)] = 1 // nonce 0 went another way
		n.shows = behind(0, 20*time.Second)
		s := newSubmitter(t, n, nil)
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 3 {
				n.nonces[senderOf(key)]++ // and so did nonce 2
			}
			return true, nil
		}
		begun := time.Now()
		results := sendAll(t, s, key, 1, 3)
		expectExecuted(t, results, 2)
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Somebody else executes nonce 1 of a burst right before ours arrives, and the mirror node does not
// show it for three seconds. Ours is refused, which is not paid for again and again until the mirror
// node knows, and its client does not hear that the nonce is too high.
func TestSpentElsewhereIsNotPaidForAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		n.shows = behind(0, 3*time.Second)
		stolen := false
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 1 && !stolen {
				stolen = true
				n.nonces[senderOf(key)] = 2
			}
			return true, nil
		}
		s := newSubmitter(t, n, nil)
		results := sendAll(t, s, key, 0, 1)
		for range 2 {
			r := <-results
			if r.Outcome == submit.Executed {
				continue
			}
			if r.Outcome != submit.Rejected || r.Err == nil || !strings.Contains(r.Err.Error(), "Nonce too low. Provided nonce: 1, current nonce: 2") {
				t.Errorf("%s: %v", r.Outcome, r.Err)
			}
		}
		if got := paid(t, s); got > 2 {
			t.Errorf("%d paid rejections; after the verdict on nonce 0 the second one proves that nonce 1 is spent", got)
		}
	})
}

// Async: a hash is a promise. What arrives in any order is executed, and a gap is waited for.
func TestPromisedHashesAreExecuted(t *testing.T) {
	for _, window := range []time.Duration{0, 250 * time.Millisecond} {
		bubble(t, fmt.Sprint(window), func(t *testing.T) {
			n, key := newNetwork(), newKey(t)
			s := newSubmitter(t, n, func(o *options) { o.submit.Async, o.lock.Window = true, envx.Millis(window) })
			const count = 20
			for i := range uint64(count) {
				must.Do(t, s.Submit(t.Context(), transfer(t, key, count-1-i)).Err)
				time.Sleep(time.Second) //nolint:forbidigo // fake time: far beyond the window
			}
			if left := s.Drain(t.Context()); left != 0 {
				t.Errorf("%d left", left)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			if got := n.nonces[senderOf(key)]; got != count {
				t.Errorf("%d of %d hashes were executed; the node got %v", got, count, n.arrived)
			}
		})
	}
}

// A full queue keeps the lowest nonces, and whoever gives way is told that the queue is full.
func TestFullQueueKeepsTheLowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		s := newSubmitter(t, n, func(o *options) { o.lock.MaxQueue = 5 })
		results := map[uint64]<-chan submit.Result{}
		for nonce := uint64(12); nonce > 0; nonce-- {
			results[nonce-1] = sendAll(t, s, key, nonce-1)
		}
		for nonce, result := range results {
			r := <-result
			var told *eth.Error
			switch {
			case nonce < 5 && r.Err != nil:
				t.Errorf("nonce %d: %v", nonce, r.Err)
			case nonce >= 5 && (!errors.As(r.Err, &told) || !strings.Contains(told.Message, "waiting")):
				t.Errorf("nonce %d: %v", nonce, r.Err)
			}
		}
	})
}

// A node is lost with a transaction of which nobody can know the fate. Once it is back and denies that it knows
// the id, a resend of the same bytes, and what follows it, go on; while it does not answer, they wait.
func TestResendGoesOnOnceTheNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		lost := &lateReceipt{submission: submission{network: n, id: transactionID(1000), nonce: 1}, done: make(chan struct{})}
		hung := false
		n.before = func(nonce uint64, _ consensus.Submission) (bool, error) {
			if nonce == 1 && !hung {
				hung = true
				return false, &hangs{lost}
			}
			return true, nil
		}
		s := newSubmitter(t, n, nil)
		expectExecuted(t, sendAll(t, s, key, 0), 1)
		first, behind := sendAll(t, s, key, 1), sendAll(t, s, key, 2)
		if r := <-first; r.Err == nil || !strings.Contains(r.Err.Error(), "not known yet") {
			t.Fatalf("told %v", r.Err)
		}
		resend := sendAll(t, s, key, 1)
		time.Sleep(10 * time.Second) //nolint:forbidigo // fake time
		if got := n.order(); len(got) != 1 {
			t.Fatalf("the network got %v while the node did not answer", got)
		}
		n.change(func() { n.knows = func(id hedera.TransactionID) (bool, error) { return id != lost.id, nil } })
		begun := time.Now()
		expectExecuted(t, resend, 1)
		expectExecuted(t, behind, 1)
		if waited := time.Since(begun); waited > 5*time.Second {
			t.Errorf("they went on %v after the node was back", waited)
		}
		close(lost.done) // for the first one, which is followed still
	})
}

// hangs is what a submission ends with of which a node may have the bytes.
type hangs struct{ pending *lateReceipt }

func (*hangs) Error() string { return "no answer" }

// lateReceipt is a transaction that has no receipt until it is done.
type lateReceipt struct {
	submission
	used bool
	done chan struct{}
}

func (p *lateReceipt) Receipt(ctx context.Context) (consensus.Receipt, error) {
	select {
	case <-p.done:
		return consensus.Receipt{TransactionID: p.id, Status: hapi.ResponseCodeEnum_SUCCESS}, nil
	case <-ctx.Done():
		return consensus.Receipt{}, ctx.Err()
	}
}

// The same, when the fleet knows that the nonce is spent before the transaction has its second turn:
// nothing is sent then, and the client still hears that it was executed.
func TestLateTransactionIsFoundBeforeItsSecondTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, key := newNetwork(), newKey(t)
		late := &lateReceipt{done: make(chan struct{})}
		n.late = func(nonce uint64) *lateReceipt {
			if nonce == 1 && !late.used {
				late.used = true
				return late
			}
			return nil
		}
		pool := &lateFleet{diary: newDiary()}
		n.asked = func(nonce uint64) (bool, error) {
			pool.asked.Store(nonce == 1)
			return false, nil
		}
		pool.executed = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.nonces[senderOf(key)] = 2
			close(late.done)
		}
		s := newSubmitter(t, n, func(o *options) { o.pool = pool })
		expectExecuted(t, sendAll(t, s, key, 0, 1, 2), 3)
	})
}

// lateFleet learns that a transaction was executed when it is asked after the node was, which knew
// nothing of it.
type lateFleet struct {
	*diary
	asked    atomic.Bool
	once     sync.Once
	executed func()
}

func (f *lateFleet) Latest(context.Context, common.Address, uint64) uint64 {
	if !f.asked.Load() {
		return 0
	}
	f.once.Do(f.executed)
	return 2
}

// A turn that is lost while its holder waits for the verdict on those before it says nothing of them: the holder takes another turn.
func TestATurnLostWhileItWaitsLeadsToAnother(t *testing.T) {
	for _, async := range []bool{false, true} {
		bubble(t, fmt.Sprintf("async %v", async), func(t *testing.T) {
			n, told := newNetwork(), &promises{}
			n.delay = 4 * time.Second
			var locks *lock.Service
			s := newSubmitter(t, n, func(o *options) {
				o.submit.Async, o.promises = async, told
				o.lock.MaxOpen = 1
				o.locked = func(l *lock.Service) { locks = l }
			})
			key := newKey(t)
			results := sendAll(t, s, key, upTo(4)...)
			lost := 0
			for range 40 {
				time.Sleep(500 * time.Millisecond) //nolint:forbidigo // fake time
				if lost == 3 {
					break
				}
				if was, err := locks.ForceRelease(t.Context(), senderOf(key)); err != nil {
					t.Fatal(err)
				} else if was {
					lost++
				}
			}
			if lost == 0 {
				t.Error("no turn was lost")
			}
			for range 4 {
				if r := <-results; r.Err != nil {
					t.Error(r.Err)
				}
			}
			s.Drain(t.Context())
			if next := nextOf(n); next != 4 {
				t.Errorf("%d of 4 were executed", next)
			}
		})
	}
}
