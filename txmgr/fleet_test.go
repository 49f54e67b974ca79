package txmgr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
)

// fleet is a ledger and a pool with managers on them, each of which stands for a process.
type fleet struct {
	*testing.T
	*pool
	db       *ledger.DB
	store    txmgr.Store
	keys     []keyed
	settings txmgr.Config
	change   func(*txmgr.Options) // of every manager
	prepare  func(*txmgr.Manager) // before it runs
}

// member is one manager.
type member struct {
	*fleet
	m    *txmgr.Manager
	node *poolNode
	stop func() // and wait for its end
}

const poll = 30 * time.Millisecond

// newFleet is a fleet without a manager whose signers have these names. Nothing grows old in it,
// unless a test says so.
func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), "memory:"))(t)
	t.Cleanup(func() { _ = db.Close() })
	store := must.Get(sqlstore.New(t.Context(), db))(t)
	f := &fleet{T: t, db: db, store: store, settings: txmgr.Defaults()}
	for _, name := range names {
		f.keys = append(f.keys, keyOf(name))
	}
	f.pool = newPool(f.keys...)
	f.settings.Poll, f.settings.Reconcile = envx.Millis(poll), envx.Millis(50*time.Millisecond)
	hours := envx.Millis(100 * time.Hour)
	f.settings.ResendAfter, f.settings.BumpAfter, f.settings.CancelAfter = hours, hours, hours
	return f
}

// open makes a manager that does not run yet.
func (f *fleet) open(name string) (*txmgr.Manager, *poolNode, error) {
	log := slog.New(slog.DiscardHandler)
	node := &poolNode{node{pool: f.pool}}
	o := txmgr.Options{Config: f.settings, Store: f.store, Chains: []txmgr.Chain{node}, Log: log, Leases: lease.NewHolder(f.db, "txm", name, 0, log)}
	o.Config.Instance = name
	for _, k := range f.keys {
		o.Keys = append(o.Keys, k)
	}
	if f.change != nil {
		f.change(&o)
	}
	m, err := txmgr.New(o)
	if err == nil && f.prepare != nil {
		f.prepare(m)
	}
	return m, node, err
}

// start runs a manager until the test or stop ends it.
func (f *fleet) start(name string) *member {
	f.Helper()
	m, node := must.Get2(f.open(name))(f)
	return &member{fleet: f, m: m, node: node, stop: must.Run(f, m.Run)}
}

// begin starts a manager and waits until it knows every signer's nonce.
func (f *fleet) begin(name string) *member {
	f.Helper()
	m := f.start(name)
	f.until("every signer's nonce and money are known", func() bool {
		lanes := f.lanes()
		return len(lanes) == len(f.keys) && !slices.ContainsFunc(lanes, func(l *txmgr.Lane) bool { return !l.Known || l.Owner == "" || l.Balance == nil })
	})
	return m
}

// until waits for a condition.
func (f *fleet) until(what string, holds func() bool) {
	f.Helper()
	must.Until(f, what, holds)
}

func (f *fleet) lanes() []*txmgr.Lane {
	f.Helper()
	return must.Get(f.store.Lanes(f.Context(), "pool"))(f)
}

func (f *fleet) lane(name string) *txmgr.Lane {
	f.Helper()
	return must.Get(f.store.Lane(f.Context(), "pool", name))(f)
}

// broke reports whether a signer is known to have nothing. Its nonce may be known before its balance is.
func (f *fleet) broke(name string) bool {
	f.Helper()
	balance := f.lane(name).Balance
	return balance != nil && balance.Sign() == 0
}

func (f *fleet) get(id string) *txmgr.Transaction {
	f.Helper()
	return must.Get(f.store.Get(f.Context(), "", id))(f)
}

// exec changes the ledger behind the managers' backs, as time does.
func (f *fleet) exec(statement ledger.SQL, args ...any) {
	f.Helper()
	must.Do(f, f.db.Write(f.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(f.Context(), statement, args...)
		return err
	}))
}

