package policy

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
	"lockstep/watch/decode"
)

// OriginTopUp is the origin of transactions that fill up signers.
const OriginTopUp txmgr.Origin = "top-up"

// Create stands among receivers or selectors for deployments.
const Create = "create"

// Errors of callers.
var (
	ErrNotFound = errors.New("no such policy")
	ErrInvalid  = errors.New("not a policy")
)

// RateError says that a caller asks too often. It is an ErrPolicy.
type RateError struct{ Scope string }

func (e *RateError) Error() string { return "too many requests of " + e.Scope }

// Is makes errors.Is(err, txmgr.ErrPolicy) true.
func (e *RateError) Is(target error) bool { return target == txmgr.ErrPolicy }

// Rules are what a policy allows. Amounts are decimal strings in the chain's smallest unit.
type Rules struct {
	Chains          []string `json:"chains,omitempty"`          // none: all
	Receivers       []string `json:"receivers,omitempty"`       // the only receivers; none: all. "create" allows deployments
	Selectors       []string `json:"selectors,omitempty"`       // the only functions, as 0x and 8 digits; "0x" allows calls without data, "create" deployments
	MaxValue        string   `json:"maxValue,omitempty"`        // of one transaction
	MaxGasPrice     string   `json:"maxGasPrice,omitempty"`     // per gas: the highest that the transaction can reach
	MaxGas          uint64   `json:"maxGas,omitempty"`          // of one transaction
	TenantPerMinute int      `json:"tenantPerMinute,omitempty"` // transactions
	ActorPerMinute  int      `json:"actorPerMinute,omitempty"`  // transactions of one actor
	TenantDailyGas  string   `json:"tenantDailyGas,omitempty"`  // gas × price in a day
	ActorDailyGas   string   `json:"actorDailyGas,omitempty"`   // the same for one actor
	Errors          []string `json:"errors,omitempty"`          // of contracts, such as "Short(uint256 have,uint256 want)", to tell callers why a transaction failed
}

// Policy is rules with their place in the ledger.
type Policy struct {
	ID       string        `db:"id" json:"id,omitempty" readOnly:"true"`
	Tenant   string        `db:"tenant" json:"tenant,omitempty" maxLength:"64" doc:"None: all tenants."`
	Disabled bool          `db:"disabled" json:"disabled,omitempty"`
	Rules    Rules         `db:"body" json:"rules"`
	Created  ledger.Moment `db:"created_at" json:"createdAt,omitzero" readOnly:"true"`
	Updated  ledger.Moment `db:"updated_at" json:"updatedAt,omitzero" readOnly:"true"`
}

const (
	refresh  = 2 * time.Second // a change through another process is seen after that
	meters   = 100_000
	maxItems = 10_000
	// maxErrors bounds what is stored with each intent.
	maxErrors = 50
)

// Guard keeps policies and applies them. It is safe for concurrent use.
type Guard struct {
	db *ledger.DB

	mu    sync.Mutex // guards all below
	list  []Policy
	until time.Time
	rates *lru.Cache[string, *meter]
}

// meter is a bucket of tokens.
type meter struct {
	tokens float64
	at     time.Time
}

// New makes the guard of a ledger.
func New(db *ledger.DB) *Guard {
	rates, _ := lru.New[string, *meter](meters) // fails for a size below 1 alone
	return &Guard{db: db, rates: rates}
}

// Allow implements txmgr.Guard.
func (g *Guard) Allow(ctx context.Context, intent *txmgr.Intent, cost txmgr.Cost) ([]txmgr.Hold, error) {
	if intent.Origin == OriginTopUp {
		return nil, nil
	}
	list, err := g.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: policies: %w", txmgr.ErrUnavailable, err)
	}
	var holds []txmgr.Hold
	day := time.Now().UTC().Format(time.DateOnly)
	for _, p := range list {
		if !p.fits(intent) {
			continue
		}
		if err := p.Rules.check(intent, cost); err != nil {
			return nil, fmt.Errorf("%w: policy %s: %w", txmgr.ErrPolicy, p.ID, err)
		}
		if err := g.rate(p, intent); err != nil {
			return nil, err
		}
		holds = append(holds, p.holds(intent, cost, day)...)
	}
	return holds, nil
}

