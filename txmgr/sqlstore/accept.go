package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// aloneFrom is the number of intents from which on a call has a transaction of its own.
const aloneFrom = 10

// accepting is one call of Accept.
type accepting struct {
	list, stored []*txmgr.Intent
	err          error
}

// Accept stores intents with their keys and holds. Small calls of one moment share a
// transaction.
func (s *Store) Accept(ctx context.Context, list []*txmgr.Intent) ([]*txmgr.Intent, error) {
	call := &accepting{list: list}
	run := s.acceptAll
	if len(list) < aloneFrom {
		run = func(ctx context.Context, _ ...*accepting) error {
			return s.together.do(ctx, "", call, s.acceptTogether)
		}
	}
	if err := run(ctx, call); err != nil {
		return nil, err
	}
	if call.err != nil {
		return nil, call.err
	}
	return call.stored, nil
}

// acceptTogether accepts what several callers hand over. If that fails, nothing was stored, and
// each call is tried alone, so that one caller's error is no other's.
func (s *Store) acceptTogether(ctx context.Context, all []*accepting) error {
	err := s.acceptAll(ctx, all...)
	var unsure *ledger.UncertainError
	if err == nil || len(all) == 1 || errors.As(err, &unsure) || ledger.IsDown(err) || ctx.Err() != nil {
		return err
	}
	for _, call := range all {
		call.err = s.acceptAll(ctx, call)
	}
	return nil
}

func (s *Store) acceptAll(ctx context.Context, calls ...*accepting) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		var all []*txmgr.Intent
		for _, call := range calls {
			all = append(all, call.list...)
		}
		if err := checkKills(ctx, tx, all...); err != nil {
			return err
		}
		stored, err := claimKeys(ctx, tx, now, all)
		if err != nil {
			return err
		}
		var fresh []*txmgr.Intent
		next := 0
		for _, call := range calls {
			call.stored = make([]*txmgr.Intent, len(call.list))
			for n, i := range call.list {
				call.stored[n] = stored[next]
				if stored[next] == i {
					fresh = append(fresh, i)
				}
				next++
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		if err := claimOnce(ctx, tx, fresh); err != nil {
			return err
		}
		if err := enter(ctx, tx, now, fresh...); err != nil {
			return err
		}
		for _, call := range calls {
			call.copyOthers()
		}
		return nil
	})
}

// enter stores new intents with their holds, and leaves an event for each.
func enter(ctx context.Context, tx *ledger.Tx, now int64, list ...*txmgr.Intent) error {
	if err := hold(ctx, tx, list); err != nil {
		return err
	}
	if err := insertIntents(ctx, tx, now, list); err != nil {
		return err
	}
	return emit(ctx, tx, now, list...)
}

// copyOthers makes what another call handed over this call's own.
func (a *accepting) copyOthers() {
	for n, i := range a.stored {
		if i != a.list[n] {
			own := *i
			a.stored[n] = &own
		}
	}
}

// checkKills fails if a kill switch covers any of some intents.
func checkKills(ctx context.Context, tx *ledger.Tx, list ...*txmgr.Intent) error {
	kills, err := killsOf(ctx, tx)
	if err != nil || len(kills) == 0 {
		return err
	}
	for _, i := range list {
		signer := cmp.Or(i.Signer, i.Pin)
		for _, scope := range []string{txmgr.ScopeAll, txmgr.ChainScope(i.Chain), txmgr.PoolScope(i.Chain, i.Pool), txmgr.SignerScope(i.Chain, signer)} {
			if reason, on := kills[scope]; on {
				return fmt.Errorf("%w for %s: %s", txmgr.ErrKilled, scope, reason)
			}
		}
	}
	return nil
}

// claimKey takes an intent's idempotency key. If an earlier request has it, that one's
// intent is returned.
func claimKey(ctx context.Context, tx *ledger.Tx, now int64, i *txmgr.Intent) (*txmgr.Intent, error) {
	stored, err := claimKeys(ctx, tx, now, []*txmgr.Intent{i})
	if err != nil || stored[0] == i {
		return nil, err
	}
	return stored[0], nil
}

