package txmgr

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
)

// Cost is the maximum that an intent can cost, in the chain's smallest unit.
type Cost struct {
	Gas   uint64
	Price *big.Int // per gas: the intent's cap
	Total *big.Int // gas × price, without the value
}

// Field lengths, so that no row grows without bound.
const (
	maxName     = 256
	maxMetadata = 16 << 10
)

var maxWord = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))

// draft checks a request's form and makes an intent of it.
func (m *Manager) draft(r Request) (*Intent, error) {
	c, err := m.Chain(r.Chain)
	if err != nil {
		return nil, err
	}
	for field, text := range map[string]string{
		"idempotencyKey": r.IdempotencyKey, "pool": r.Pool, "orderKey": r.OrderKey, "shardKey": r.ShardKey,
		"subject": r.Subject, "actor": r.Actor, "method": r.Method, "requestId": r.RequestID, "tenant": r.Tenant,
	} {
		if len(text) > maxName {
			return nil, invalid(field, fmt.Sprintf("longer than %d bytes", maxName))
		}
	}
	if len(r.Actions) > 0 {
		if err := compose(c, &r); err != nil {
			return nil, err
		}
	}
	if r.Calling != nil {
		if err := encode(c, &r); err != nil {
			return nil, err
		}
	}
	if encoder, ok := c.(Encoder); ok {
		if err := encoder.Check(Call{To: r.To, Data: r.Data, Gas: r.Gas, Extra: r.Extra}); err != nil {
			return nil, err
		}
	} else if !r.Extra.IsZero() {
		return nil, invalid("accessList", "this chain has neither access lists nor authorizations nor a gas price")
	}
	if r.To != "" {
		if r.To, err = c.Account(r.To); err != nil {
			return nil, invalid("to", err.Error())
		}
	}
	if r.Pin != "" {
		if r.Pin, err = c.Account(r.Pin); err != nil {
			return nil, invalid("pin", err.Error())
		}
	}
	r.Value = cmp.Or(r.Value, new(big.Int))
	for field, amount := range map[string]*big.Int{"value": r.Value, "maxFeePerGas": r.MaxFee, "maxPriorityFeePerGas": r.MaxTip} {
		if amount != nil && (amount.Sign() < 0 || amount.Cmp(maxWord) > 0) {
			return nil, invalid(field, "not a number of 256 bits")
		}
	}
	switch {
	case len(r.Data) > m.c.MaxData:
		return nil, invalid("data", fmt.Sprintf("longer than %d bytes", m.c.MaxData))
	case len(r.Metadata) > maxMetadata:
		return nil, invalid("metadata", fmt.Sprintf("longer than %d bytes", maxMetadata))
	case len(r.Metadata) > 0 && !json.Valid(r.Metadata):
		return nil, invalid("metadata", "not JSON")
	case r.Simulate == "off" && r.Gas == 0:
		return nil, invalid("gas", "needed when simulate is off")
	case r.To == "" && len(r.Data) == 0:
		return nil, invalid("to", "needed without data")
	}
	for _, choice := range []struct {
		field   string
		value   *string
		allowed []string
	}{
		{"speed", &r.Speed, []string{SpeedStandard, SpeedSlow, SpeedFast}},
		{"simulate", &r.Simulate, []string{"latest", "pending", "off"}},
		{"onFailure", &r.OnFailure, []string{OnFailureStop, OnFailureContinue}},
	} {
		if err := choose(choice.field, choice.value, choice.allowed); err != nil {
			return nil, err
		}
	}
	r.Pool = cmp.Or(r.Pool, "default")
	r.Origin = cmp.Or(r.Origin, "api")
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	return &Intent{Request: r, ID: id.String(), Kind: KindSend, BodyHash: bodyHash(r), Status: StatusAccepted}, nil
}