func (f *fleet) reaches(id string, want txmgr.Status) *txmgr.Transaction {
	f.Helper()
	f.until("intent "+id+" is "+string(want), func() bool { return f.get(id).Status == want })
	return f.get(id)
}

// asksOn waits until a manager has asked its chain several times more.
func (m *member) asksOn() {
	m.Helper()
	before := m.node.asked.Load()
	m.until("the manager goes on asking its chain", func() bool { return m.node.asked.Load() >= before+10 })
}

// lockedKey signs when it is open.
type lockedKey struct {
	keyed
	open *atomic.Bool
}

func (k lockedKey) Sign(ctx context.Context, unsigned []byte) ([]byte, error) {
	if !k.open.Load() {
		return nil, errors.New("the key is locked")
	}
	return k.keyed.Sign(ctx, unsigned)
}

// lockKeys makes managers that start afterwards sign nothing until it is told.
func (f *fleet) lockKeys() (open *atomic.Bool) {
	open = new(atomic.Bool)
	before := f.change
	f.change = func(o *txmgr.Options) {
		if before != nil {
			before(o)
		}
		for n, k := range f.keys {
			o.Keys[n] = lockedKey{k, open}
		}
	}
	return open
}

// mined lets blocks pass until an intent has a status.
func (f *fleet) mined(id string, want txmgr.Status) *txmgr.Transaction {
	f.Helper()
	f.until("intent "+id+" is "+string(want), func() bool {
		if f.get(id).Status == want {
			return true
		}
		f.mine()
		return false
	})
	return f.get(id)
}

// once checks that every one of some intents was executed once, and nothing else of ours twice.
func (f *fleet) once(ids ...string) {
	f.Helper()
	ran := f.ran()
	for _, id := range ids {
		if n := ran[string(f.get(id).Data)]; n != 1 {
			f.Errorf("intent %s was executed %d times", id, n)
		}
	}
}

// request is one whose data no other has.
func request(change ...func(*txmgr.Request)) txmgr.Request {
	r := txmgr.Request{Chain: "pool", To: "carol.test", Value: big.NewInt(1), Data: []byte(uuid.NewString())}
	for _, one := range change {
		one(&r)
	}
	return r
}

func (m *member) submit(change ...func(*txmgr.Request)) string {
	m.Helper()
	intent := must.Get(m.m.Submit(m.Context(), request(change...)))(m)
	return intent.ID
}

// counted returns a metric's sum of values, or of samples for a histogram, and how many of those: of the series with a label's value, of all for "".
func (m *member) counted(name, label string) (sum float64, n uint64) {
	m.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.m.Collectors()...)
	families := must.Get(registry.Gather())(m)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if label != "" && !slices.ContainsFunc(one.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
				continue
			}
			sum += one.GetHistogram().GetSampleSum() + one.GetGauge().GetValue() + one.GetCounter().GetValue()
			n += one.GetHistogram().GetSampleCount()
		}
	}
	return sum, n
}

// TestKillSwitchOfPool turns a pool off when one of its transactions is sent, and another one has a
// nonce and no signature: the first is followed to its end, the second gives its nonce to others.
func TestKillSwitchOfPool(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) { o.Pools = map[string][]string{"vip": {"alice.test"}} }
	vip := func(r *txmgr.Request) { r.Pool = "vip" }
	m, sent, assigned, open := signedAndAssigned(f, vip)
	off := func(on bool) {
		t.Helper()
		must.Do(t, m.m.Kill(t.Context(), txmgr.PoolScope("pool", "vip"), "test", "a test", on))
	}
	off(true)
	open.Store(true)
	m.reaches(assigned, txmgr.StatusAccepted)
	if _, err := m.m.Submit(t.Context(), request(vip)); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent for the pool: %v", err)
	}
	other := m.submit()
	m.mined(other, txmgr.StatusConfirmed) // the nonce before its own is not left open
	m.reaches(sent, txmgr.StatusConfirmed)
	if got := m.get(assigned); got.Status != txmgr.StatusAccepted || len(got.Attempts) != 0 {
		t.Errorf("while its pool is off, the intent is %s with %d attempts", got.Status, len(got.Attempts))
	}
	off(false)
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned, other)
}

