package txmgr_test

import (
	"context"
	"errors"
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
	o := txmgr.Options{Config: f.settings, Store: f.store, Chains: []txmgr.Chain{node}, Log: log, Leases: lease.NewKeeper(f.db, "txm", name, lease.Options{}, log)}
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stopped := false
	out := &member{fleet: f, m: m, node: node}
	out.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			f.Error(err)
		}
	}
	f.Cleanup(out.stop)
	return out
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
	ctx, cancel := context.WithTimeout(f.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Fatalf("never: %s", what)
		}
	}
}

func (f *fleet) lanes() []*txmgr.Lane {
	f.Helper()
	lanes := must.Get(f.store.Lanes(f.Context(), "pool"))(f)
	return lanes
}

func (f *fleet) lane(name string) *txmgr.Lane {
	f.Helper()
	lane := must.Get(f.store.Lane(f.Context(), "pool", name))(f)
	return lane
}

// broke reports whether a signer is known to have nothing. Its nonce may be known before its balance is.
func (f *fleet) broke(name string) bool {
	f.Helper()
	balance := f.lane(name).Balance
	return balance != nil && balance.Sign() == 0
}

func (f *fleet) get(id string) *txmgr.Transaction {
	f.Helper()
	t := must.Get(f.store.Get(f.Context(), "", id))(f)
	return t
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
