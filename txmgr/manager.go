package txmgr

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
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
	Leases *lease.Keeper
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
	leases  *lease.Keeper
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
