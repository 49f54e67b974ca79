package txmgr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/metric"
	"lockstep/internal/outage"
)

// Guard decides whether a request may be accepted: policies, rate limits, budgets. It runs
// after the simulation and before anything is stored.
type Guard interface {
	// Allow returns the budgets to hold for an intent whose maximum cost is the given sum, or
	// an error that is an ErrPolicy or ErrBudget.
	Allow(ctx context.Context, intent *Intent, cost Cost) ([]Hold, error)
}

// Options are the parts of a Manager.
type Options struct {
	Config Config
	Store  Store
	Leases *lease.Holder
	Chains []Chain
	Keys   []Key               // signers from the start; AddSigner adds more
	Pools  map[string][]string // pool → accounts; "default" holds every key
	Guard  Guard               // nil: everything is allowed
	Waker  Waker               // nil: other processes find what is accepted by polling
	Log    *slog.Logger
	// FeeCaps are prices per gas by chain that stand in for Config.MaxFeePerGas; 0: no cap.
	FeeCaps map[string]*big.Int
}

// Manager accepts intents, owns signers and follows transactions. Its methods may be called
// at once from many goroutines, in every process that shares the ledger.
type Manager struct {
	c       Config
	store   Store
	leases  *lease.Holder
	chains  map[string]Chain
	guard   Guard
	log     *slog.Logger
	metrics *metrics
	hurt    Faults
	feeCaps map[string]*big.Int

	owners  map[string]*owners // by chain
	news    *waker             // of readers of the stream
	waker   Waker
	looking singleflight.Group // for the nonce of a caller's lane

	mu        sync.Mutex
	keys      map[string]Key      // by account as the chain's driver spells it
	pools     map[string][]string // account → pools
	fees      map[string]*feeCache
	paces     map[string]*pace // by chain
	idleAfter time.Duration
}

// New checks the settings and returns a manager that Run makes work.
func New(o Options) (*Manager, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		c: o.Config, store: o.Store, leases: o.Leases, guard: o.Guard, log: o.Log, feeCaps: o.FeeCaps,
		chains: map[string]Chain{}, keys: map[string]Key{}, pools: map[string][]string{}, fees: map[string]*feeCache{}, paces: map[string]*pace{}, idleAfter: idleAfter,
		owners: map[string]*owners{}, news: newWaker(), waker: o.Waker, metrics: newMetrics(),
	}
	m.store.OnEnded(m.ended)
	for _, c := range o.Chains {
		if m.chains[c.ID()] != nil {
			return nil, fmt.Errorf("chain %s is there twice", c.ID())
		}
		m.chains[c.ID()] = c
		m.fees[c.ID()], m.paces[c.ID()], m.owners[c.ID()] = &feeCache{}, &pace{}, newOwners()
	}
	for _, key := range o.Keys {
		if err := m.addKey(key); err != nil {
			return nil, err
		}
	}
	var err error
	m.pools, err = m.byAccount(o.Pools)
	return m, err
}

// byAccount turns pools of accounts into accounts' pools.
func (m *Manager) byAccount(pools map[string][]string) (map[string][]string, error) {
	out := map[string][]string{}
	for pool, accounts := range pools {
		for _, account := range accounts {
			name, err := m.anyAccount(account)
			if err != nil {
				return nil, fmt.Errorf("pool %s: %w", pool, err)
			}
			out[name] = append(out[name], pool)
		}
	}
	return out, nil
}

// Account spells an account as a chain does, or without one as the first chain that takes it. ErrUnknownChain, ErrInvalid.
func (m *Manager) Account(chain, text string) (name string, err error) {
	if chain != "" {
		_, name, err = m.account(chain, "account", text)
		return name, err
	}
	if name, err = m.anyAccount(text); err != nil {
		return "", invalid("account", err.Error())
	}
	return name, nil
}

// account returns a chain's driver and how it spells an account, which a caller has given in a field.
func (m *Manager) account(chain, field, text string) (Chain, string, error) {
	c, err := m.Chain(chain)
	if err != nil {
		return nil, "", err
	}
	name, err := c.Account(text)
	if err != nil {
		return nil, "", invalid(field, err.Error())
	}
	return c, name, nil
}

