package txmgr_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// halted waits until a signer is halted with a reason, and checks that nothing is signed meanwhile.
func (m *member) halted(account, reason string) (waiting string) {
	m.Helper()
	m.until("the signer is halted", func() bool {
		return slices.ContainsFunc(m.lanes(), func(l *txmgr.Lane) bool { return l.Signer == account && l.Halted != "" })
	})
	if got := m.lane(account).Halted; !strings.Contains(got, reason) {
		m.Errorf("it is halted because %s", got)
	}
	waiting = m.submit()
	m.asksOn()
	if got := m.get(waiting); got.Status != txmgr.StatusAccepted || len(got.Attempts) != 0 {
		m.Errorf("while the signer is halted, the intent is %s", got.Status)
	}
	return waiting
}

func (m *member) reconcile(account string, o txmgr.ReconcileOptions) {
	m.Helper()
	must.Get(m.m.Reconcile(m.Context(), "pool", account, "test", o))(m)
}

// oneSilent is a node of a chain with another endpoint, which does not answer.
type oneSilent struct {
	*poolNode
	silent *atomic.Bool
}

func (c oneSilent) HighestPending(ctx context.Context, account string) (latest, pending uint64, err error) {
	if c.silent.Load() {
		return 0, 0, errDown
	}
	return c.poolNode.HighestPending(ctx, account)
}

// TestSignerThatCannotBegin: a new signer that waits for an endpoint shows in readiness, though the chain answers.
func TestSignerThatCannotBegin(t *testing.T) {
	f := newFleet(t, "alice.test")
	var silent atomic.Bool
	silent.Store(true)
	f.change = func(o *txmgr.Options) { o.Chains[0] = oneSilent{o.Chains[0].(*poolNode), &silent} }
	m := f.start("one")
	told := func() (reasons []txmgr.Reason) {
		reasons = must.Get(m.m.Ready(t.Context()))(t)
		return reasons
	}
	m.until("readiness tells of it", func() bool {
		return slices.Contains(told(), txmgr.Reason{Upstream: "chain pool", Cause: "signers that cannot go on: 1; the log says why"})
	})
	silent.Store(false)
	m.until("nothing is wrong", func() bool { return len(told()) == 0 })
	m.mined(m.submit(), txmgr.StatusConfirmed)
}

// oneBehind is a node of a chain whose first endpoint does not know an account's last transactions yet.
type oneBehind struct {
	*poolNode
	behind *atomic.Bool
}

func (c oneBehind) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	n, err := c.poolNode.Nonces(ctx, account)
	if c.behind.Load() && n.Latest > 0 {
		n.Latest--
	}
	return n, err
}

// TestFirstUseOfWhoIsBehind: what one endpoint has executed and another does not know yet waits nowhere, so a new signer begins behind it.
func TestFirstUseOfWhoIsBehind(t *testing.T) {
	const account = "alice.test"
	f := newFleet(t, account)
	var behind atomic.Bool
	behind.Store(true)
	f.change = func(o *txmgr.Options) { o.Chains[0] = oneBehind{o.Chains[0].(*poolNode), &behind} }
	f.mu.Lock()
	f.next[account] = 5
	f.mu.Unlock()
	m := f.start("one")
	f.until("the signer has begun, or is halted", func() bool {
		return slices.ContainsFunc(f.lanes(), func(l *txmgr.Lane) bool { return l.Known || l.Halted != "" })
	})
	if lane := f.lane(account); lane.Halted != "" || lane.NextNonce != 5 {
		t.Errorf("its next nonce is %d, halted: %q", lane.NextNonce, lane.Halted)
	}
	behind.Store(false)
	m.mined(m.submit(), txmgr.StatusConfirmed)
}

// TestALedgerThatIsOnlyRead: a ledger that answers and takes no writes, as on a full disk, is of no use, and readiness tells.
func TestALedgerThatIsOnlyRead(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.Lease, f.settings.SendTimeout = envx.Millis(300*time.Millisecond), envx.Millis(100*time.Millisecond)
	m := f.begin("one")
	must.Get(m.m.Ready(t.Context()))(t)
	f.exec("CREATE TRIGGER full BEFORE UPDATE ON leases BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END")
	m.until("it is not ready", func() bool {
		reasons, err := m.m.Ready(t.Context())
		return err != nil && slices.Contains(reasons, txmgr.Reason{Upstream: "ledger", Cause: "it takes no writes"})
	})
	f.exec("DROP TRIGGER full")
	m.until("it is ready", func() bool { _, err := m.m.Ready(t.Context()); return err == nil })
}