// claimKeys takes intents' idempotency keys and returns for each the intent that has its key:
// itself, an earlier one of the list, or an earlier request's.
func claimKeys(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent) ([]*txmgr.Intent, error) {
	stored := make([]*txmgr.Intent, len(list))
	first := map[[2]string]*txmgr.Intent{}
	var claims []*txmgr.Intent
	for n, i := range list {
		key := [2]string{i.Tenant, i.IdempotencyKey}
		stored[n] = i
		if i.IdempotencyKey == "" {
			continue
		}
		if other := first[key]; other != nil {
			if other.BodyHash != i.BodyHash {
				return nil, txmgr.ErrIdempotency
			}
			stored[n] = other
			continue
		}
		first[key] = i
		claims = append(claims, i)
	}
	taken, err := insertKeys(ctx, tx, now, claims)
	if err != nil {
		return nil, err
	}
	for key, i := range first {
		if taken[key] {
			continue
		}
		earlier, err := byKey(ctx, tx, i.Tenant, i.IdempotencyKey, i.BodyHash)
		if err != nil {
			return nil, err
		}
		for n := range stored {
			if stored[n] == i {
				stored[n] = earlier
			}
		}
	}
	return stored, nil
}

// insertKeys stores idempotency keys, in one order everywhere, and returns those that were new.
func insertKeys(ctx context.Context, tx *ledger.Tx, now int64, list []*txmgr.Intent) (map[[2]string]bool, error) {
	taken := map[[2]string]bool{}
	slices.SortFunc(list, func(a, b *txmgr.Intent) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.IdempotencyKey, b.IdempotencyKey))
	})
	_, err := ledger.Values(ctx, tx, "INSERT INTO idempotency (tenant, idem_key, intent, body_hash, created_at) VALUES %s ON CONFLICT (tenant, idem_key) DO NOTHING RETURNING tenant, idem_key", list,
		func(i *txmgr.Intent) []any { return []any{i.Tenant, i.IdempotencyKey, i.ID, i.BodyHash, now} },
		func(r ledger.Row) error {
			var key [2]string
			err := r.Scan(&key[0], &key[1])
			taken[key] = true
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("store idempotency keys: %w", err)
	}
	return taken, nil
}

// byKey returns the intent of a key; a body hash of "" matches all.
func byKey(ctx context.Context, tx *ledger.Tx, tenant, key, body string) (*txmgr.Intent, error) {
	var id, hash string
	var forgotten bool
	found, err := tx.One(ctx, "SELECT intent, body_hash, forgotten FROM idempotency WHERE tenant = $1 AND idem_key = $2", []any{tenant, key}, &id, &hash, &forgotten)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, txmgr.ErrNotFound
	case body != "" && hash != body:
		return nil, txmgr.ErrIdempotency
	case forgotten:
		return nil, txmgr.ErrForgotten
	}
	list, err := intentsWhere(ctx, tx, "id = $1", id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, txmgr.ErrForgotten
	}
	return list[0], nil
}

// ByKey returns the intent of an idempotency key; a body hash of "" matches all.
func (s *Store) ByKey(ctx context.Context, tenant, key, body string) (*txmgr.Intent, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (*txmgr.Intent, error) { return byKey(ctx, tx, tenant, key, body) })
}

// budget is one row of the table spend.
type budget struct {
	Scope   string   `db:"scope"`
	Day     string   `db:"day"`
	Held    *big.Int `db:"held,0"`
	Settled *big.Int `db:"settled,0"`
}

