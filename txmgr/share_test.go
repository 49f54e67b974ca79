package txmgr_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// preferredBy returns the name of a signer that one of some managers owns while all of them live.
func preferredBy(instance string, instances ...string) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("signer%d.test", n)
		if lease.Preferred("txm:pool:"+name, instances) == instance {
			return name
		}
	}
}

// TestStaleLaneIsPassedOver cuts one process off its chain. It keeps its leases, but what comes
// then goes to the signer of the other process.
func TestStaleLaneIsPassedOver(t *testing.T) {
	cut, well := preferredBy("one", "one", "two"), preferredBy("two", "one", "two")
	f := newFleet(t, cut, well)
	one, two := f.start("one"), f.start("two")
	f.until("each process owns its signer", func() bool {
		return len(f.lanes()) == 2 && !slices.ContainsFunc(f.lanes(), func(l *txmgr.Lane) bool {
			want := map[string]string{cut: "one/", well: "two/"}[l.Signer]
			return !l.Known || len(l.Owner) < 4 || l.Owner[:4] != want
		})
	})
	one.node.down.Store(true)
	var ids []string
	for range 6 { // dealt to both in turn
		ids = append(ids, two.submit())
	}
	for _, id := range ids {
		if got := f.mined(id, txmgr.StatusConfirmed); got.Signer != well {
			t.Errorf("intent %s has signer %s", id, got.Signer)
		}
	}
	if l := f.lane(cut); l.Owner == "" || l.Owner[:4] != "one/" {
		t.Errorf("the process that is cut off has lost its lease: the owner is %q", l.Owner)
	}
	// What is pinned to a signer waits for it, and the signer serves again when it is back.
	pinned := two.submit(func(r *txmgr.Request) { r.Pin = cut })
	if got := f.get(pinned); got.Status != txmgr.StatusAccepted {
		t.Errorf("what is pinned to the signer is %s", got.Status)
	}
	one.node.down.Store(false)
	f.mined(pinned, txmgr.StatusConfirmed)
	f.once(append(ids, pinned)...)
}

// operated has an operator change a signer.
func operated(signer string, o txmgr.Operation) func(*member) error {
	return func(m *member) error {
		_, err := m.m.Operate(m.Context(), "pool", signer, "test", o)
		return err
	}
}

// TestPassedOverSigners has one of two signers that may not get anything new, for every reason
// there is: the other one gets all, though it has more on its way.
func TestPassedOverSigners(t *testing.T) {
	const out, well = "alice.test", "bob.test"
	pin := func(r *txmgr.Request) { r.Pin = out }
	for name, row := range map[string]struct {
		settings func(*txmgr.Config)
		exclude  func(*member) error
		again    func(*member) error
	}{
		"paused":      {exclude: operated(out, txmgr.Operation{Enabled: new(false), Reason: "a test"}), again: operated(out, txmgr.Operation{Enabled: new(true)})},
		"draining":    {exclude: operated(out, txmgr.Operation{Draining: new(true)}), again: operated(out, txmgr.Operation{Draining: new(false)})},
		"low balance": {exclude: operated(out, txmgr.Operation{MinBalance: big.NewInt(poolMoney + 1)}), again: operated(out, txmgr.Operation{MinBalance: big.NewInt(poolMoney)})},
		"errors in a row": {
			settings: func(c *txmgr.Config) { c.ErrorStreak, c.ResendAfter = 3, envx.Millis(poll) },
			exclude: func(m *member) error {
				m.refusing(func(tx wireTx) *txmgr.SendError {
					if tx.From == out {
						return &txmgr.SendError{Class: txmgr.ClassPoolPolicy, Text: "not now"}
					}
					return nil
				})
				m.submit(pin)
				m.until("the streak is long", func() bool { return m.lane(out).Streak >= 3 })
				return nil
			},
			again: func(m *member) error { m.refusing(nil); return nil },
		},
		"delegated to code, with one on its way": {
			exclude: func(m *member) error {
				m.pool.mu.Lock()
				m.delegated[out] = true
				m.pool.mu.Unlock()
				m.until("the delegation is seen", func() bool { return m.lane(out).Delegated })
				m.reaches(m.submit(pin), txmgr.StatusBroadcast)
				return nil
			},
			again: func(m *member) error { return nil }, // when the one is mined
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, out, well)
			if row.settings != nil {
				row.settings(&f.settings)
			}
			m := f.begin("one")
			must.Do(t, row.exclude(m))
			for range 4 {
				if got := m.reaches(m.submit(), txmgr.StatusBroadcast); got.Signer != well {
					t.Errorf("intent %s has signer %s", got.ID, got.Signer)
				}
			}
			pinned := m.submit(pin)
			m.asksOn()
			if got := m.get(pinned); got.Signer != "" {
				t.Errorf("what is pinned to the signer is %s", got.Status)
			}
			must.Do(t, row.again(m))
			m.mined(pinned, txmgr.StatusConfirmed)
		})
	}
}

// TestDelegatedWindow: an account that is delegated to code has one transaction in flight, others as
// many as the setting says, or the chain.
func TestDelegatedWindow(t *testing.T) {
	for name, row := range map[string]struct {
		delegated     bool
		setting, want int
	}{
		"the chain's":             {false, 0, 16},
		"the setting":             {false, 3, 3},
		"delegated":               {true, 0, 1},
		"delegated, with setting": {true, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.settings.InFlight = row.setting
			f.delegated["alice.test"] = row.delegated
			m := f.begin("one")
			var ids []string
			for range row.want + 4 {
				ids = append(ids, m.submit())
			}
			broadcast := func() (n int) {
				list, _ := must.Get2(f.store.Find(t.Context(), txmgr.Query{Status: txmgr.StatusBroadcast}))(t)
				return len(list)
			}
			f.until("the window is full", func() bool { return broadcast() >= row.want })
			m.asksOn()
			if n := broadcast(); n != row.want {
				t.Errorf("%d are in flight, not %d", n, row.want)
			}
			for _, id := range ids {
				f.mined(id, txmgr.StatusConfirmed)
			}
			f.once(ids...)
		})
	}
}

