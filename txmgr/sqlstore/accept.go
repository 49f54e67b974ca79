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
	i, err := ledger.First(intentsWhere(ctx, tx, "id = $1", id))
	if err == nil && i == nil {
		err = txmgr.ErrForgotten
	}
	return i, err
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
	i, err := ledger.First(intentsWhere(ctx, tx, "id = $1"+tx.ForUpdate(), id))
	if err != nil || i == nil {
		return err
	}
	i.Caused.Add(i.Caused, cost)
	if _, err := ledger.Update(ctx, tx, "intents", "id", "extra_cost", []*txmgr.Intent{i}); err != nil {
		return err
	}
	return spend(ctx, tx, i.Holds, cost, false)
}

// chargeReserved charges the fill of a nonce to whom it was reserved for last.
func chargeReserved(ctx context.Context, tx *ledger.Tx, fill *txmgr.Attempt, cost *big.Int) error {
	last, err := ledger.First(reservationsWhere(ctx, tx, `chain = $1 AND signer = $2 AND nonce = $3 AND era = (SELECT l.era FROM signer_chains l WHERE l.chain = $1 AND l.signer = $2)
		ORDER BY created_at DESC LIMIT 1`, fill.Chain, fill.Signer, int64(fill.Nonce)))
	if err != nil || last == nil || cost.Sign() == 0 {
		return err
	}
	return spend(ctx, tx, last.Holds, cost, false)
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

// AcceptRaw stores a transaction that its caller signed, in its slot.
func (s *Store) AcceptRaw(ctx context.Context, intent *txmgr.Intent, attempt txmgr.Attempt, at txmgr.RawSlot) (*txmgr.Intent, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*txmgr.Intent, error) {
		lane, err := laneRow(ctx, tx, attempt.Chain, attempt.Signer)
		if err != nil {
			return nil, err
		}
		if err := checkKills(ctx, tx, intent); err != nil {
			return nil, err
		}
		// The key first: what it answers with is stored, whatever became of the bytes.
		old, err := claimKey(ctx, tx, now, intent)
		if err != nil || old != nil {
			return old, err
		}
		var earlier string
		found, err := tx.One(ctx, "SELECT intent FROM attempts WHERE chain = $1 AND era = $2 AND hash = $3 LIMIT 1", []any{lane.Chain, lane.Era, attempt.Hash}, &earlier)
		if err != nil {
			return nil, err
		}
		if found {
			same, err := ledger.First(intentsWhere(ctx, tx, "id = $1 AND tenant = $2", earlier, intent.Tenant))
			return cmp.Or(same, intent), cmp.Or(err, txmgr.ErrDuplicate)
		}
		slot, version, err := rawSlot(ctx, tx, now, lane, intent, attempt, at)
		if err != nil {
			return nil, err
		}
		attempt.Version, attempt.SignedAt = version, now
		slot.Signed, slot.AssignedAt = true, now
		intent.Status, intent.Era = txmgr.StatusSigned, lane.Era
		if err := saveSlots(ctx, tx, lane, slot); err != nil {
			return nil, err
		}
		if err := insertAttempts(ctx, tx, lane, []*txmgr.Attempt{&attempt}); err != nil {
			return nil, err
		}
		return intent, enter(ctx, tx, now, intent)
	})
}