// TestIdleAccountsAreLeft: the owner of an account that signs for itself lets it go once nothing of it is on its way, and no other process takes it
// up. When its caller comes back, to whichever process, its nonce is read again.
func TestIdleAccountsAreLeft(t *testing.T) {
	const account = "dora.test"
	f := newFleet(t, "alice.test")
	f.add(keyOf(account))
	f.prepare = func(m *txmgr.Manager) { m.LeaveIdleAfter(0) }
	one := f.begin("one")
	two := f.start("two")
	for turn, m := range []*member{one, two, one} {
		f.mu.Lock()
		f.next[account] += 2 // it has sent by other ways
		f.mu.Unlock()
		held, err := m.m.Acquire(t.Context(), "t", "pool", account)
		if want := uint64(turn+1) * 2; err != nil || held.Nonce != want {
			t.Fatalf("turn %d: the nonce is %+v, want %d: %v", turn, held, want, err)
		}
		f.until("it has an owner", func() bool { return f.lane(account).Owner != "" })
		if done, err := m.m.Recycle(t.Context(), "t", held.ID); err != nil || !done {
			t.Fatalf("recycled: %v, %v", done, err)
		}
		f.until("its owner leaves it", func() bool { return f.lane(account).Owner == "" })
		before := one.node.asked.Load() + two.node.asked.Load()
		f.until("the managers go on asking the chain", func() bool { return one.node.asked.Load()+two.node.asked.Load() >= before+20 })
		if owner := f.lane(account).Owner; owner != "" {
			t.Errorf("turn %d: nothing is on its way, and %s owns it", turn, owner)
		}
		f.exec("UPDATE signer_chains SET last_seen = last_seen - 3600000000 WHERE signer = $1", account) // an hour passes
	}
	if owned, _ := one.counted("txm_signer_owned", ""); owned != 2 {
		t.Errorf("of two accounts %v count as looked after", owned)
	}
}

// TestAdopt begins with a ledger that knows nothing and a pool that holds somebody else's transactions:
// the signer waits for an operator, and then goes on after them. One of them is dropped, so its nonce is
// filled, and what is behind it goes on.
func TestAdopt(t *testing.T) {
	const account = "alice.test"
	for name, row := range map[string]struct {
		drop []uint64
		ran  int // of the three
	}{
		"all are executed":             {nil, 3},
		"the first is dropped":         {[]uint64{0}, 2},
		"all are dropped":              {[]uint64{2, 1, 0}, 0},
		"one in the middle is dropped": {[]uint64{1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, account)
			for nonce := range uint64(3) {
				f.foreign(account, nonce, 10_000)
			}
			m := f.start("one")
			id := m.halted(account, "reconcile with adopt")
			if _, err := m.m.Reconcile(t.Context(), "pool", account, "test", txmgr.ReconcileOptions{}); !errors.Is(err, txmgr.ErrHalted) || !strings.Contains(fmt.Sprint(err), "3 transactions") {
				t.Errorf("without a word about what waits: %v", err)
			}
			m.reconcile(account, txmgr.ReconcileOptions{Adopt: true})
			if got := m.reaches(id, txmgr.StatusBroadcast); got.Nonce != 3 {
				t.Errorf("after three adopted transactions the intent has nonce %d", got.Nonce)
			}
			if got := m.lane(account); got.Pending != 4 || got.Gaps != 0 {
				t.Errorf("%d are pending, %d of them are gaps", got.Pending, got.Gaps)
			}
			for _, nonce := range row.drop {
				m.drop(account, nonce)
			}
			if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 3 {
				t.Errorf("the intent was executed with nonce %d", got.Nonce)
			}
			next := m.submit()
			m.mined(next, txmgr.StatusConfirmed)
			if n := m.ran()["foreign"]; n != row.ran {
				t.Errorf("%d of somebody else's transactions were executed, not %d", n, row.ran)
			}
			m.once(id, next)
			m.until("nothing is pending", func() bool { return m.lane(account).Pending == 0 })
		})
	}
}

