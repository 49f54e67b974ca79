package sqlstore

import (
	"context"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// slotsWhere reads a lane's slots in the order of their nonces.
func slotsWhere(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, condition, suffix ledger.SQL, args ...any) ([]*txmgr.Slot, error) {
	args = append([]any{lane.Chain, lane.Era, lane.Signer}, args...)
	return ledger.Select[txmgr.Slot](ctx, tx, "", "slots WHERE chain = $1 AND era = $2 AND signer = $3 AND "+condition+" ORDER BY nonce"+suffix, args...)
}

// freeSlots reads the lowest slots of a lane that nobody has, a maximum of limit.
func freeSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, limit int, lock ledger.SQL) ([]*txmgr.Slot, error) {
	return slotsWhere(ctx, tx, lane, "NOT final AND holder = 'free' AND consumed = ''", " LIMIT "+ledger.Number(limit)+lock)
}

// slotsByNonce locks slots.
func slotsByNonce(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonces []uint64) (map[uint64]*txmgr.Slot, error) {
	found := map[uint64]*txmgr.Slot{}
	_, err := ledger.In(ctx, tx, "SELECT "+ledger.Names[txmgr.Slot]("")+" FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce IN %s ORDER BY nonce"+tx.ForUpdate(),
		[]any{lane.Chain, lane.Era, lane.Signer}, nonces, func(r ledger.Row) error {
			s := &txmgr.Slot{}
			err := ledger.Scan(r, s)
			found[s.Nonce] = s
			return err
		})
	return found, err
}

func saveSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Slot) error {
	for _, s := range list {
		s.Chain, s.Era, s.Signer = lane.Chain, lane.Era, lane.Signer
	}
	if err := ledger.Put(ctx, tx, "slots", "chain era signer nonce", list); err != nil {
		return fmt.Errorf("store slots: %w", err)
	}
	return nil
}

func attemptsWhere(ctx context.Context, tx *ledger.Tx, condition ledger.SQL, args ...any) ([]*txmgr.Attempt, error) {
	return ledger.Select[txmgr.Attempt](ctx, tx, "", "attempts WHERE "+condition+" ORDER BY nonce, version", args...)
}

// attemptsBetween are those of a lane's nonces from the first to the last. A join with the
// open slots would name fewer, but a database that has not counted its rows yet compares
// every slot with every attempt.
func attemptsBetween(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, first, last uint64) ([]*txmgr.Attempt, error) {
	return attemptsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce >= $4 AND nonce <= $5", lane.Chain, lane.Era, lane.Signer, int64(first), int64(last))
}

func insertAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list []*txmgr.Attempt) error {
	for _, a := range list {
		a.Chain, a.Era, a.Signer = lane.Chain, lane.Era, lane.Signer
	}
	if err := ledger.Insert(ctx, tx, "attempts", list, "", nil); err != nil {
		return fmt.Errorf("store attempts: %w", err)
	}
	return nil
}

// saveAttempts writes back what can change of an attempt; its bytes never do.
func saveAttempts(ctx context.Context, tx *ledger.Tx, list []*txmgr.Attempt) error {
	if _, err := ledger.Update(ctx, tx, "attempts", "chain era hash tag", "state ambiguous sent_at offers refused_at error_class error", list); err != nil {
		return fmt.Errorf("update attempts: %w", err)
	}
	return nil
}