// rawSlot finds the slot of a transaction that its caller signed, and the attempt's version in
// it: the reserved one, the tenant's own transaction to be replaced, or the next.
func rawSlot(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane, intent *txmgr.Intent, attempt txmgr.Attempt, at txmgr.RawSlot) (*txmgr.Slot, int, error) {
	slots, err := slotsByNonce(ctx, tx, lane, []uint64{attempt.Nonce})
	if err != nil {
		return nil, 0, err
	}
	slot := slots[attempt.Nonce]
	if at.Reservation != "" && (slot == nil || slot.Reservation != at.Reservation) {
		return nil, 0, txmgr.ErrNoReservation
	}
	issued, expired, err := issuedTo(ctx, tx, lane, attempt.Nonce, intent.Tenant)
	if err != nil {
		return nil, 0, err
	}
	if slot == nil {
		// The bytes of a reservation that has expired: the nonce may be reissued at any time.
		if attempt.Nonce != lane.NextNonce || expired > 0 {
			return nil, 0, conflict(ctx, tx, lane, attempt.Nonce, true)
		}
		if locked(lane, now) {
			return nil, 0, txmgr.ErrLocked
		}
		lane.NextNonce++
		slot = &txmgr.Slot{Nonce: attempt.Nonce, Holder: txmgr.HolderIntent, Intent: intent.ID}
		return slot, 1, saveLane(ctx, tx, lane)
	}
	if slot.Consumed != "" || slot.Final {
		return nil, 0, conflict(ctx, tx, lane, attempt.Nonce, true)
	}
	if slot.Reservation != "" && at.Reservation == "" && issued > 1 && !at.NoIDs {
		return nil, 0, fmt.Errorf("%w: nonce %d was given out several times, so name the reservation", txmgr.ErrNoReservation, attempt.Nonce)
	}
	switch slot.Holder {
	case txmgr.HolderReservation:
		if err := useReservation(ctx, tx, now, lane, slot, intent.Tenant, attempt, at); err != nil {
			return nil, 0, err
		}
	case txmgr.HolderFree:
		if expired > 0 {
			return nil, 0, conflict(ctx, tx, lane, attempt.Nonce, true)
		}
		if locked(lane, now) {
			return nil, 0, txmgr.ErrLocked
		}
	case txmgr.HolderIntent:
		return rawReplacement(ctx, tx, lane, slot, intent)
	default:
		return nil, 0, conflict(ctx, tx, lane, attempt.Nonce, true)
	}
	version, err := nextVersion(ctx, tx, lane, slot.Nonce)
	slot.Holder, slot.Intent = txmgr.HolderIntent, intent.ID
	return slot, version, err
}

// conflict is the error of a nonce that cannot be used. It names the nonce that a reservation would get now.
func conflict(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, attempted uint64, retry bool) error {
	free, err := ledger.First(freeSlots(ctx, tx, lane, 1, ""))
	if err != nil {
		return err
	}
	current := lane.NextNonce
	if free != nil {
		current = free.Nonce
	}
	return &txmgr.NonceConflict{Current: current, Attempted: attempted, Retry: retry}
}

// useReservation ends the reservation that holds a slot, for the transaction that it was made for.
func useReservation(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane, slot *txmgr.Slot, tenant string, attempt txmgr.Attempt, at txmgr.RawSlot) error {
	n, err := tx.Exec(ctx, `UPDATE reservations SET status = 'used', hash = $4 WHERE id = $1 AND tenant = $2 AND status = 'held' AND expires_at > $3`,
		slot.Reservation, tenant, now, attempt.Hash)
	switch {
	case err != nil || n > 0:
		return err
	case at.Reservation != "":
		return txmgr.ErrNoReservation
	}
	held, err := ledger.First(reservationsWhere(ctx, tx, "id = $1", slot.Reservation))
	if err != nil {
		return err
	}
	return conflict(ctx, tx, lane, slot.Nonce, held != nil && held.Tenant == tenant)
}

// issuedTo counts how often a tenant had a nonce reserved, and how many of those reservations have expired.
func issuedTo(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonce uint64, tenant string) (issued, expired int, err error) {
	_, err = tx.One(ctx, `SELECT count(*), coalesce(sum(CASE WHEN status = 'expired' THEN 1 ELSE 0 END), 0) FROM reservations
		WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce = $4 AND tenant = $5`,
		[]any{lane.Chain, lane.Era, lane.Signer, int64(nonce), tenant}, &issued, &expired)
	return issued, expired, err
}

// rawReplacement lets a caller raise the fees of its own transaction.
func rawReplacement(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, slot *txmgr.Slot, intent *txmgr.Intent) (*txmgr.Slot, int, error) {
	holders, err := intentsByID(ctx, tx, []string{slot.Intent})
	if err != nil {
		return nil, 0, err
	}
	holder := holders[slot.Intent]
	if holder == nil || holder.Kind != txmgr.KindRaw || holder.Tenant != intent.Tenant {
		return nil, 0, conflict(ctx, tx, lane, slot.Nonce, holder != nil && holder.Tenant == intent.Tenant)
	}
	intent.Replaces = holder.ID
	version, err := nextVersion(ctx, tx, lane, slot.Nonce)
	return slot, version, err
}

func nextVersion(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonce uint64) (int, error) {
	var newest int
	_, err := tx.One(ctx, "SELECT coalesce(max(version), 0) FROM attempts WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce = $4",
		[]any{lane.Chain, lane.Era, lane.Signer, int64(nonce)}, &newest)
	return newest + 1, err
}
