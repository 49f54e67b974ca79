package submit_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/pending"
	"lockstep/lock"
	"lockstep/submit"
)

const (
	wholeBudget = 1_000_000
	fee         = 4_000
)

// newBudget runs a budget to which every transaction costs the fee. asked are the ids that
// it wants to know the fee of.
func newBudget(t *testing.T, total, perIP hedera.Tinybar) (b *limit.Budget, asked func() []hedera.TransactionID) {
	t.Helper()
	var mu sync.Mutex
	var ids []hedera.TransactionID
	b = must.Get(limit.New(limit.Config{Total: total, Basic: total, PerIP: perIP, Window: envx.Millis(24 * time.Hour), Plans: "[]"}, limit.Deps{
		Fees: func(id hedera.TransactionID, told func(hedera.Tinybar, bool)) {
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
			time.AfterFunc(time.Second, func() { told(fee, true) }) // as the mirror node does
		},
		Log: slog.New(slog.DiscardHandler),
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return b, func() []hedera.TransactionID {
		mu.Lock()
		defer mu.Unlock()
		return ids
	}
}

// spent reads what the budget counts as spent.
func spent(t *testing.T, b *limit.Budget) int {
	t.Helper()
	return counted(t, "rpc_relay_hbar_rate_total_limit", b.Collectors()) - counted(t, "rpc_relay_hbar_rate_remaining", b.Collectors())
}

// Every way a transaction can end settles its reservation: what reached consensus costs
// what the network says, whatever came of it; what did not costs nothing; and where nobody
// knows, the network is asked.
func TestBudgetIsSettledOnEveryPath(t *testing.T) {
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
	for name, test := range map[string]struct {
		fault   func(*network)
		charged bool
	}{
		"executed":          {nil, true},
		"reverted":          {status(hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED), true},
		"wrong nonce":       {status(hapi.ResponseCodeEnum_WRONG_NONCE), true}, // the network charges the payer
		"payer has nothing": {status(hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE), true},
		"no verdict":        {receipt(errors.New("no route to host")), true},
		"never executed":    {receipt(consensus.ErrReceiptNotFound), false},
		"refused by a node": {before(&consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY, Node: hedera.Entity(3)}), false},
		"not sent":          {before(&consensus.NotSentError{Err: errors.New("no node")}), false},
		"panic":             {func(n *network) { n.before = func(uint64, consensus.Submission) (bool, error) { panic("a bug") } }, true},
		"precheck fails":    {func(n *network) { n.balance = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				if test.fault != nil {
					test.fault(n)
				}
				budget, asked := newBudget(t, wholeBudget, wholeBudget)
				s := newSubmitter(t, n, func(o *options) { o.budget = budget })
				func() {
					defer func() { _ = recover() }()
					_ = s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err
				}()
				want := 0
				switch {
				case name == "panic":
					want = 85_200 // nobody knows the transaction; the estimate stays
				case test.charged:
					want = fee
				}
				ticker := time.NewTicker(10 * time.Millisecond)
				defer ticker.Stop()
				for end := time.Now().Add(20 * time.Second); spent(t, budget) != want; <-ticker.C {
					if time.Now().After(end) {
						t.Fatalf("%v is spent, want %v", spent(t, budget), want)
					}
				}
				if ids := asked(); test.charged && name != "panic" && (len(ids) != 1 || ids[0] != transactionID(1)) || !test.charged && len(ids) != 0 {
					t.Errorf("asked for the fees of %v", ids)
				}
			})
		})
	}
}

// Without room in the budget nothing is sent, the sender's turn passes on, and the client
// is told so.
func TestBudgetRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		budget, _ := newBudget(t, 100_000, 100_000) // room for one reservation
		s := newSubmitter(t, n, func(o *options) { o.budget = budget })
		hold := make(chan struct{})
		n.hold = hold
		key := newKey(t)
		first := make(chan error, 1)
		sent := make(chan struct{})
		n.before = func(uint64, consensus.Submission) (bool, error) {
			close(sent)
			return true, nil
		}
		go func() {
			err := s.Submit(context.Background(), transfer(t, key, 0)).Err
			first <- err
		}()
		<-sent
		for range 2 {
			err := s.Submit(t.Context(), transfer(t, key, 1)).Err
			var client *eth.Error
			if !errors.As(err, &client) || client.Code != eth.CodeHbarLimited || client.Message != "HBAR Rate limit exceeded" {
				t.Errorf("over the budget: %v", err)
			}
		}
		close(hold)
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		if n.attempts != 1 {
			t.Errorf("%d submissions", n.attempts)
		}
	})
}