// anyAccount spells an account as the first chain that takes it does.
func (m *Manager) anyAccount(text string) (string, error) {
	err := fmt.Errorf("no chain knows the account %q", text)
	for _, id := range slices.Sorted(maps.Keys(m.chains)) {
		var name string
		if name, err = m.chains[id].Account(text); err == nil {
			return name, nil
		}
	}
	return "", err
}

func (m *Manager) addKey(key Key) error {
	name, err := m.allowed(key)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[name] = key
	return nil
}

// allowed returns the name of a key's account, or why it may not serve.
func (m *Manager) allowed(key Key) (string, error) {
	name, err := m.anyAccount(key.Account())
	if err != nil {
		return "", err
	}
	if len(m.c.AllowedSigners) > 0 {
		allowed := func(text string) bool {
			other, err := m.anyAccount(text)
			return err == nil && other == name
		}
		if !slices.ContainsFunc(m.c.AllowedSigners, allowed) {
			return "", fmt.Errorf("signer %s is not in TXM_ALLOWED_SIGNERS", name)
		}
	}
	return name, nil
}

func (m *Manager) key(signer string) Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[signer]
}

// OwnsKey reports whether this process signs for an account.
func (m *Manager) OwnsKey(account string) bool {
	name, err := m.anyAccount(account)
	return err == nil && m.key(name) != nil
}

// Chains returns the ids of the chains, sorted.
func (m *Manager) Chains() []string { return slices.Sorted(maps.Keys(m.chains)) }

// Chain returns a chain's driver, or ErrUnknownChain.
func (m *Manager) Chain(id string) (Chain, error) {
	c := m.chains[id]
	if c == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownChain, id)
	}
	return c, nil
}