// Errors are the errors of contracts that the policies of an intent declare.
func (g *Guard) Errors(ctx context.Context, intent *txmgr.Intent) []string {
	list, err := g.current(ctx)
	if err != nil {
		return nil // Allow says so
	}
	var out []string
	for _, p := range list {
		if p.fits(intent) {
			out = append(out, p.Rules.Errors...)
		}
	}
	return out
}

func (p Policy) fits(intent *txmgr.Intent) bool {
	return !p.Disabled && (p.Tenant == "" || p.Tenant == intent.Tenant) && (len(p.Rules.Chains) == 0 || slices.Contains(p.Rules.Chains, intent.Chain))
}

func (r Rules) check(intent *txmgr.Intent, cost txmgr.Cost) error {
	receiver := strings.ToLower(intent.To)
	switch {
	case intent.To == "":
		// A deployment has neither, and its constructor may do anything.
		if len(r.Receivers)+len(r.Selectors) > 0 && !slices.Contains(r.Receivers, Create) && !slices.Contains(r.Selectors, Create) {
			return errors.New("deployments are not allowed; a policy with receivers or selectors allows them by the word create")
		}
	case len(r.Receivers) > 0 && !slices.Contains(r.Receivers, receiver):
		return fmt.Errorf("the receiver %s is not allowed", receiver)
	case len(r.Selectors) > 0:
		selector := "0x"
		if len(intent.Data) > 0 {
			selector += hex.EncodeToString(intent.Data[:min(4, len(intent.Data))])
		}
		if !slices.Contains(r.Selectors, selector) {
			return fmt.Errorf("the function %s is not allowed", selector)
		}
	}
	if limit := amount(r.MaxValue); limit != nil && intent.Value != nil && intent.Value.Cmp(limit) > 0 {
		return fmt.Errorf("the value is above %s", limit)
	}
	if limit := amount(r.MaxGasPrice); limit != nil && cost.Price != nil && cost.Price.Cmp(limit) > 0 {
		return fmt.Errorf("the price per gas can reach %s, above %s; set maxFeePerGas", cost.Price, limit)
	}
	if r.MaxGas > 0 && cost.Gas > r.MaxGas {
		return fmt.Errorf("the gas of %d is above %d", cost.Gas, r.MaxGas)
	}
	return nil
}

func (p Policy) holds(intent *txmgr.Intent, cost txmgr.Cost, day string) []txmgr.Hold {
	var list []txmgr.Hold
	hold := func(scope, limit string) {
		if sum := amount(limit); sum != nil {
			list = append(list, txmgr.Hold{Scope: p.ID + "/" + scope, Day: day, Amount: cost.Total, Limit: sum})
		}
	}
	hold("tenant/"+intent.Tenant, p.Rules.TenantDailyGas)
	if intent.Actor != "" {
		hold("actor/"+intent.Tenant+"/"+intent.Actor, p.Rules.ActorDailyGas)
	}
	return list
}

// rate takes a token from the caller's buckets. Each holds a minute's worth.
func (g *Guard) rate(p Policy, intent *txmgr.Intent) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, limit := range []struct {
		scope     string
		perMinute int
	}{{"tenant " + intent.Tenant, p.Rules.TenantPerMinute}, {"actor " + intent.Tenant + "/" + intent.Actor, p.Rules.ActorPerMinute}} {
		if limit.perMinute == 0 {
			continue
		}
		key, full := p.ID+"/"+limit.scope, float64(limit.perMinute)
		m, ok := g.rates.Get(key)
		if !ok {
			m = &meter{tokens: full, at: now}
			g.rates.Add(key, m)
		}
		m.tokens, m.at = min(full, m.tokens+now.Sub(m.at).Minutes()*full), now
		if m.tokens < 1 {
			return &RateError{Scope: limit.scope}
		}
		m.tokens--
	}
	return nil
}