// TestAdoptedStays has an adopted transaction wait for long: nothing takes its nonce.
func TestAdoptedStays(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.Reconcile, f.settings.ResendAfter = envx.Millis(poll), envx.Millis(poll)
	foreign := f.foreign("alice.test", 0, 1).hash()
	m := f.start("one")
	id := m.halted("alice.test", "reconcile with adopt")
	m.reconcile("alice.test", txmgr.ReconcileOptions{Adopt: true})
	m.reaches(id, txmgr.StatusBroadcast)
	f.age()
	for range 5 {
		m.asksOn()
	}
	if got := f.at("alice.test", 0); got != foreign {
		t.Errorf("the pool has %s in the place of somebody else's transaction", got)
	}
	m.mined(id, txmgr.StatusConfirmed)
}

// TestChainNonceIsFollowed has somebody else's transaction executed in a block that is not final: the lane says how far the chain is, long
// before the account is compared with it again.
func TestChainNonceIsFollowed(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.Reconcile, f.depth = envx.Millis(time.Hour), 3
	f.foreign("alice.test", 0, 10_000)
	m := f.start("one")
	id := m.halted("alice.test", "reconcile with adopt")
	m.reconcile("alice.test", txmgr.ReconcileOptions{Adopt: true})
	m.reaches(id, txmgr.StatusBroadcast)
	m.asksOn() // so it was compared
	m.mine()
	m.until("the lane knows that both are in a block", func() bool { return m.lane("alice.test").ChainNonce == 2 })
}

// TestUnknownTransactions: when transactions are found on the chain that the ledger does not know, at
// the beginning or too many at once, signing is halted until an operator reconciles.
func TestUnknownTransactions(t *testing.T) {
	const account = "alice.test"
	for name, row := range map[string]struct {
		count   uint64
		between bool // while no manager runs
	}{
		"one, while nobody looked": {1, true},
		"many, while one looks":    {65, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, account)
			m := f.begin("one")
			first := m.submit()
			m.mined(first, txmgr.StatusConfirmed)
			if row.between {
				m.stop()
			}
			for nonce := range row.count {
				f.foreign(account, 1+nonce, 10_000)
			}
			f.mine()
			if row.between {
				m = f.start("one")
			}
			id := m.halted(account, "unknown transactions of ours on chain")
			m.reconcile(account, txmgr.ReconcileOptions{})
			if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1+row.count {
				t.Errorf("the next nonce is %d", got.Nonce)
			}
			m.once(first, id)
		})
	}
}

// TestForeignBeyondTheReceipts has somebody else's transaction use our nonce in a block that the endpoint
// which is asked for receipts has not seen: its "none" proves nothing of what that block has, so nothing is
// signed again until it has.
func TestForeignBeyondTheReceipts(t *testing.T) {
	const account = "alice.test"
	f := newFleet(t, account)
	m := f.begin("one")
	id := m.submit(keepTrying)
	m.reaches(id, txmgr.StatusBroadcast)
	m.node.late.Store(2)
	f.foreign(account, 0, 1_000_000)
	f.mine()
	for range 2 {
		before := m.node.shown.Load()
		m.until("receipts were asked for", func() bool { return m.node.shown.Load() > before+3 || m.get(id).Status != txmgr.StatusBroadcast })
		got := m.get(id)
		if got.Status != txmgr.StatusBroadcast || got.Nonce != 0 || len(got.Attempts) != 1 || !strings.HasPrefix(got.Waiting, txmgr.ForeignPrefix) {
			t.Fatalf("it is %s with nonce %d and %d attempts, and waits: %s", got.Status, got.Nonce, len(got.Attempts), got.Waiting)
		}
		f.mine() // now the endpoint has what is one block before the consuming one
	}
	m.node.late.Store(0)
	if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1 {
		t.Errorf("it was executed with nonce %d", got.Nonce)
	}
	m.once(id)
}

