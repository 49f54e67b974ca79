package sqlstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

func reservationsWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*txmgr.Reservation, error) {
	return ledger.Select[txmgr.Reservation](ctx, tx, "", "reservations WHERE "+condition, args...)
}

// wanted is one call that wants a nonce, with what became of it.
type wanted struct {
	tenant string
	ttl    int64
	limit  int
	only   bool
	holds  []txmgr.Hold
	taken  *txmgr.Reservation
	err    error
}

// Reserve takes the lowest free nonce, else the next. Calls that come while a transaction
// for their lane is running share the next one: it costs about the same for one as for many.
func (s *Store) Reserve(ctx context.Context, chain, signer, tenant string, ttl int64, limit int, only bool, holds ...txmgr.Hold) (*txmgr.Reservation, error) {
	want := &wanted{tenant: tenant, ttl: ttl, limit: limit, only: only, holds: holds}
	err := s.reserving.do(ctx, chain+"\x00"+signer, want, func(ctx context.Context, all []*wanted) error {
		return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
			lane, err := laneRow(ctx, tx, chain, signer)
			if err != nil {
				return err
			}
			if locked(lane, now) {
				return txmgr.ErrLocked
			}
			return reserve(ctx, tx, now, lane, all...)
		})
	})
	if err != nil {
		return nil, err
	}
	return want.taken, want.err
}

// locked reports whether a caller has a lane alone. Nobody but the holder knows the lock's id, and the calls for nonces do
// not take it, so the holder's own calls are refused, too: it has the nonce that came with the lock.
func locked(lane *txmgr.Lane, now int64) bool { return lane.LockUntil > now }

// reserve gives each call its nonce or its error. An error that it returns is all of theirs.
func reserve(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane, all ...*wanted) error {
	switch {
	case lane.Halted != "":
		return fmt.Errorf("%w: %s", txmgr.ErrHalted, lane.Halted)
	case !lane.Known:
		return txmgr.ErrNonceUnknown
	}
	if old, err := asleep(ctx, tx, now, lane); err != nil || old {
		return cmp.Or(err, txmgr.ErrNonceUnknown)
	}
	if killed, err := laneKilled(ctx, tx, lane); err != nil || killed {
		return cmp.Or(err, txmgr.ErrKilled)
	}
	allowed, err := allowedReservations(ctx, tx, now, lane, all)
	if err != nil || len(allowed) == 0 {
		return err
	}
	free, err := freeSlots(ctx, tx, lane, len(allowed), tx.ForUpdate())
	if err != nil {
		return err
	}
	var slots []*txmgr.Slot
	var given []*txmgr.Reservation
	for _, want := range allowed {
		slot := &txmgr.Slot{Nonce: lane.NextNonce}
		if len(free) > 0 {
			slot, free = free[0], free[1:]
		} else {
			lane.NextNonce++
		}
		lane.Assigned++
		v := &txmgr.Reservation{
			ID: uuid.NewString(), Chain: lane.Chain, Era: lane.Era, Signer: lane.Signer, Tenant: want.tenant, Nonce: slot.Nonce, Status: "held", Created: now, Expires: now + want.ttl,
			Holds: want.holds,
		}
		want.taken, given = v, append(given, v)
		slot.Holder, slot.Intent, slot.Reservation, slot.AssignedAt = txmgr.HolderReservation, "", v.ID, now
		slots = append(slots, slot)
	}
	if err := saveLane(ctx, tx, lane); err != nil {
		return err
	}
	if err := saveSlots(ctx, tx, lane, slots...); err != nil {
		return err
	}
	return ledger.Insert(ctx, tx, "reservations", given, "", nil)
}

// allowedReservations returns the calls that may have a nonce, and notes the others' errors.
func allowedReservations(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane, all []*wanted) ([]*wanted, error) {
	held := map[string]int{}
	flying := -1
	var allowed []*wanted
	for _, want := range all {
		want.taken, want.err = nil, nil // the transaction may run again
		if _, counted := held[want.tenant]; !counted {
			var n int
			if _, err := tx.One(ctx, "SELECT count(*) FROM reservations WHERE tenant = $1 AND status = 'held' AND expires_at > $2", []any{want.tenant, now}, &n); err != nil {
				return nil, err
			}
			held[want.tenant] = n
		}
		if want.only && flying < 0 {
			var err error
			if flying, err = inFlight(ctx, tx, lane); err != nil {
				return nil, err
			}
		}
		switch {
		case want.limit > 0 && held[want.tenant] >= want.limit:
			want.err = txmgr.ErrTooMany
		case want.only && flying+len(allowed) > 0:
			want.err = fmt.Errorf("%w: a transaction is in flight, and this chain takes one at a time", txmgr.ErrLocked)
		default:
			held[want.tenant]++
			allowed = append(allowed, want)
		}
	}
	return allowed, nil
}

// RenewReservation moves a held reservation's expiry.
func (s *Store) RenewReservation(ctx context.Context, tenant, id string, ttl int64) (*txmgr.Reservation, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*txmgr.Reservation, error) {
		// A signer of ours has others waiting behind it.
		n, err := tx.Exec(ctx, `UPDATE reservations SET expires_at = CASE WHEN created_at < $5 AND EXISTS (SELECT 1 FROM signer_chains l WHERE l.chain = reservations.chain
			AND l.signer = reservations.signer AND l.ours) THEN created_at + $6 ELSE $4 END WHERE id = $1 AND tenant = $2 AND status = 'held' AND expires_at > $3`,
			id, tenant, now, now+ttl, now-3*ttl, 4*ttl)
		if err != nil || n == 0 {
			return nil, cmp.Or(err, txmgr.ErrNoReservation)
		}
		renewed, err := ledger.First(reservationsWhere(ctx, tx, "id = $1", id))
		if err == nil && renewed.Expires <= now {
			err = txmgr.ErrNoReservation
		}
		return renewed, err
	})
}

