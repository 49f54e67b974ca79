package txmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/internal/outage"
)

// Signers returns the lanes of a chain, or of all chains for "".
func (m *Manager) Signers(ctx context.Context, chain string) ([]*Lane, error) {
	return m.store.Lanes(ctx, chain)
}

// AddSigner makes a key a signer on every chain that knows its account.
func (m *Manager) AddSigner(ctx context.Context, key Key, pools ...string) error {
	if err := m.addKey(key); err != nil {
		return err
	}
	name, err := m.anyAccount(key.Account())
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.pools[name] = append(m.pools[name], pools...)
	m.mu.Unlock()
	return m.hold(ctx)
}

// Reload takes other keys and pools for those that this process had. A signer whose key is gone gets nothing new; what it has signed
// is followed. With an error nothing is changed, unless the ledger does not answer.
func (m *Manager) Reload(ctx context.Context, keys []Key, pools map[string][]string) error {
	next := map[string]Key{}
	for _, key := range keys {
		name, err := m.allowed(key)
		if err != nil {
			return err
		}
		next[name] = key
	}
	named, err := m.byAccount(pools)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.keys, m.pools = next, named
	m.mu.Unlock()
	return m.hold(ctx)
}

// AddAccount makes an account a signer of a chain: with the key if this process has it,
// otherwise for callers who sign. It changes nothing of a signer that is there but adds pools.
func (m *Manager) AddAccount(ctx context.Context, chain, account, actor string, pools ...string) (*Lane, error) {
	_, name, err := m.account(chain, "address", account)
	if err != nil {
		return nil, err
	}
	ours := m.key(name) != nil
	if len(pools) > 0 && !ours {
		return nil, invalid("pools", "its key is not here, so no pool can hold it")
	}
	for _, pool := range pools {
		if pool == "" || len(pool) > 64 || strings.ContainsFunc(pool, func(r rune) bool { return r <= ' ' || r == ',' || r > '~' }) {
			return nil, invalid("pools", "a pool's name has a maximum of 64 visible characters, and no comma")
		}
	}
	if ours {
		pools = append([]string{"default"}, pools...)
	}
	lane, err := m.store.AddLane(ctx, Lane{Chain: chain, Signer: name, Ours: ours, Pools: pools})
	if err != nil {
		return nil, err
	}
	m.rouse(chain)
	return lane, m.store.Audit(ctx, actor, "signer.add", chain+"/"+name, "")
}

// Operate changes what an operator decides of a signer.
func (m *Manager) Operate(ctx context.Context, chain, signer, actor string, o Operation) (*Lane, error) {
	_, name, err := m.account(chain, "signer", signer)
	if err != nil {
		return nil, err
	}
	lane, err := m.store.Operate(ctx, chain, name, actor, o)
	if err == nil {
		m.rouse(chain)
	}
	return lane, err
}

// maxAdopted bounds what is believed of transactions of somebody else that wait.
const maxAdopted = 10_000

// ReconcileOptions say what an operator has looked at.
type ReconcileOptions struct {
	Adopt bool // transactions of somebody else wait at this nonce or above: go on after them, and fill what they leave
	Reset bool // the chain was reset: forget its slots and fail what was on its way
}

