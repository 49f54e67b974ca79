package sqlstore

import (
	"cmp"
	"context"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// AcceptRaw stores a transaction that its caller signed, in its slot.
func (s *Store) AcceptRaw(ctx context.Context, intent *txmgr.Intent, attempt txmgr.Attempt, at txmgr.RawSlot) (*txmgr.Intent, error) {
	result := intent
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		result = intent
		lane, err := laneRow(ctx, tx, attempt.Chain, attempt.Signer)
		if err != nil {
			return err
		}
		if err := checkKills(ctx, tx, intent); err != nil {
			return err
		}
		// The key first: what it answers with is stored, whatever became of the bytes.
		old, err := claimKey(ctx, tx, now, intent)
		if err != nil || old != nil {
			result = old
			return err
		}
		var earlier string
		found, err := tx.One(ctx, "SELECT intent FROM attempts WHERE chain = $1 AND era = $2 AND hash = $3 LIMIT 1", []any{lane.Chain, lane.Era, attempt.Hash}, &earlier)
		if err != nil {
			return err
		}
		if found {
			list, err := intentsWhere(ctx, tx, "id = $1 AND tenant = $2", earlier, intent.Tenant)
			if err == nil && len(list) > 0 {
				result = list[0]
			}
			return cmp.Or(err, txmgr.ErrDuplicate)
		}
		slot, version, err := rawSlot(ctx, tx, now, lane, intent, attempt, at)
		if err != nil {
			return err
		}
		attempt.Version, attempt.SignedAt = version, now
		slot.Signed, slot.AssignedAt = true, now
		intent.Status, intent.Era = txmgr.StatusSigned, lane.Era
		if err := saveSlots(ctx, tx, lane, slot); err != nil {
			return err
		}
		if err := insertAttempts(ctx, tx, lane, []*txmgr.Attempt{&attempt}); err != nil {
			return err
		}
		return enter(ctx, tx, now, intent)
	})
	return result, err
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
	free, err := freeSlots(ctx, tx, lane, 1, "")
	if err != nil {
		return err
	}
	current := lane.NextNonce
	if len(free) > 0 {
		current = free[0].Nonce
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
	holders, err := reservationsWhere(ctx, tx, "id = $1", slot.Reservation)
	if err != nil {
		return err
	}
	return conflict(ctx, tx, lane, slot.Nonce, len(holders) > 0 && holders[0].Tenant == tenant)
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