// TestOrderByConfirmed: a successor goes to another signer when its predecessor is mined, or by the
// setting only when that block is final.
func TestOrderByConfirmed(t *testing.T) {
	for name, confirmed := range map[string]bool{"mined": false, "confirmed": true} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test", "bob.test")
			f.settings.OrderByConfirmed, f.depth = confirmed, 3
			m := f.begin("one")
			order := func(r *txmgr.Request) { r.OrderKey = "trader" }
			first := m.submit(order)
			signer := m.reaches(first, txmgr.StatusBroadcast).Signer
			m.mine()
			m.reaches(first, txmgr.StatusMined)
			must.Do(t, operated(signer, txmgr.Operation{Draining: new(true)})(m))
			second := m.submit(order)
			if confirmed {
				m.reaches(m.submit(), txmgr.StatusBroadcast) // it came later and was assigned with the second in sight
				if got := m.get(second); got.Signer != "" || m.get(first).Final {
					t.Errorf("before its predecessor is final, the successor is %s", got.Status)
				}
				m.mined(first, txmgr.StatusConfirmed)
			}
			if got := m.reaches(second, txmgr.StatusBroadcast); got.Signer == signer {
				t.Errorf("the draining signer %s was used", signer)
			}
			if m.get(first).Final != confirmed {
				t.Errorf("the predecessor is final: %v", !confirmed)
			}
			m.mined(second, txmgr.StatusConfirmed)
			m.once(first, second)
		})
	}
}

// TestAllowedSigners: no key beside those of the list becomes a signer, from the start or later.
func TestAllowedSigners(t *testing.T) {
	for name, row := range map[string]struct {
		allowed []string
		first   bool // of alice, at the start
		later   bool // of bob
	}{
		"no list":     {nil, true, true},
		"both":        {[]string{"bob.test", "alice.test"}, true, true},
		"the first":   {[]string{"alice.test"}, true, false},
		"another one": {[]string{"bob.test"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.settings.AllowedSigners = row.allowed
			m, _, err := f.open("one")
			if (err == nil) != row.first {
				t.Fatalf("a manager with the first key: %v", err)
			}
			if err != nil {
				return
			}
			if err := m.AddSigner(t.Context(), keyOf("bob.test")); (err == nil) != row.later {
				t.Errorf("another key: %v", err)
			}
			if got := m.OwnsKey("bob.test"); got != row.later {
				t.Errorf("the other key is one of ours: %v", got)
			}
		})
	}
}

// counting counts how often lanes were shared out.
type counting struct {
	txmgr.Store
	lists *atomic.Int64
}

func (c counting) Lanes(ctx context.Context, chain string) ([]*txmgr.Lane, error) {
	c.lists.Add(1)
	return c.Store.Lanes(ctx, chain)
}

// TestLeaseWait: the metric of the wait for a lease counts from the first wish, not from the last try.
func TestLeaseWait(t *testing.T) {
	f := newFleet(t, "alice.test")
	must.Get(f.store.AddLane(t.Context(), txmgr.Lane{Chain: "pool", Signer: "alice.test", Ours: true}))(t)
	other := lease.NewKeeper(f.db, "txm", "two", lease.Options{TTL: time.Hour}, slog.New(slog.DiscardHandler))
	held := must.Get(other.Acquire(t.Context(), "txm:pool:alice.test"))(t)
	var lists atomic.Int64
	f.change = func(o *txmgr.Options) { o.Store = counting{f.store, &lists} }
	m := f.start("one")
	// The second list begins when the wish of the first is known.
	f.until("the lane is wanted", func() bool { return lists.Load() >= 2 })
	wanted := time.Now()
	f.until("some time has passed", func() bool { return time.Since(wanted) > 300*time.Millisecond })
	waited := time.Since(wanted)
	must.Do(t, held.Release(t.Context()))
	f.until("the lease is here", func() bool { _, n := m.counted("txm_lease_wait_seconds", ""); return n == 1 })
	if sum, _ := m.counted("txm_lease_wait_seconds", ""); sum < waited.Seconds() {
		t.Errorf("the wait was %v s and more, and %v s are counted", waited.Seconds(), sum)
	}
}

// TestLateSignOfLife has a process that renews nothing for so long that the ledger does not count it among the living. While there is no other, it
// keeps its signers: who gave them up would begin anew, and at the queue's top.
func TestLateSignOfLife(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) {
		o.Leases = lease.NewKeeper(f.db, "txm", o.Config.Instance, lease.Options{TTL: time.Hour}, o.Log)
	}
	m := f.begin("one")
	before := f.term("alice.test")
	shows := func(at int64) { f.exec("UPDATE leases SET expires_at = $1 WHERE name = 'node:txm:one'", at) }
	shows(1)
	m.m.Wake("pool") // it looks at once whose the signers are
	m.asksOn()
	shows(1 << 60)
	f.mined(m.submit(), txmgr.StatusConfirmed)
	if now := f.term("alice.test"); now != before {
		t.Errorf("its signer's term was %d and is %d", before, now)
	}
}

// term is the newest of a signer.
func (f *fleet) term(signer string) (term int64) {
	f.Helper()
	must.Do(f, f.db.Read(f.Context(), func(tx *ledger.Tx) error {
		_, err := tx.One(f.Context(), "SELECT term FROM leases WHERE name = $1 AND owner <> ''", []any{"txm:pool:" + signer}, &term)
		return err
	}))
	return term
}