// Reconcile ends a signer's halt after an operator has looked: a restored ledger, unknown
// transactions on the chain, waiting transactions of somebody else, a chain that was reset.
func (m *Manager) Reconcile(ctx context.Context, chain, signer, actor string, o ReconcileOptions) (*Lane, error) {
	c, name, err := m.account(chain, "signer", signer)
	if err != nil {
		return nil, err
	}
	lane, err := m.store.Lane(ctx, chain, name)
	if err != nil {
		return nil, err
	}
	identity, err := c.Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	state, err := m.store.Chain(ctx, chain)
	if err != nil {
		return nil, err
	}
	why, err := wasReset(ctx, c, state, identity)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if why == "" {
		if why, err = m.wentBack(ctx, c, name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if why == "" && o.Reset {
			return nil, invalid("reset", "the chain is the one that the ledger remembers, and the signer's nonce is not below what was final: there is nothing to reset")
		}
	}
	if why != "" {
		if !o.Reset {
			return nil, fmt.Errorf("%w: %s to forget what was on its way", ErrHalted, why)
		}
		if err := m.store.ResetChain(ctx, chain, actor, identity, state.Era); err != nil {
			return nil, err
		}
		m.wakeHere(chain)
		return m.store.Lane(ctx, chain, name)
	}
	if err := m.store.CheckIdentity(ctx); err != nil {
		if err := m.store.AcceptIdentity(ctx, actor); err != nil {
			return nil, err
		}
	}
	nonces, err := c.Nonces(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	latest, pending, err := c.HighestPending(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	next := max(latest, nonces.Latest, lane.NextNonce)
	adopted := max(next, pending)
	switch waiting := adopted - next; {
	case waiting > 0 && !o.Adopt:
		return nil, fmt.Errorf("%w: %d transactions that the ledger does not know wait at nonce %d and above; reconcile with adopt to go on after them", ErrHalted, waiting, next)
	case waiting > maxAdopted:
		return nil, fmt.Errorf("%w: an endpoint says that %d transactions wait; no more than %d can be adopted", ErrHalted, waiting, maxAdopted)
	}
	lane, err = m.store.Reconcile(ctx, chain, name, actor, next, adopted)
	m.wakeHere(chain)
	return lane, err
}

// wasReset tells that a chain is not the one that the ledger remembers, "" if it is.
func wasReset(ctx context.Context, c Chain, state ChainState, identity string) (string, error) {
	if state.Halted != "" || differs(c, state, identity) {
		return "the chain was reset; reconcile with reset", nil
	}
	return replaced(ctx, c, state)
}

// ScopeAll is everything. The functions below name narrower scopes.
const ScopeAll = "all"

// ChainScope is everything on a chain.
func ChainScope(chain string) string { return "chain/" + chain }

// PoolScope is a pool on a chain.
func PoolScope(chain, pool string) string { return "pool/" + chain + "/" + pool }

// SignerScope is one signer on a chain.
func SignerScope(chain, signer string) string { return "signer/" + chain + "/" + signer }

// LaneKilled reports whether one of the switches that are on, as Kills returns them, covers a whole lane.
func LaneKilled(kills map[string]string, chain, signer string) bool {
	return kills[ScopeAll] != "" || kills[ChainScope(chain)] != "" || kills[SignerScope(chain, signer)] != ""
}

// Kill turns the switch of a scope on or off. While it is on, nothing of the scope is
// accepted, assigned or signed; what is signed is followed.
func (m *Manager) Kill(ctx context.Context, scope, actor, reason string, on bool) error {
	scope, err := m.scope(ctx, scope, on)
	if err != nil {
		return err
	}
	if err := m.store.Kill(ctx, scope, actor, reason, on); err != nil {
		return err
	}
	m.wakeAll()
	return nil
}

// scope spells the name of a scope. A switch of something that does not exist would stop nothing, so it is not turned on; off it may go,
// since what it named may have left the settings.
func (m *Manager) scope(ctx context.Context, scope string, on bool) (string, error) {
	part := strings.Split(scope, "/")
	switch {
	case scope == ScopeAll:
		return scope, nil
	case part[0] == "chain" && len(part) == 2, (part[0] == "pool" || part[0] == "signer") && len(part) == 3:
	default:
		return "", invalid("scope", "want all, chain/ID, pool/ID/NAME or signer/ID/ACCOUNT")
	}
	c, err := m.Chain(part[1])
	if err == nil && part[0] == "signer" {
		if part[2], err = c.Account(part[2]); err != nil {
			err = invalid("scope", err.Error())
		}
	}
	scope = strings.Join(part, "/")
	if !on || err != nil || part[0] == "chain" {
		if !on && errors.Is(err, ErrUnknownChain) {
			err = nil
		}
		return scope, err
	}
	lanes, err := m.store.Lanes(ctx, part[1])
	if err != nil {
		return "", err
	}
	for _, lane := range lanes {
		if part[0] == "signer" && lane.Signer == part[2] || part[0] == "pool" && slices.Contains(lane.Pools, part[2]) {
			return scope, nil
		}
	}
	if part[0] == "signer" {
		return "", fmt.Errorf("%w: %s on chain %s", ErrUnknownSigner, part[2], part[1])
	}
	return "", invalid("scope", "chain "+part[1]+" has no pool "+part[2])
}

// Kills returns the switches that are on, each with its reason.
func (m *Manager) Kills(ctx context.Context) (map[string]string, error) { return m.store.Kills(ctx) }

// Reason is something that is wrong. Its words have no secrets.
type Reason struct {
	Upstream string `json:"upstream"` // "ledger", or "chain" and its name
	Cause    string `json:"cause"`
}

// Ready returns nil if the ledger, which takes writes, and at least one chain can be used: it answers, and nothing is known to be wrong
// with it. Reasons tell what is wrong, also while another chain can be used; of chains that do not answer they tell only if there is an error.
func (m *Manager) Ready(ctx context.Context) (reasons []Reason, err error) {
	if err := m.store.Ping(ctx); err != nil {
		return []Reason{{"ledger", "it does not answer"}}, fmt.Errorf("the ledger does not answer: %w", err)
	}
	if !m.leases.Living() {
		return []Reason{{"ledger", "it takes no writes"}}, errors.New("the ledger takes no writes")
	}
	for _, id := range m.Chains() {
		if cause := m.trouble(id); cause != "" {
			reasons = append(reasons, Reason{"chain " + id, cause})
		} else if n := m.paces[id].failing(); n > 0 { // an endpoint's own words stay in the log
			reasons = append(reasons, Reason{"chain " + id, fmt.Sprintf("signers that cannot go on: %d; the log says why", n)})
		}
		if several, is := m.chains[id].(outage.Several); is {
			_, failing := several.Endpoints()
			for _, f := range failing {
				reasons = append(reasons, Reason{"chain " + id, f.String()})
			}
		}
	}
	ctx, enough := context.WithCancel(ctx) // one that is silent must not hide one that answers
	defer enough()
	type answer struct {
		chain string
		err   error
	}
	answers := make(chan answer, len(m.chains))
	for id, c := range m.chains {
		go func() {
			_, err := c.Head(ctx)
			answers <- answer{id, err}
		}()
	}
	errs := []error{errors.New("no chain can be used")}
	var silent []Reason
	for range m.chains {
		a := <-answers
		switch cause := m.trouble(a.chain); {
		case a.err != nil:
			silent = append(silent, Reason{"chain " + a.chain, "it does not answer"})
			errs = append(errs, a.err)
		case cause != "":
			errs = append(errs, fmt.Errorf("chain %s: %s", a.chain, cause))
		default:
			return reasons, nil
		}
	}
	return append(reasons, silent...), errors.Join(errs...)
}

// trouble says why nothing can be sent on a chain, as far as it knows that itself.
func (m *Manager) trouble(id string) string {
	if chain, ok := m.chains[id].(Troubled); ok {
		return chain.Trouble()
	}
	return ""
}