// compose puts the call that a list of actions is in its place.
func compose(c Chain, r *Request) error {
	composer, ok := c.(Composer)
	switch {
	case !ok:
		return invalid("actions", "this chain has no lists of actions")
	case len(r.Data) > 0:
		return invalid("actions", "want actions or data, not both")
	}
	call, err := composer.Compose(r.Actions)
	if err != nil {
		return invalid("actions", err.Error())
	}
	if r.Value != nil && r.Value.Cmp(call.Value) != 0 {
		return invalid("value", fmt.Sprintf("the actions' deposits are %s; leave it out", call.Value))
	}
	r.To = cmp.Or(r.To, call.To)
	r.Value, r.Data, r.Actions = call.Value, call.Data, nil
	return nil
}

// encode puts the data of a call by signature in its place.
func encode(c Chain, r *Request) error {
	encoder, ok := c.(Encoder)
	switch {
	case !ok:
		return invalid("function", "this chain has no functions with signatures")
	case len(r.Calling.Bytecode) == 0 && r.Calling.Function == "" && len(r.Calling.Args) == 0: // an ABI alone, for its errors
	case len(r.Data) > 0:
		return invalid("data", "want data, or a function with args, not both")
	case len(r.Calling.Bytecode) > 0 && r.To != "":
		return invalid("bytecode", "it deploys a contract: want no receiver")
	case len(r.Calling.Bytecode) == 0 && r.To == "":
		return invalid("to", "needed for a call; want bytecode to deploy")
	}
	data, declared, err := encoder.Encode(*r.Calling)
	if err != nil {
		return err
	}
	r.Extra.Errors = declared
	if r.Calling.Function != "" || len(r.Calling.Args) > 0 || len(r.Calling.Bytecode) > 0 {
		r.Data = data
	}
	r.Calling = nil
	return nil
}

// declared adds the errors that policies name to those of the caller, and puts those of a simulation in words.
func (m *Manager) declared(ctx context.Context, intent *Intent) {
	if named, ok := m.guard.(interface {
		Errors(ctx context.Context, intent *Intent) []string
	}); ok {
		for _, one := range named.Errors(ctx, intent) {
			if !slices.Contains(intent.Extra.Errors, one) {
				intent.Extra.Errors = append(intent.Extra.Errors, one)
			}
		}
	}
}

func choose(field string, value *string, allowed []string) error {
	*value = cmp.Or(*value, allowed[0])
	if slices.Contains(allowed, *value) {
		return nil
	}
	return invalid(field, fmt.Sprintf("want one of %v", allowed))
}

