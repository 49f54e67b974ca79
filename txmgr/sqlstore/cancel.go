package sqlstore

import (
	"context"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// RequestCancel ends an intent without a signed attempt, or marks it for its owner.
func (s *Store) RequestCancel(ctx context.Context, tenant, id string) (*txmgr.Intent, error) {
	var result *txmgr.Intent
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		i, lane, err := lockedIntent(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		result = i
		switch i.Status {
		case txmgr.StatusAccepted, txmgr.StatusAssigned:
			if err := end(ctx, tx, now, id, txmgr.StatusCancelled, txmgr.Failure{}); err != nil {
				return err
			}
			list, err := intentsWhere(ctx, tx, "id = $1", id)
			if err == nil {
				result = list[0]
			}
			return err
		case txmgr.StatusSigned, txmgr.StatusBroadcast, txmgr.StatusUnknown:
			if i.Kind == txmgr.KindRaw || lane == nil || !lane.Ours {
				return txmgr.ErrNotPossible
			}
			if i.Cancel {
				return nil
			}
			i.Cancel = true
			return saveIntents(ctx, tx, now, i)
		case txmgr.StatusCancelled:
			return nil
		default:
			return fmt.Errorf("%w: %s", txmgr.ErrTooLate, i.Status)
		}
	})
	return result, err
}

// lockedIntent locks an intent's lane, if it has one, and then the intent.
func lockedIntent(ctx context.Context, tx *ledger.Tx, tenant, id string) (*txmgr.Intent, *txmgr.Lane, error) {
	seen, err := intentsWhere(ctx, tx, "id = $1 AND ($2 = '' OR tenant = $2)", id, tenant)
	if err != nil {
		return nil, nil, err
	}
	if len(seen) == 0 {
		return nil, nil, txmgr.ErrNotFound
	}
	var lane *txmgr.Lane
	if seen[0].Signer != "" {
		if lane, err = laneRow(ctx, tx, seen[0].Chain, seen[0].Signer); err != nil {
			return nil, nil, err
		}
	}
	locked, err := intentsByID(ctx, tx, []string{id})
	if err != nil {
		return nil, nil, err
	}
	i := locked[id]
	if i == nil || i.Signer != seen[0].Signer {
		return nil, nil, txmgr.ErrStale
	}
	return i, lane, nil
}

// AcceptReplacement stores an intent that takes the place of another.
func (s *Store) AcceptReplacement(ctx context.Context, tenant, old string, intent *txmgr.Intent) (*txmgr.Intent, error) {
	result := intent
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		result = intent
		i, lane, err := lockedIntent(ctx, tx, tenant, old)
		if err != nil {
			return err
		}
		if err := checkKills(ctx, tx, intent); err != nil {
			return err
		}
		earlier, err := claimKey(ctx, tx, now, intent)
		if err != nil || earlier != nil {
			result = earlier
			return err
		}
		intent.Status, intent.Signer, intent.Nonce, intent.Era = txmgr.StatusAccepted, "", 0, 0
		signed := false
		switch i.Status {
		case txmgr.StatusAccepted:
		case txmgr.StatusAssigned, txmgr.StatusSigned, txmgr.StatusBroadcast, txmgr.StatusUnknown:
			if i.Kind == txmgr.KindRaw || lane == nil || !lane.Ours {
				return txmgr.ErrNotPossible
			}
			intent.Status, intent.Signer, intent.Nonce, intent.Era = txmgr.StatusAssigned, i.Signer, i.Nonce, i.Era
			signed = i.Status != txmgr.StatusAssigned
		default:
			return fmt.Errorf("%w: %s", txmgr.ErrTooLate, i.Status)
		}
		if err := claimOnce(ctx, tx, []*txmgr.Intent{intent}); err != nil {
			return err
		}
		if err := enter(ctx, tx, now, intent); err != nil {
			return err
		}
		if signed {
			return nil // which of both is mined decides
		}
		return end(ctx, tx, now, old, txmgr.StatusReplaced, txmgr.Failure{})
	})
	return result, err
}