// A transaction counts against the address of the client that sent it.
func TestBudgetOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type address struct{}
		budget, _ := newBudget(t, wholeBudget, 100_000)
		s := newSubmitter(t, newNetwork(), func(o *options) {
			o.budget = budget
			o.clientIP = func(ctx context.Context) string { return ctx.Value(address{}).(string) }
		})
		for _, test := range []struct {
			ip   string
			fine bool
		}{{"192.0.2.1", true}, {"192.0.2.1", false}, {"192.0.2.2", true}} {
			ctx := context.WithValue(t.Context(), address{}, test.ip)
			if err := s.Submit(ctx, transfer(t, newKey(t), 0)).Err; (err == nil) != test.fine {
				t.Errorf("from %s: %v", test.ip, err)
			}
		}
	})
}

// cabinet keeps files with call data. Every transaction about them has an id of its own.
type cabinet struct {
	takes   time.Duration // for a file
	stored  atomic.Int64
	failure error
	remains error // why a file cannot be deleted
	next    atomic.Int64
}

func (c *cabinet) id() hedera.TransactionID { return transactionID(1000 + int(c.next.Add(1))) }

func (c *cabinet) StoreFile(context.Context, common.Address, []byte, int) (submit.File, error) {
	c.stored.Add(1)
	time.Sleep(c.takes) //nolint:forbidigo // fake time
	if c.failure != nil {
		return nil, c.failure
	}
	return &folder{c, []hedera.TransactionID{c.id(), c.id()}}, nil
}

type folder struct {
	*cabinet
	paid []hedera.TransactionID
}

func (f *folder) ID() hedera.ID                        { return hedera.Entity(5000) }
func (f *folder) Transactions() []hedera.TransactionID { return f.paid }
func (f *folder) Remove(context.Context) error {
	f.paid = append(f.paid, f.id())
	return f.remains
}

// A file that cannot be deleted after its transaction is counted; the transaction is executed all the same.
func TestAFileThatIsLeftIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubmitter(t, newNetwork(), func(o *options) { o.files = &cabinet{remains: errors.New("the node is away")} })
		if err := s.Submit(t.Context(), deployment(t, newKey(t), 6000)).Err; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		left := counted(t, "rpc_relay_files_left_total", s.Collectors())
		if left != 1 {
			t.Errorf("%v files are counted as left", left)
		}
	})
}

// Files with call data cost, too: what they are expected to cost is set aside before they
// are made, and every transaction about them is charged.
func TestBudgetOfFiles(t *testing.T) {
	for name, test := range map[string]struct {
		total   hedera.Tinybar
		failure error
		stored  int64
		code    int // 0: the transaction is executed
		want    int
		fees    int
	}{
		"stored and deleted": {total: 20 * hedera.Hbar, stored: 1, want: 4 * fee, fees: 4},
		"too dear":           {total: 2 * hedera.Hbar, code: eth.CodeHbarLimited},
		"a node refuses":     {total: 20 * hedera.Hbar, stored: 1, failure: &consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY}, code: eth.CodeServerError},
		"consensus refuses": {
			total: 20 * hedera.Hbar, stored: 1, failure: &consensus.ReceiptError{Status: hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME, TransactionID: transactionID(7)},
			code: eth.CodeServerError, want: fee, fees: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				budget, asked := newBudget(t, test.total, test.total)
				files := &cabinet{failure: test.failure}
				s := newSubmitter(t, newNetwork(), func(o *options) { o.budget, o.files = budget, files })
				err := s.Submit(t.Context(), deployment(t, newKey(t), 6000)).Err
				var client *eth.Error
				if errors.As(err, &client); test.code == 0 && err != nil || test.code != 0 && (client == nil || client.Code != test.code) {
					t.Errorf("the answer is %v", err)
				}
				ticker := time.NewTicker(10 * time.Millisecond)
				defer ticker.Stop()
				for end := time.Now().Add(20 * time.Second); spent(t, budget) != test.want || len(asked()) != test.fees; <-ticker.C {
					if time.Now().After(end) {
						t.Fatalf("%v is spent, want %v; asked for %v", spent(t, budget), test.want, asked())
					}
				}
				if n := files.stored.Load(); n != test.stored {
					t.Errorf("%d files were made", n)
				}
			})
		})
	}
}