// bodyHash is what tells two requests of one idempotency key apart.
func bodyHash(r Request) string {
	body := r.Body
	if body == nil {
		r.Tenant, r.IdempotencyKey, r.RequestID, r.Origin = "", "", "", ""
		body, _ = json.Marshal(r) // a struct of plain fields, whose metadata is valid
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// stillValid refuses what is over already. It is no part of draft: who asks again under a key
// gets the stored answer however late it is.
func stillValid(i *Intent) error {
	if over(i, time.Now().UnixMicro()) {
		return invalid("validUntil", "has passed")
	}
	return nil
}

// admit simulates an intent and asks the guard. It sets the gas.
func (m *Manager) admit(ctx context.Context, intent *Intent) error {
	if !m.c.Enabled {
		return fmt.Errorf("%w: RELAYER_ENABLED is false", ErrKilled)
	}
	if err := stillValid(intent); err != nil {
		return err
	}
	m.declared(ctx, intent)
	simulation, cost, err := m.simulate(ctx, intent)
	if err != nil {
		return err
	}
	if !simulation.Success {
		return &RevertError{Reason: simulation.Reason, Output: simulation.Output}
	}
	intent.Gas = cmp.Or(intent.Gas, simulation.Gas)
	if m.guard != nil {
		if intent.Holds, err = m.guard.Allow(ctx, intent, cost); err != nil {
			return err
		}
	}
	return nil
}

// simulate tries an intent from the account that may send it, or from any that could.
func (m *Manager) simulate(ctx context.Context, intent *Intent) (Simulation, Cost, error) {
	c := m.chains[intent.Chain]
	if screener, ok := c.(Screener); ok {
		claims, err := screener.Screen(ctx, Call{To: intent.To, Value: intent.Value, Data: intent.Data})
		if err != nil {
			return Simulation{}, Cost{}, err
		}
		intent.Claims = claims
	}
	if restricted, ok := c.(Restricted); ok {
		if err := m.signable(ctx, restricted, intent); err != nil {
			return Simulation{}, Cost{}, err
		}
	}
	result := Simulation{Success: true, Gas: intent.Gas}
	if intent.Simulate != "off" {
		from, pays, err := m.likelySigner(ctx, intent)
		if err != nil {
			return result, Cost{}, err
		}
		call := Call{From: from, To: intent.To, Value: intent.Value, Data: intent.Data, Gas: intent.Gas, Extra: intent.Extra, State: intent.Simulate, Funded: !pays}
		result, err = c.Simulate(ctx, call)
		if pays && ClassOf(err) == ClassFunds { // it has the value and not the gas: that is no word about the call
			call.Funded, pays = true, false
			result, err = c.Simulate(ctx, call)
		}
		if encoder, ok := c.(Encoder); ok && !result.Success {
			if why := encoder.Reason(result.Output, intent.Extra.Errors); why != "" {
				result.Reason = why
			}
		}
		switch unpaid := ClassOf(err) == ClassFunds || err == nil && !result.Success && !pays; {
		case unpaid && intent.Gas == 0:
			why := "needed, since no signer can pay " + c.Traits().Unit.Text(intent.Value) + " and it cannot be tried from one"
			if result.Reason != "" {
				why += ": " + result.Reason
			}
			return result, Cost{}, invalid("gas", why)
		case unpaid: // it waits for somebody who can pay; what would become of it then is not known
			result = Simulation{Success: true}
		case err != nil:
			return result, Cost{}, fmt.Errorf("%w: simulation: %w", ErrUnavailable, err)
		}
		if intent.Gas != 0 {
			result.Gas = intent.Gas
		}
	}
	price := intent.MaxFee
	if price == nil {
		market, err := m.Fees(ctx, intent.Chain)
		if err != nil {
			return result, Cost{}, err
		}
		price = m.ceiling(intent.Chain, market.Tips[intent.Speed].Max)
	}
	total := new(big.Int).Mul(price, new(big.Int).SetUint64(result.Gas))
	return result, Cost{Gas: result.Gas, Price: price, Total: total}, nil
}

// ceiling returns the price that an intent without a cap of its own can reach: twice the
// market, or the chain's cap. Replacements go no higher.
func (m *Manager) ceiling(chain string, market *big.Int) *big.Int {
	price := new(big.Int).Lsh(market, 1)
	if limit := m.feeCap(chain); limit != nil && price.Cmp(limit) > 0 {
		return limit
	}
	return price
}

// feeCap returns the cap per gas of the settings: the chain's own, else that of all, else what the market of the last hour sets. A chain whose
// own is 0 has none: nil.
func (m *Manager) feeCap(chain string) *big.Int {
	if own, set := m.feeCaps[chain]; set {
		if own.Sign() == 0 {
			return nil
		}
		return own
	}
	if m.c.MaxFeePerGas == 0 {
		return m.fees[chain].known().Cap // that the market itself has named
	}
	return new(big.Int).SetUint64(m.c.MaxFeePerGas)
}

// capped says which of its caps keeps an intent from what it would cost: the lowest of those that there are. market is the price of its speed,
// and a replacement goes no higher than ceiling without a cap of its own.
func (m *Manager) capped(i *Intent, market *big.Int, replaces bool) string {
	lowest, who := i.MaxFee, "its own maxFeePerGas"
	limit := m.feeCap(i.Chain)
	if limit != nil && (lowest == nil || limit.Cmp(lowest) < 0) {
		lowest, who = limit, "the highest price of the settings"
		if _, own := m.feeCaps[i.Chain]; !own && m.c.MaxFeePerGas == 0 {
			who = "many times the price of the last hour; no cap is set"
		}
	}
	if !replaces {
		return "fee_cap: the market is above " + who
	}
	if i.MaxFee == nil && market != nil {
		if twice := new(big.Int).Lsh(market, 1); lowest == nil || twice.Cmp(lowest) < 0 {
			who = "twice the market, which it may cost without a maxFeePerGas"
		}
	}
	return "fee_cap: a replacement would cost more than " + who
}

// signable refuses an intent that no key here may sign. While this is not known it is accepted: no key gets what it may
// not sign.
func (m *Manager) signable(ctx context.Context, c Restricted, intent *Intent) error {
	lanes, err := m.store.Lanes(ctx, intent.Chain)
	if err != nil {
		return err
	}
	var why []error
	for _, lane := range lanes {
		if !lane.Ours || !eligiblePool(lane, intent) {
			continue
		}
		reason, err := c.MaySign(ctx, lane.Signer, intent.call())
		switch {
		case err != nil, reason == "":
			return nil //nolint:nilerr // not known
		default:
			why = append(why, fmt.Errorf("%w: %s: %s", ErrPolicy, lane.Signer, reason))
		}
	}
	return errors.Join(why...)
}

// likelySigner returns the account that an intent is tried from, and whether it can pay the value: one that could get the
// intent now, the richest of those; else any that could one day.
func (m *Manager) likelySigner(ctx context.Context, intent *Intent) (signer string, pays bool, err error) {
	if intent.Signer != "" {
		return intent.Signer, true, nil
	}
	lanes, err := m.store.Lanes(ctx, intent.Chain)
	if err != nil {
		return "", false, err
	}
	var best *Lane
	serves := func(l *Lane) bool { return m.c.usable(l, nil) == "" }
	for _, lane := range lanes {
		switch {
		case !lane.Ours || !eligiblePool(lane, intent):
		case best == nil, !serves(best) && serves(lane):
			best = lane
		case serves(best) == serves(lane) && !best.holds(intent.Value) && higher(best.Balance, lane.Balance) == lane.Balance:
			best = lane
		}
	}
	if best != nil {
		return best.Signer, best.holds(intent.Value), nil
	}
	return "", false, fmt.Errorf("%w: no signer serves pool %q, pin %q on chain %s", ErrUnknownSigner, intent.Pool, intent.Pin, intent.Chain)
}

// feeCache keeps a chain's fees for a moment, and for longer when the chain does not answer.
type feeCache struct {
	mu     sync.Mutex
	market Market
	asking singleflight.Group
}

// The ages of remembered fees.
const (
	feesFresh = time.Second
	feesStale = time.Minute
)

// Fees returns what a chain's fees cost now. When the chain does not answer, an answer of
// the last minute is taken, with an eighth on top.
func (m *Manager) Fees(ctx context.Context, chain string) (Market, error) {
	c, err := m.Chain(chain)
	if err != nil {
		return Market{}, err
	}
	cache := m.fees[chain]
	market := cache.known()
	if market.At > time.Now().Add(-feesFresh).UnixMicro() {
		return market, nil
	}
	shared := cache.asking.DoChan("", func() (any, error) {
		fresh, err := c.Market(context.WithoutCancel(ctx))
		if err == nil {
			cache.mu.Lock()
			cache.market = fresh
			cache.mu.Unlock()
		}
		return fresh, err
	})
	select {
	case answer := <-shared:
		switch {
		case answer.Err == nil:
			return answer.Val.(Market), nil
		case market.At > time.Now().Add(-feesStale).UnixMicro():
			return market.withMargin(), nil
		}
		return Market{}, fmt.Errorf("%w: fees: %w", ErrUnavailable, answer.Err)
	case <-ctx.Done():
		return Market{}, ctx.Err()
	}
}

func (f *feeCache) known() Market {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.market
}

func (k Market) withMargin() Market {
	raised := Market{BaseFee: k.BaseFee, Cap: k.Cap, At: k.At, Tips: map[string]Fees{}}
	for speed, fees := range k.Tips {
		raised.Tips[speed] = Fees{Max: eighthMore(fees.Max), Tip: eighthMore(fees.Tip)}
	}
	return raised
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