// Submit accepts an intent: it is checked, simulated, allowed, and stored. An error means
// that it was not accepted, unless it is a *ledger.UncertainError; with an idempotency key
// the caller asks again.
func (m *Manager) Submit(ctx context.Context, r Request) (*Intent, error) {
	list, err := m.SubmitBatch(ctx, "", []Request{r})
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// SubmitBatch accepts all intents or none. A key is that of the batch as a whole: the same key with one intent more, one less or
// another order is ErrIdempotency. Requests that have keys of their own come without one.
func (m *Manager) SubmitBatch(ctx context.Context, key string, requests []Request) ([]*Intent, error) {
	list := make([]*Intent, len(requests))
	for i, r := range requests {
		intent, err := m.draft(r)
		if err != nil {
			return nil, atIndex(len(requests), i, err)
		}
		list[i] = intent
	}
	if key != "" {
		if err := bind(key, list); err != nil {
			return nil, err
		}
	}
	earlier, err := m.earlier(ctx, list)
	if err != nil || earlier != nil {
		return earlier, err
	}
	for i, intent := range list {
		if err := m.admit(ctx, intent); err != nil {
			return nil, atIndex(len(requests), i, err)
		}
	}
	return m.accept(ctx, list)
}

// bind puts a batch under a key: each intent has its own from that, and a hash that is made of all.
func bind(key string, list []*Intent) error {
	if len(key) > maxName {
		return invalid("idempotencyKey", fmt.Sprintf("longer than %d bytes", maxName))
	}
	all := make([]string, len(list))
	for i, intent := range list {
		if intent.IdempotencyKey != "" {
			return atIndex(len(list), i, invalid("idempotencyKey", "the batch has a key, so its transactions have none of their own"))
		}
		all[i] = intent.BodyHash
	}
	whole := strings.Join(all, " ")
	for i, intent := range list {
		intent.IdempotencyKey = fmt.Sprintf("%s/%d", key, i)
		intent.BodyHash = bodyHash(Request{Body: fmt.Appendf(nil, "batch:%d:%s", i, whole)})
	}
	return nil
}

func atIndex(n, i int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("transaction %d: %w", i, err)
}

// earlier answers a batch whose keys are all used already without simulating it again. It
// returns nil if any of them is new.
func (m *Manager) earlier(ctx context.Context, list []*Intent) ([]*Intent, error) {
	stored := make([]*Intent, 0, len(list))
	for _, intent := range list {
		if intent.IdempotencyKey == "" {
			return nil, nil
		}
		old, err := m.store.ByKey(ctx, intent.Tenant, intent.IdempotencyKey, intent.BodyHash)
		switch {
		case isNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		stored = append(stored, old)
	}
	m.metrics.idempotencyHits.Add(float64(len(stored)))
	return stored, nil
}

// first returns the only intent of a list, nil without one.
func first(list []*Intent) *Intent {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func (m *Manager) accept(ctx context.Context, list []*Intent) ([]*Intent, error) {
	stored, err := m.store.Accept(ctx, list)
	if err != nil {
		return nil, err
	}
	m.accepted(list, stored)
	return stored, nil
}

// accepted counts intents and wakes their chains, and counts those of which an earlier one has the key.
func (m *Manager) accepted(given, stored []*Intent) {
	for n, intent := range stored {
		if intent.ID != given[n].ID {
			m.metrics.idempotencyHits.Inc()
			continue
		}
		m.metrics.intents.WithLabelValues(intent.Chain, string(intent.Origin), string(StatusAccepted)).Inc()
		m.rouse(intent.Chain)
	}
	m.news.wake()
}

// Simulate tells what would happen and what the maximum of its cost would be.
func (m *Manager) Simulate(ctx context.Context, r Request) (Simulation, Cost, error) {
	intent, err := m.draft(r)
	if err != nil {
		return Simulation{}, Cost{}, err
	}
	if err := stillValid(intent); err != nil {
		return Simulation{}, Cost{}, err
	}
	m.declared(ctx, intent)
	return m.simulate(ctx, intent)
}

// Get returns an intent with its attempts and timeline. Tenant "" sees all tenants.
func (m *Manager) Get(ctx context.Context, tenant, id string) (*Transaction, error) {
	return m.store.Get(ctx, tenant, id)
}

// Find returns a page of intents, newest first, and the next page's cursor.
func (m *Manager) Find(ctx context.Context, q Query) ([]*Intent, string, error) {
	return m.store.Find(ctx, q)
}

// Wait returns the transaction as soon as it is at least at the given status, has a fate, or
// the context ends; in the last case it returns what is known without an error.
func (m *Manager) Wait(ctx context.Context, tenant, id string, until Status) (*Transaction, error) {
	for {
		changed := m.news.next()
		t, err := m.store.Get(context.WithoutCancel(ctx), tenant, id)
		if err != nil || t.Status.Ended() || t.Status.Rank() >= until.Rank() && t.Status != StatusUnknown {
			return t, err
		}
		select {
		case <-changed:
		case <-time.After(m.c.Poll.Duration()):
		case <-ctx.Done():
			return t, nil
		}
	}
}

// Cancel ends an intent, at once if nothing was signed, otherwise by a transaction to
// oneself in its slot. Which of both is mined decides.
func (m *Manager) Cancel(ctx context.Context, tenant, id string) (*Intent, error) {
	t, err := m.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if c := m.chains[t.Chain]; c == nil || !c.Traits().Mempool && t.Status.Rank() >= StatusSigned.Rank() {
		return nil, ErrNotPossible
	}
	intent, err := m.store.RequestCancel(ctx, tenant, id)
	if err == nil {
		m.rouse(intent.Chain)
		m.news.wake()
	}
	return intent, err
}

// Replace puts another payload in the place of an intent. The answer is the new intent.
func (m *Manager) Replace(ctx context.Context, tenant, id string, r Request) (*Intent, error) {
	old, err := m.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	c := m.chains[old.Chain]
	if c == nil {
		return nil, ErrNotPossible
	}
	r.Tenant, r.Chain, r.Pool, r.OrderKey = old.Tenant, old.Chain, old.Pool, old.OrderKey
	intent, err := m.draft(r)
	if err != nil {
		return nil, err
	}
	intent.Kind, intent.Replaces = KindReplace, id
	// The same body in the place of another intent is another request.
	intent.BodyHash = bodyHash(Request{Body: []byte("replace:" + id + ":" + intent.BodyHash)})
	if earlier, err := m.earlier(ctx, []*Intent{intent}); err != nil || earlier != nil {
		return first(earlier), err
	}
	if !c.Traits().Mempool && old.Status.Rank() >= StatusSigned.Rank() {
		return nil, ErrNotPossible
	}
	if err := m.admit(ctx, intent); err != nil {
		return nil, err
	}
	stored, err := m.store.AcceptReplacement(ctx, tenant, id, intent)
	if err == nil {
		m.accepted([]*Intent{intent}, []*Intent{stored})
	}
	return stored, err
}

// Stream returns events after a cursor, oldest first, waiting for the first one. It returns
// nothing and no error when the context ends. Cursors grow by one and become visible in order.
func (m *Manager) Stream(ctx context.Context, after int64, limit int) ([]ledger.Event, error) {
	for {
		changed := m.news.next()
		list, err := m.store.Events(context.WithoutCancel(ctx), after, limit)
		if err != nil || len(list) > 0 {
			return list, err
		}
		select {
		case <-changed:
		case <-time.After(m.c.Poll.Duration()):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// Config holds the settings of the manager that are the same for every chain.
type Config struct {
	// Assign and sign transactions. With false the manager still follows what is signed to its final outcome.
	Enabled bool `env:"RELAYER_ENABLED" envDefault:"true"`
	// The name of this process among those that share a ledger. Two living ones with one
	// name are an error. Empty for the host's name.
	Instance string `env:"INSTANCE_ID"`
	// Age of the newest attempt at the head of a line after which its fees are raised.
	BumpAfter envx.Millis `env:"TXM_BUMP_AFTER" envDefault:"5m" min:"1ms"`
	// Age of the first send at the head of a line after which it is cancelled, and of an intent that no signer can pay for after which it fails.
	CancelAfter envx.Millis `env:"TXM_CANCEL_AFTER" envDefault:"30m"`
	// How long the head of a line may be refused for good, for funds or by a text that no node takes back, before its nonce is
	// given to another transaction.
	HeadPatience envx.Millis `env:"TXM_HEAD_PATIENCE" envDefault:"1m" min:"1ms"`
	// How often bytes that are not mined are offered again.
	ResendAfter envx.Millis `env:"TXM_RESEND_AFTER" envDefault:"20s" min:"1ms"`
	// How often an owner looks for receipts and for new intents of other processes.
	Poll envx.Millis `env:"TXM_POLL" envDefault:"250ms" min:"1ms"`
	// How often an active signer is compared with the chain: nonce, balance, identity.
	Reconcile envx.Millis `env:"TXM_RECONCILE" envDefault:"30s" min:"1ms"`
	// Longest time for one offer to an endpoint; it must be shorter than the lease.
	SendTimeout envx.Millis `env:"TXM_SEND_TIMEOUT" envDefault:"4s" min:"1ms"`
	// How long an ownership lives without renewal.
	Lease envx.Millis `env:"TXM_LEASE" envDefault:"10s"`
	// Slots of one signer that may be unconsumed at once. 0: the chain's own setting, which alone counts on a chain that refuses all but the next nonce (Hedera).
	InFlight int `env:"TXM_IN_FLIGHT" envDefault:"0" min:"0"`
	// Highest price per gas, in the chain's smallest unit, that anything may be sent with. 0: no cap. A chain's own maxFeePerGas in TXM_CHAINS takes precedence.
	MaxFeePerGas uint64 `env:"TXM_MAX_FEE_PER_GAS" envDefault:"0"`
	// Errors of sending in a row after which a signer gets nothing new for some time. 0: never.
	ErrorStreak int `env:"TXM_ERROR_STREAK" envDefault:"20"`
	// How long a reservation of a nonce lives.
	Reservation envx.Millis `env:"TXM_RESERVATION" envDefault:"30s" min:"1ms"`
	// Maximum of reservations that one tenant may hold.
	MaxReservations int `env:"TXM_MAX_RESERVATIONS" envDefault:"1000" min:"1"`
	// Maximum of bytes of a transaction's data.
	MaxData int `env:"TXM_MAX_DATA" envDefault:"131072" min:"0"`
	// How long final transactions are kept, and what is over besides: nonces that others used, reservations, budgets of days. Idempotency keys are kept for ever.
	Retention envx.Millis `env:"TXM_RETENTION" envDefault:"720h"`
	// Successors of an orderKey may go to another signer when the predecessor is mined
	// (false) or only when its block is final (true).
	OrderByConfirmed bool `env:"TXM_ORDER_BY_CONFIRMED" envDefault:"false"`
	// The only accounts that may serve as signers. Empty for all.
	AllowedSigners envx.Strings `env:"TXM_ALLOWED_SIGNERS"`
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if c.SendTimeout > c.Lease/2 {
		errs = append(errs, fmt.Errorf("TXM_SEND_TIMEOUT %s: want no more than half of TXM_LEASE (%s)", c.SendTimeout, c.Lease))
	}
	if c.CancelAfter < c.BumpAfter {
		errs = append(errs, fmt.Errorf("TXM_CANCEL_AFTER %s: want no less than TXM_BUMP_AFTER (%s)", c.CancelAfter, c.BumpAfter))
	}
	return errors.Join(errs...)
}

// Defaults returns the settings that the tags declare.
func Defaults() Config {
	return env.Must(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))
}

type metrics struct {
	metric.Set
	intents         *prometheus.CounterVec
	stage           *prometheus.HistogramVec
	queueDepth      *prometheus.GaugeVec
	pending         *prometheus.GaugeVec
	oldest          *prometheus.GaugeVec
	balance         *prometheus.GaugeVec
	gap             *prometheus.GaugeVec
	drift           *prometheus.GaugeVec
	enabled         *prometheus.GaugeVec
	owned           *prometheus.GaugeVec
	sendErrors      *prometheus.CounterVec
	idempotencyHits prometheus.Counter
	terms           prometheus.Counter
	leaseWait       prometheus.Histogram
	invalidNonce    *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{}
	ofSigner := func(name, help string) *prometheus.GaugeVec { return m.Gauges(name, help, "chain", "signer") }
	m.intents = m.Counters("txm_intents_total", "Intents that this process accepted, or gave their final status.", "chain", "origin", "status")
	m.stage = m.Histograms("txm_stage_seconds", "Time from the signature until a stage: broadcast, mined.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "stage")
	m.queueDepth = m.Gauges("txm_queue_depth", "Accepted intents that wait for a slot, as far as an owner looks ahead.", "chain")
	m.pending = ofSigner("txm_signer_pending", "Slots that are not consumed.")
	m.oldest = ofSigner("txm_signer_oldest_pending_seconds", "How long the oldest slot that is not consumed has had its nonce; 0 if there is no such slot.")
	m.balance = ofSigner("txm_signer_balance_wei", "The signer's balance.")
	m.gap = ofSigner("txm_signer_nonce_gap", "Nonces without a transaction on its way, although later nonces were sent.")
	m.drift = ofSigner("txm_signer_nonce_drift", "How far the chain's nonce was ahead of the ledger when it was last compared.")
	m.enabled = ofSigner("txm_signer_enabled", "1 while the signer may get intents.")
	m.owned = ofSigner("txm_signer_owned", "1 while a living process owns the signer.")
	m.sendErrors = m.Counters("txm_send_errors_total", "Answers to sent transactions that do not say that the transaction was taken.", "class")
	m.idempotencyHits = m.Counter("txm_idempotency_hits_total", "Requests that were answered with an earlier one's intent.")
	m.terms = m.Counter("txm_lease_terms_total", "How often this process became the owner of a signer.")
	m.leaseWait = m.Histogram("txm_lease_wait_seconds", "Time from a process's first attempt to own a signer until it has the lease.", []float64{.01, .1, 1, 5, 10, 15, 30})
	m.invalidNonce = m.Counters("txm_invalid_nonce_total", "Answers that say that the nonce was used already, or that an earlier nonce is missing.", "chain")
	return m
}

// Collectors returns what the program registers.
func (m *Manager) Collectors() []prometheus.Collector {
	several := map[string]outage.Several{}
	for id, c := range m.chains {
		if c, is := c.(outage.Several); is {
			several[id] = c
		}
	}
	return append(m.metrics.Collectors(), outage.Up("txm_endpoint_up", several))
}