// Recycle gives a reservation back that no bytes were accepted for.
func (s *Store) Recycle(ctx context.Context, tenant, id, chain, signer string, nonce uint64) (bool, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, _ int64) (bool, error) {
		v, err := findReservation(ctx, tx, tenant, id, chain, signer, nonce)
		if err != nil || v == nil {
			return false, err
		}
		lane, err := laneRow(ctx, tx, v.Chain, v.Signer)
		if err != nil {
			return false, err
		}
		return giveBack(ctx, tx, lane, v, "recycled")
	})
}

// findReservation finds a held one by id, or by nonce the tenant's own if the nonce was
// issued only once.
func findReservation(ctx context.Context, tx *ledger.Tx, tenant, id, chain, signer string, nonce uint64) (*txmgr.Reservation, error) {
	if id != "" {
		return ledger.First(reservationsWhere(ctx, tx, "id = $1 AND tenant = $2 AND status = 'held'", id, tenant))
	}
	list, err := reservationsWhere(ctx, tx, `chain = $1 AND signer = $2 AND nonce = $3
		AND era = (SELECT era FROM signer_chains WHERE chain = $1 AND signer = $2)`, chain, signer, int64(nonce))
	if err != nil || len(list) != 1 || list[0].Tenant != tenant || list[0].Status != "held" {
		return nil, err
	}
	return list[0], nil
}

// giveBack ends a held reservation and frees its slot. The lane is locked.
func giveBack(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, v *txmgr.Reservation, status string) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE reservations SET status = $2 WHERE id = $1 AND status = 'held'", v.ID, status)
	if err != nil || n == 0 {
		return false, err
	}
	slots, err := slotsByNonce(ctx, tx, lane, []uint64{v.Nonce})
	if err != nil {
		return false, err
	}
	slot := slots[v.Nonce]
	if slot == nil || slot.Reservation != v.ID || slot.Holder != txmgr.HolderReservation {
		return true, nil
	}
	slot.Holder, slot.Reservation = txmgr.HolderFree, ""
	if err := saveSlots(ctx, tx, lane, slot); err != nil {
		return false, err
	}
	return true, trim(ctx, tx, lane)
}

// Expire ends reservations whose time has passed.
func (s *Store) Expire(ctx context.Context) ([]txmgr.Reservation, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (ended []txmgr.Reservation, _ error) {
		due, err := reservationsWhere(ctx, tx, "status = 'held' AND expires_at <= $1 ORDER BY chain, signer, nonce DESC LIMIT 500", now)
		if err != nil {
			return nil, err
		}
		for _, v := range due {
			lane, err := laneRow(ctx, tx, v.Chain, v.Signer)
			if err != nil {
				return nil, err
			}
			done, err := giveBack(ctx, tx, lane, v, "expired")
			if err != nil {
				return nil, err
			}
			if !done {
				continue
			}
			v.Status = "expired"
			ended = append(ended, *v)
			if lane.Ours || lane.NextNonce <= v.Nonce {
				continue // filled or given to the next, or not there any more
			}
			body := map[string]any{"chain": v.Chain, "signer": v.Signer, "nonce": v.Nonce, "tenant": v.Tenant}
			if err := tx.Emit(ctx, ledger.Event{Topic: topic, Subject: v.Signer, Kind: "nonce.gap", Body: asJSON(&body), At: now}); err != nil {
				return nil, err
			}
		}
		return ended, nil
	})
}

// LockLane lets one caller have a lane alone, with its next nonce.
func (s *Store) LockLane(ctx context.Context, chain, signer, tenant string, ttl int64, limit int, only bool, holds ...txmgr.Hold) (*txmgr.Reservation, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*txmgr.Reservation, error) {
		lane, err := laneRow(ctx, tx, chain, signer)
		if err != nil {
			return nil, err
		}
		if locked(lane, now) {
			return nil, txmgr.ErrLocked
		}
		want := &wanted{tenant: tenant, ttl: ttl, limit: limit, only: only, holds: holds}
		if err := reserve(ctx, tx, now, lane, want); err != nil {
			return nil, err
		}
		taken := want.taken
		if taken == nil {
			return nil, want.err
		}
		taken.LockID = taken.ID
		_, err = tx.Exec(ctx, "UPDATE signer_chains SET lock_id = $3, lock_tenant = $4, lock_until = $5 WHERE chain = $1 AND signer = $2",
			chain, signer, taken.ID, tenant, now+ttl)
		return taken, err
	})
}

// UnlockLane ends a lock if lockID is the holder's. Its nonce is given back if no bytes
// were accepted for it.
func (s *Store) UnlockLane(ctx context.Context, chain, signer, tenant, lockID string) (bool, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (bool, error) {
		lane, err := laneRow(ctx, tx, chain, signer)
		if err != nil {
			return false, err
		}
		n, err := tx.Exec(ctx, `UPDATE signer_chains SET lock_id = '', lock_until = 0 WHERE chain = $1 AND signer = $2 AND lock_id = $3
			AND lock_tenant = $4 AND lock_until > $5 AND lock_id <> ''`, chain, signer, lockID, tenant, now)
		if err != nil || n == 0 {
			return false, err
		}
		v, err := findReservation(ctx, tx, tenant, lockID, "", "", 0)
		if err == nil && v != nil {
			_, err = giveBack(ctx, tx, lane, v, "recycled")
		}
		return err == nil, err
	})
}
