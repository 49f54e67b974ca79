package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

const slotColumns = "chain, signer, nonce, holder, intent, reservation, cost, signed, consumed, block, block_hash, final, assigned_at, sent_at"

func scanSlot(r ledger.Row) (*txmgr.Slot, error) {
	s := &txmgr.Slot{}
	var nonce, block int64
	err := r.Scan(&s.Chain, &s.Signer, &nonce, &s.Holder, &s.Intent, &s.Reservation, number{&s.Cost}, &s.Signed, &s.Consumed, &block, &s.BlockHash, &s.Final, &s.AssignedAt, &s.SentAt)
	s.Nonce, s.Block = uint64(nonce), uint64(block)
	return s, err
}

// slotsWhere reads a lane's slots in the order of their nonces.
func slotsWhere(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, condition, suffix string, args ...any) ([]*txmgr.Slot, error) {
	args = append([]any{lane.Chain, lane.Era, lane.Signer}, args...)
	return ledger.All(ctx, tx, "SELECT "+slotColumns+" FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND "+condition+" ORDER BY nonce"+suffix, args, scanSlot)
}

// freeSlots reads the lowest slots of a lane that nobody has, a maximum of limit.
func freeSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, limit int, lock string) ([]*txmgr.Slot, error) {
	return slotsWhere(ctx, tx, lane, "NOT final AND holder = 'free' AND consumed = ''", fmt.Sprintf(" LIMIT %d", limit)+lock)
}

// slotsByNonce locks slots.
func slotsByNonce(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonces []uint64) (map[uint64]*txmgr.Slot, error) {
	found := map[uint64]*txmgr.Slot{}
	_, err := ledger.In(ctx, tx, "SELECT "+slotColumns+" FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce IN %s ORDER BY nonce"+tx.ForUpdate(),
		[]any{lane.Chain, lane.Era, lane.Signer}, nonces, func(r ledger.Row) error {
			s, err := scanSlot(r)
			found[s.Nonce] = s
			return err
		})
	return found, err
}

func saveSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Slot) error {
	_, err := ledger.Values(ctx, tx, `INSERT INTO slots (chain, era, signer, nonce, holder, intent, reservation, cost, signed, consumed, block, block_hash, final,
		assigned_at, sent_at) VALUES %s ON CONFLICT (chain, era, signer, nonce) DO UPDATE SET
		holder = excluded.holder, intent = excluded.intent, reservation = excluded.reservation, cost = excluded.cost, signed = excluded.signed,
		consumed = excluded.consumed, block = excluded.block, block_hash = excluded.block_hash, final = excluded.final,
		assigned_at = excluded.assigned_at, sent_at = excluded.sent_at`, list, func(s *txmgr.Slot) []any {
		return []any{
			lane.Chain, lane.Era, lane.Signer, int64(s.Nonce), string(s.Holder), s.Intent, s.Reservation, zero(s.Cost), s.Signed, s.Consumed,
			int64(s.Block), s.BlockHash, s.Final, s.AssignedAt, s.SentAt,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("store slots: %w", err)
	}
	return nil
}

const attemptColumns = `chain, signer, nonce, hash, version, intent, purpose, raw, tag, max_fee, tip, gas, state, ambiguous, signed_at, sent_at,
	offers, refused_at, error_class, error, term`

func scanAttempt(r ledger.Row) (*txmgr.Attempt, error) {
	a := &txmgr.Attempt{}
	var nonce, gas int64
	var raw string
	var failure txmgr.Failure
	err := r.Scan(&a.Chain, &a.Signer, &nonce, &a.Hash, &a.Version, &a.Intent, &a.Purpose, &raw, &a.Tag, number{&a.Fees.Max}, number{&a.Fees.Tip}, &gas,
		&a.State, &a.Ambiguous, &a.SignedAt, &a.SentAt, &a.Offers, &a.RefusedAt, &failure.Class, &failure.Message, &a.Term)
	if err != nil {
		return nil, fmt.Errorf("read an attempt: %w", err)
	}
	if a.Raw, err = hex.DecodeString(raw); err != nil {
		return nil, fmt.Errorf("read an attempt's bytes: %w", err)
	}
	a.Nonce, a.Gas = uint64(nonce), uint64(gas)
	if failure.Class != "" {
		a.Error = &failure
	}
	return a, nil
}

func attemptsWhere(ctx context.Context, tx *ledger.Tx, condition string, args ...any) ([]*txmgr.Attempt, error) {
	return ledger.All(ctx, tx, "SELECT "+attemptColumns+" FROM attempts WHERE "+condition+" ORDER BY nonce, version", args, scanAttempt)
}

// attemptsBetween are those of a lane's nonces from the first to the last. A join with the
// open slots would name fewer, but a database that has not counted its rows yet compares
// every slot with every attempt.
func attemptsBetween(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, first, last uint64) ([]*txmgr.Attempt, error) {
	return attemptsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce >= $4 AND nonce <= $5", lane.Chain, lane.Era, lane.Signer, int64(first), int64(last))
}

func insertAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list []*txmgr.Attempt) error {
	_, err := ledger.Values(ctx, tx, `INSERT INTO attempts (chain, era, hash, signer, nonce, version, intent, purpose, raw, tag, max_fee, tip, gas, state,
		signed_at, term) VALUES %s`, list, func(a *txmgr.Attempt) []any {
		return []any{
			lane.Chain, lane.Era, a.Hash, lane.Signer, int64(a.Nonce), a.Version, a.Intent, string(a.Purpose), hex.EncodeToString(a.Raw),
			a.Tag, zero(a.Fees.Max), decimal(a.Fees.Tip), int64(a.Gas), string(a.State), a.SignedAt, a.Term,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("store attempts: %w", err)
	}
	return nil
}

// saveAttempts writes back what can change of an attempt; its bytes never do.
func saveAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Attempt) error {
	_, err := ledger.Values(ctx, tx, `UPDATE attempts SET state = v.column5, ambiguous = CAST(v.column6 AS BOOLEAN), sent_at = CAST(v.column7 AS BIGINT), offers = CAST(v.column8 AS BIGINT),
		refused_at = CAST(v.column9 AS BIGINT), error_class = v.column10, error = v.column11 FROM (VALUES %s) AS v
		WHERE attempts.chain = v.column1 AND attempts.era = CAST(v.column2 AS BIGINT) AND attempts.hash = v.column3 AND attempts.tag = v.column4`, list, func(a *txmgr.Attempt) []any {
		var failure txmgr.Failure
		if a.Error != nil {
			failure = *a.Error
		}
		return []any{lane.Chain, lane.Era, a.Hash, a.Tag, string(a.State), a.Ambiguous, a.SentAt, a.Offers, a.RefusedAt, failure.Class, failure.Message}
	}, nil)
	if err != nil {
		return fmt.Errorf("update attempts: %w", err)
	}
	return nil
}