// TestKillSwitchOfSigner turns a signer off: it signs nothing, another one serves what comes, and what
// it has sent is followed to its end.
func TestKillSwitchOfSigner(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	pin := func(r *txmgr.Request) { r.Pin = "alice.test" }
	m, sent, assigned, open := signedAndAssigned(f, pin)
	scope := txmgr.SignerScope("pool", "alice.test")
	must.Do(t, m.m.Kill(t.Context(), scope, "test", "a test", true))
	open.Store(true)
	if _, err := m.m.Submit(t.Context(), request(pin)); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent for the signer: %v", err)
	}
	other := m.submit()
	if got := m.mined(other, txmgr.StatusConfirmed); got.Signer != "bob.test" {
		t.Errorf("the signer that is off was used: %s", got.Signer)
	}
	m.reaches(sent, txmgr.StatusConfirmed)
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("the signer that is off has signed: the intent is %s", got.Status)
	}
	must.Do(t, m.m.Kill(t.Context(), scope, "test", "", false))
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned, other)
}

// signedAndAssigned has one intent that is sent, and one with a nonce and no signature, whose key is locked.
func signedAndAssigned(f *fleet, change ...func(*txmgr.Request)) (m *member, sent, assigned string, open *atomic.Bool) {
	f.Helper()
	open = f.lockKeys()
	open.Store(true)
	m = f.begin("one")
	sent = m.submit(change...)
	m.reaches(sent, txmgr.StatusBroadcast)
	open.Store(false)
	assigned = m.submit(change...)
	m.reaches(assigned, txmgr.StatusAssigned)
	return m, sent, assigned, open
}

// TestKillSwitchOfAll turns everything off: nothing is accepted or signed, what is sent is followed to its end, and all goes on
// afterwards.
func TestKillSwitchOfAll(t *testing.T) {
	f := newFleet(t, "alice.test")
	m, sent, assigned, open := signedAndAssigned(f)
	off := func(on bool) {
		t.Helper()
		must.Do(t, m.m.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", on))
	}
	off(true)
	open.Store(true)
	if _, err := m.m.Submit(t.Context(), request()); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent: %v", err)
	}
	if _, err := m.m.Acquire(t.Context(), "", "pool", "alice.test"); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("a reservation: %v", err)
	}
	m.mined(sent, txmgr.StatusConfirmed)
	m.asksOn()
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("while all is off, something was signed: the intent is %s", got.Status)
	}
	m.until("it says why", func() bool { return m.get(assigned).Waiting == "killed: the kill switch is on" })
	off(false)
	if got := m.mined(assigned, txmgr.StatusConfirmed); got.Waiting != "" {
		t.Errorf("it is executed, and waits: %s", got.Waiting)
	}
	m.once(sent, assigned)
}

// TestTimePassesWhileSignersAreOff: what may not be executed any more ends, also while the only signer may sign nothing: an intent of the
// queue, one that has a nonce, and one whose predecessor has failed.
func TestTimePassesWhileSignersAreOff(t *testing.T) {
	f := newFleet(t, "alice.test")
	_ = f.lockKeys()
	m := f.begin("one")
	soon := func(r *txmgr.Request) { r.ValidUntil = time.Now().Add(5 * time.Second).UnixMicro() }
	assigned := m.submit(soon)
	must.Do(t, m.m.Kill(t.Context(), txmgr.SignerScope("pool", "alice.test"), "test", "a test", true))
	queued := m.submit(soon, func(r *txmgr.Request) { r.OrderKey = "a" })
	follower := m.submit(func(r *txmgr.Request) { r.OrderKey, r.OnFailure = "a", txmgr.OnFailureStop })
	m.reaches(assigned, txmgr.StatusExpired)
	m.reaches(queued, txmgr.StatusExpired)
	m.reaches(follower, txmgr.StatusCancelled)
}