// TestTimesSurviveRestart: how long a transaction has waited is counted from when it was signed and
// sent, whichever process did that.
func TestTimesSurviveRestart(t *testing.T) {
	hours := func(n int) envx.Millis { return envx.Millis(time.Duration(n) * time.Hour) }
	for name, row := range map[string]struct {
		bump, cancel envx.Millis
		purpose      txmgr.Purpose
		end          txmgr.Status
	}{
		"bump":   {hours(1), hours(10), txmgr.PurposeIntent, txmgr.StatusConfirmed},
		"cancel": {hours(1), hours(1), txmgr.PurposeCancel, txmgr.StatusCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.settings.BumpAfter, f.settings.CancelAfter = row.bump, row.cancel
			m := f.begin("one")
			id := m.submit()
			m.reaches(id, txmgr.StatusBroadcast)
			m.asksOn()
			if n := len(m.get(id).Attempts); n != 1 {
				t.Fatalf("a new transaction has %d attempts", n)
			}
			m.stop()
			const twoHours = int64(2 * 3600 * 1_000_000)
			f.exec("UPDATE attempts SET signed_at = signed_at - $1, sent_at = sent_at - $1", twoHours)
			f.exec("UPDATE slots SET sent_at = sent_at - $1, assigned_at = assigned_at - $1", twoHours)
			again := f.start("two")
			again.until("it has a second attempt", func() bool { return len(again.get(id).Attempts) == 2 })
			if got := again.get(id).Attempts[1].Purpose; got != row.purpose {
				t.Errorf("the second attempt is for %s", got)
			}
			again.until("the pool has it", func() bool { return again.at("alice.test", 0) == again.get(id).Attempts[1].Hash })
			again.mined(id, row.end)
		})
	}
}

// TestValidUntil passes when the transaction is signed and waits: it is cancelled.
func TestValidUntil(t *testing.T) {
	f := newFleet(t, "alice.test")
	m := f.begin("one")
	id := m.submit(func(r *txmgr.Request) { r.ValidUntil = time.Now().Add(10 * time.Hour).UnixMicro(); r.KeepTrying = true })
	m.reaches(id, txmgr.StatusBroadcast)
	m.asksOn()
	if n := len(m.get(id).Attempts); n != 1 {
		t.Fatalf("while it is valid it has %d attempts", n)
	}
	f.exec("UPDATE intents SET valid_until = 1")
	m.until("the pool has a cancel", func() bool {
		got := m.get(id)
		return len(got.Attempts) == 2 && got.Attempts[1].Purpose == txmgr.PurposeCancel && m.at("alice.test", 0) == got.Attempts[1].Hash
	})
	got := m.mined(id, txmgr.StatusCancelled)
	if n := m.ran()[string(got.Data)]; n != 0 {
		t.Errorf("what is not valid any more was executed %d times", n)
	}
}

// perSubject holds a budget of each intent's own.
type perSubject struct{}

const day = "2026-01-31"

func (perSubject) Allow(_ context.Context, i *txmgr.Intent, cost txmgr.Cost) ([]txmgr.Hold, error) {
	return []txmgr.Hold{{Scope: i.Subject, Day: day, Amount: cost.Total}}, nil
}

// TestFillIsCharged has a transaction refused for good when the next one is in the pool already: its
// nonce is filled, and its own budget pays for that.
func TestFillIsCharged(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) { o.Guard = perSubject{} }
	open := f.lockKeys()
	m := f.begin("one")
	subject := func(s string) func(*txmgr.Request) { return func(r *txmgr.Request) { r.Subject = s } }
	bad, good := m.submit(subject("bad")), m.submit(subject("good"))
	m.reaches(bad, txmgr.StatusAssigned)
	m.reaches(good, txmgr.StatusAssigned)
	data := string(m.get(bad).Data)
	m.refusing(func(tx wireTx) *txmgr.SendError {
		if string(tx.Data) == data {
			return &txmgr.SendError{Class: txmgr.ClassFatal, Text: "never"}
		}
		return nil
	})
	open.Store(true)
	m.reaches(bad, txmgr.StatusFailed)
	if got := m.mined(good, txmgr.StatusConfirmed); got.Nonce != 1 {
		t.Errorf("the good one has nonce %d", got.Nonce)
	}
	for _, scope := range []string{"bad", "good"} { // a fill, and a transaction
		var spent string
		m.until("the budget of "+scope+" is settled", func() bool {
			spent = must.Get(ledgertest.One[string](t, f.db, "SELECT held || ' ' || settled FROM spend WHERE scope = $1 AND day = $2", scope, day))(t)
			return spent != "" && !strings.HasSuffix(spent, " 0")
		})
		if spent != fmt.Sprint("0 ", wireGas*poolBaseFee) {
			t.Errorf("%s holds and has paid %s", scope, spent)
		}
	}
}