// spendRow locks one, which it makes if there is none.
func spendRow(ctx context.Context, tx *ledger.Tx, scope, day string) (*budget, error) {
	if _, err := tx.Exec(ctx, "INSERT INTO spend (scope, day, held, settled) VALUES ($1, $2, '0', '0') ON CONFLICT (scope, day) DO NOTHING", scope, day); err != nil {
		return nil, err
	}
	b := &budget{}
	return b, tx.Query(ctx, "SELECT "+ledger.Names[budget]("")+" FROM spend WHERE scope = $1 AND day = $2"+tx.ForUpdate(), []any{scope, day}, func(r ledger.Row) error { return ledger.Scan(r, b) })
}

func (b *budget) save(ctx context.Context, tx *ledger.Tx) error {
	return ledger.Put(ctx, tx, "spend", "scope day", []*budget{b})
}

// hold takes the budgets of new intents, row by row in one order.
func hold(ctx context.Context, tx *ledger.Tx, list []*txmgr.Intent) error {
	var all []txmgr.Hold
	for _, i := range list {
		all = append(all, i.Holds...)
	}
	sortHolds(all)
	var b *budget
	for n, h := range all {
		if n == 0 || h.Scope != b.Scope || h.Day != b.Day {
			var err error
			if b, err = spendRow(ctx, tx, h.Scope, h.Day); err != nil {
				return err
			}
		}
		b.Held.Add(b.Held, h.Amount)
		if h.Limit != nil && new(big.Int).Add(b.Held, b.Settled).Cmp(h.Limit) > 0 {
			return fmt.Errorf("%w: %s on %s", txmgr.ErrBudget, h.Scope, h.Day)
		}
		if n+1 < len(all) && all[n+1].Scope == h.Scope && all[n+1].Day == h.Day {
			continue
		}
		if err := b.save(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func sortHolds(list []txmgr.Hold) {
	slices.SortFunc(list, func(a, b txmgr.Hold) int { return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Day, b.Day)) })
}

// settle ends the holds of an intent that has got its fate, and charges what it cost.
func settle(ctx context.Context, tx *ledger.Tx, i *txmgr.Intent, cost *big.Int) error {
	return spend(ctx, tx, i.Holds, cost, true)
}

// charge adds to what an intent has cost, for fills that it caused.
func charge(ctx context.Context, tx *ledger.Tx, id string, cost *big.Int) error {
	if id == "" || cost.Sign() == 0 {
		return nil
	}
	list, err := intentsWhere(ctx, tx, "id = $1"+tx.ForUpdate(), id)
	if err != nil || len(list) == 0 {
		return err
	}
	i := list[0]
	i.Caused.Add(i.Caused, cost)
	if _, err := ledger.Update(ctx, tx, "intents", "id", "extra_cost", list); err != nil {
		return err
	}
	return spend(ctx, tx, i.Holds, cost, false)
}

// chargeReserved charges the fill of a nonce to whom it was reserved for last.
func chargeReserved(ctx context.Context, tx *ledger.Tx, fill *txmgr.Attempt, cost *big.Int) error {
	list, err := reservationsWhere(ctx, tx, `chain = $1 AND signer = $2 AND nonce = $3 AND era = (SELECT l.era FROM signer_chains l WHERE l.chain = $1 AND l.signer = $2)
		ORDER BY created_at DESC LIMIT 1`, fill.Chain, fill.Signer, int64(fill.Nonce))
	if err != nil || len(list) == 0 || cost.Sign() == 0 {
		return err
	}
	return spend(ctx, tx, list[0].Holds, cost, false)
}

// spend charges budgets. At the end of an intent it also gives back what was held for it.
func spend(ctx context.Context, tx *ledger.Tx, on []txmgr.Hold, cost *big.Int, ends bool) error {
	holds := slices.Clone(on)
	sortHolds(holds)
	for _, h := range holds {
		b, err := spendRow(ctx, tx, h.Scope, h.Day)
		if err != nil {
			return err
		}
		b.Settled.Add(b.Settled, cost)
		if ends {
			b.Held.Sub(b.Held, h.Amount)
		}
		if err := b.save(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}