// TestDisabled: with RELAYER_ENABLED=false a manager refuses intents and signs nothing; what is signed it follows to its end.
func TestDisabled(t *testing.T) {
	f := newFleet(t, "alice.test")
	m, sent, assigned, open := signedAndAssigned(f)
	m.stop()
	open.Store(true)
	f.settings.Enabled = false
	m = f.begin("one")
	if _, err := m.m.Submit(t.Context(), request()); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent: %v", err)
	}
	m.mined(sent, txmgr.StatusConfirmed)
	m.asksOn()
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("a manager that is not enabled has signed: the intent is %s", got.Status)
	}
	m.stop()
	f.settings.Enabled = true
	m = f.begin("one")
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned)
}

// TestWaitingSaysWhy: an intent whose only signers are halted or off says so, also while none of their owners may sign, and no
// longer when one of them works.
func TestWaitingSaysWhy(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	says := func(id, want string) {
		t.Helper()
		m.until(id+" says "+want, func() bool { return m.get(id).Waiting == want })
	}
	f.exec("UPDATE signer_chains SET halted = 'a test' WHERE signer = 'alice.test'")
	must.Do(t, operated("bob.test", txmgr.Operation{Enabled: new(false), Reason: "rest"})(m))
	free, pinned := m.submit(), m.submit(func(r *txmgr.Request) { r.Pin = "alice.test" })
	says(free, "halted: a test; paused: rest")
	says(pinned, "halted: a test")
	f.exec("UPDATE signer_chains SET halted = 'another' WHERE signer = 'bob.test'")
	says(free, "halted: a test; halted: another")
	m.until("the intent is not written again, since nothing changes", func() bool {
		before := m.get(free).Updated
		m.asksOn()
		return m.get(free).Updated == before
	})
	says(free, "halted: a test; halted: another")
	f.exec("UPDATE signer_chains SET halted = ''")
	if got := m.mined(pinned, txmgr.StatusConfirmed); got.Waiting != "" {
		t.Errorf("it is executed, and waits: %s", got.Waiting)
	}
	m.mined(free, txmgr.StatusConfirmed)
}

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
	other := lease.NewHolder(f.db, "txm", "two", time.Hour, slog.New(slog.DiscardHandler))
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
		o.Leases = lease.NewHolder(f.db, "txm", o.Config.Instance, time.Hour, o.Log)
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

// TestLockedSigner has a caller who has a signer alone: another signer serves what comes, what is pinned waits, and goes on
// after the lock.
func TestLockedSigner(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	lock := must.Get(m.m.Lock(t.Context(), "", "pool", "alice.test"))(t)
	f.exec("UPDATE signer_chains SET lock_until = lock_until * 2 WHERE lock_until > 0") // however slow the machine is
	f.exec("UPDATE reservations SET expires_at = expires_at * 2")
	if _, err := m.m.Acquire(t.Context(), "", "pool", "alice.test"); !errors.Is(err, txmgr.ErrLocked) {
		t.Errorf("a nonce of a signer that somebody has alone: %v", err)
	}
	pinned := m.submit(func(r *txmgr.Request) { r.Pin = "alice.test" })
	for _, id := range []string{m.submit(), m.submit(), m.submit(), m.submit()} { // more than the locked signer has pending
		if got := m.reaches(id, txmgr.StatusBroadcast); got.Signer != "bob.test" {
			t.Errorf("%s serves, which somebody has alone", got.Signer)
		}
	}
	m.asksOn()
	if got := m.get(pinned); got.Status != txmgr.StatusAccepted {
		t.Errorf("a pinned intent is %s", got.Status)
	}
	if done, err := m.m.Unlock(t.Context(), "", "pool", "alice.test", lock.LockID); err != nil || !done {
		t.Fatalf("unlocked: %v, %v", done, err)
	}
	if got := m.mined(pinned, txmgr.StatusConfirmed); got.Nonce != lock.Nonce {
		t.Errorf("the nonce of the lock, %d, was not given back; the intent has %d", lock.Nonce, got.Nonce)
	}
}