// A file costs the operator more than twenty rejections do. It is not paid for in front of a gap, nor twice for one nonce, and as often in vain
// as its sender has risks; an honest burst waits for its risks and is executed whole.
func TestFilesAreNotPaidForInVain(t *testing.T) {
	const count, budget = 40, 10
	same, rising := func(int) uint64 { return 0 }, func(i int) uint64 { return uint64(i) }
	for name, test := range map[string]struct {
		nonce          func(i int) uint64
		change         func(*options)
		network        func(*network)
		files, execute int
		refusal        string // a part of what the others are told
	}{
		"behind a gap":         {nonce: func(i int) uint64 { return uint64(5 + i) }, refusal: "Nonce too high"},
		"one nonce":            {nonce: same, files: 1, execute: 1, refusal: "Nonce too low"},
		"without ordering":     {nonce: same, change: unordered, files: 1, execute: 1, refusal: "Nonce too low"},
		"an honest burst":      {nonce: rising, files: count, execute: count},
		"… from its end":       {nonce: func(i int) uint64 { return uint64(count - 1 - i) }, files: count, execute: count},
		"for want of funds":    {nonce: rising, network: poor, files: budget, execute: 1, refusal: "Insufficient funds"},
		"… without a pool":     {nonce: rising, network: poor, change: func(o *options) { o.pool = pending.Disabled(nil) }, files: budget, execute: 1, refusal: "Insufficient funds"},
		"refused at consensus": {nonce: same, network: refuses(hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID), files: budget, refusal: "INVALID_ACCOUNT_ID"},
	} {
		bubble(t, name, func(t *testing.T) {
			n, key, files := newNetwork(), newKey(t), &cabinet{takes: 5 * time.Second}
			n.delay = 100 * time.Millisecond
			if test.network != nil {
				test.network(n)
			}
			s := newSubmitter(t, n, func(o *options) {
				pooled(o)
				o.files, o.nonces = files, limit.NewWrongNonces(limit.Config{WrongNonces: budget}, nil)
				if test.change != nil {
					test.change(o)
				}
			})
			results := make(chan submit.Result, count)
			for i := range count {
				go func() { results <- s.Submit(t.Context(), deploymentAt(t, key, test.nonce(i), int64(i))) }()
				synctest.Wait()
			}
			executed := 0
			told := false
			for range count {
				switch r := <-results; {
				case r.Outcome == submit.Executed:
					executed++
				case r.Err == nil:
					t.Errorf("%v without an error", r.Outcome)
				case strings.Contains(r.Err.Error(), test.refusal):
					told = true
				case !strings.Contains(r.Err.Error(), eth.ErrWrongNonces.Message) && !strings.Contains(r.Err.Error(), "Nonce too high"):
					t.Error(r.Err)
				}
			}
			if got := int(files.stored.Load()); got > test.files || executed != test.execute {
				t.Errorf("%d files were paid for and %d transactions executed, want %d and %d", got, executed, test.files, test.execute)
			}
			if !told && test.execute < count {
				t.Errorf("nobody is told %q", test.refusal)
			}
		})
	}
}

// poor can pay for one transaction.
func poor(n *network) {
	n.balance = hedera.Hbar
	n.before = func(uint64, consensus.Submission) (bool, error) {
		n.balance -= 71 * hedera.Hbar / 100
		return true, nil
	}
}

func refuses(status hedera.Status) func(*network) {
	return func(n *network) { n.verdict = func(uint64) (hedera.Status, error) { return status, nil } }
}

// deployment signs a transaction with call data of some length.
func deployment(t *testing.T, key *ecdsa.PrivateKey, size int) []byte {
	t.Helper()
	return signed(t, key, &types.DynamicFeeTx{
		ChainID: chainID, Gas: 1_000_000, GasFeeCap: price, To: &receiver, Data: bytes.Repeat([]byte{1}, size),
	})
}

// deploymentAt signs one with a nonce and a value of its own.
func deploymentAt(t *testing.T, key *ecdsa.PrivateKey, nonce uint64, tinybars int64) []byte {
	t.Helper()
	return signed(t, key, &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, Gas: 1_000_000, GasFeeCap: price, To: &receiver, Data: bytes.Repeat([]byte{1}, 6000), Value: hedera.Tinybar(tinybars).Weibar(),
	})
}

func signed(t *testing.T, key *ecdsa.PrivateKey, tx *types.DynamicFeeTx) []byte {
	t.Helper()
	raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), tx).MarshalBinary())(t)
	return raw
}

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