// current returns the policies, read again when they are older than refresh. If the ledger
// does not answer, nobody knows what is allowed.
func (g *Guard) current(ctx context.Context) ([]Policy, error) {
	g.mu.Lock()
	list, until := g.list, g.until
	g.mu.Unlock()
	if time.Now().Before(until) {
		return list, nil
	}
	list, err := g.List(ctx)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.list, g.until = list, time.Now().Add(refresh)
	g.mu.Unlock()
	return list, nil
}

// List returns all policies, the oldest first.
func (g *Guard) List(ctx context.Context) ([]Policy, error) {
	return ledger.ReadOf(ctx, g.db, func(tx *ledger.Tx) ([]Policy, error) {
		return ledger.All(ctx, tx, "SELECT "+ledger.Names[Policy]("")+" FROM policies ORDER BY created_at, id", nil, func(row ledger.Row) (p Policy, err error) {
			return p, ledger.Scan(row, &p)
		})
	})
}

// Put stores a policy: a new one if its ID is empty, else in place of the one with its ID.
func (g *Guard) Put(ctx context.Context, p Policy) (Policy, error) {
	if err := p.Rules.normalise(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	fresh := p.ID == ""
	if fresh {
		p.ID = "pol_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	err := g.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		p.Updated = ledger.Moment(now)
		if fresh {
			p.Created = p.Updated
			return ledger.Insert(ctx, tx, "policies", []*Policy{&p}, "", nil)
		}
		changed, err := ledger.Update(ctx, tx, "policies", "id", "tenant body disabled updated_at", []*Policy{&p})
		if err == nil && changed == 0 {
			return ErrNotFound
		}
		return err
	})
	g.forget()
	return p, err
}

// Delete removes a policy.
func (g *Guard) Delete(ctx context.Context, id string) error {
	err := g.db.Write(ctx, func(tx *ledger.Tx) error {
		changed, err := tx.Exec(ctx, "DELETE FROM policies WHERE id = $1", id)
		if err == nil && changed == 0 {
			return ErrNotFound
		}
		return err
	})
	g.forget()
	return err
}

func (g *Guard) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = time.Time{}
}

// normalise checks rules and spells addresses and functions in lower case.
func (r *Rules) normalise() error {
	if len(r.Chains)+len(r.Receivers)+len(r.Selectors) > maxItems || len(r.Errors) > maxErrors {
		return fmt.Errorf("more than %d items, or more than %d errors", maxItems, maxErrors)
	}
	for i, receiver := range r.Receivers {
		receiver = strings.ToLower(strings.TrimSpace(receiver))
		if receiver == "" || len(receiver) > 64 {
			return fmt.Errorf("receivers[%d] is not an account", i)
		}
		r.Receivers[i] = receiver
	}
	for i, selector := range r.Selectors {
		selector = strings.ToLower(selector)
		if selector == Create {
			r.Selectors[i] = selector
			continue
		}
		raw, err := hex.DecodeString(strings.TrimPrefix(selector, "0x"))
		if err != nil || !strings.HasPrefix(selector, "0x") || len(raw) != 4 && len(raw) != 0 {
			return fmt.Errorf("selectors[%d]: want 0x and 8 digits, 0x for calls without data, or create for deployments", i)
		}
		r.Selectors[i] = selector
	}
	for name, text := range map[string]string{"maxValue": r.MaxValue, "maxGasPrice": r.MaxGasPrice, "tenantDailyGas": r.TenantDailyGas, "actorDailyGas": r.ActorDailyGas} {
		if text != "" && amount(text) == nil {
			return fmt.Errorf("%s: want a decimal number that is not negative", name)
		}
	}
	for i, text := range r.Errors {
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "error "))
		if _, err := decode.Parse(text); err != nil {
			return fmt.Errorf("errors[%d]: %w", i, err)
		}
		r.Errors[i] = text
	}
	if r.TenantPerMinute < 0 || r.ActorPerMinute < 0 {
		return errors.New("tenantPerMinute and actorPerMinute: want no less than 0")
	}
	return nil
}

// amount reads a decimal number; nil for "" and for what is not one.
func amount(text string) *big.Int {
	if text == "" || len(text) > 78 || strings.TrimLeft(text, "0123456789") != "" {
		return nil
	}
	n, _ := new(big.Int).SetString(text, 10)
	return n
}
