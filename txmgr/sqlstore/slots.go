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
	var list []*txmgr.Slot
	args = append([]any{lane.Chain, lane.Era, lane.Signer}, args...)
	err := tx.Query(ctx, "SELECT "+slotColumns+" FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND "+condition+" ORDER BY nonce"+suffix,
		args, func(r ledger.Row) error {
			s, err := scanSlot(r)
			list = append(list, s)
			return err
		})
	return list, err
}

// freeSlots reads the lowest slots of a lane that nobody has, a maximum of limit.
func freeSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, limit int, lock string) ([]*txmgr.Slot, error) {
	return slotsWhere(ctx, tx, lane, "NOT final AND holder = 'free' AND consumed = ''", fmt.Sprintf(" LIMIT %d", limit)+lock)
}

// slotsByNonce locks slots.
func slotsByNonce(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonces []uint64) (map[uint64]*txmgr.Slot, error) {
	found := map[uint64]*txmgr.Slot{}
	for len(nonces) > 0 {
		part := nonces[:min(len(nonces), 500)]
		nonces = nonces[len(part):]
		args := make([]any, len(part))
		for i, n := range part {
			args[i] = int64(n)
		}
		list, err := slotsWhere(ctx, tx, lane, "nonce IN "+ledger.List(4, len(part)), tx.ForUpdate(), args...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			found[s.Nonce] = s
		}
	}
	return found, nil
}

func saveSlots(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Slot) error {
	const columns = 15
	for len(list) > 0 {
		part := list[:min(len(list), 500)]
		list = list[len(part):]
		args := make([]any, 0, columns*len(part))
		for _, s := range part {
			args = append(args, lane.Chain, lane.Era, lane.Signer, int64(s.Nonce), string(s.Holder), s.Intent, s.Reservation, zero(s.Cost), s.Signed, s.Consumed,
				int64(s.Block), s.BlockHash, s.Final, s.AssignedAt, s.SentAt)
		}
		_, err := tx.Exec(ctx, `INSERT INTO slots (chain, era, signer, nonce, holder, intent, reservation, cost, signed, consumed, block, block_hash, final,
			assigned_at, sent_at) VALUES `+ledger.Rows(len(part), columns)+` ON CONFLICT (chain, era, signer, nonce) DO UPDATE SET
			holder = excluded.holder, intent = excluded.intent, reservation = excluded.reservation, cost = excluded.cost, signed = excluded.signed,
			consumed = excluded.consumed, block = excluded.block, block_hash = excluded.block_hash, final = excluded.final,
			assigned_at = excluded.assigned_at, sent_at = excluded.sent_at`, args...)
		if err != nil {
			return fmt.Errorf("store slots: %w", err)
		}
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
	var list []*txmgr.Attempt
	err := tx.Query(ctx, "SELECT "+attemptColumns+" FROM attempts WHERE "+condition+" ORDER BY nonce, version", args, func(r ledger.Row) error {
		a, err := scanAttempt(r)
		list = append(list, a)
		return err
	})
	return list, err
}

// attemptsBetween are those of a lane's nonces from the first to the last. A join with the
// open slots would name fewer, but a database that has not counted its rows yet compares
// every slot with every attempt.
func attemptsBetween(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, first, last uint64) ([]*txmgr.Attempt, error) {
	return attemptsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce >= $4 AND nonce <= $5", lane.Chain, lane.Era, lane.Signer, int64(first), int64(last))
}

func insertAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list []*txmgr.Attempt) error {
	const columns = 16
	for len(list) > 0 {
		part := list[:min(len(list), 500)]
		list = list[len(part):]
		args := make([]any, 0, columns*len(part))
		for _, a := range part {
			args = append(args, lane.Chain, lane.Era, a.Hash, lane.Signer, int64(a.Nonce), a.Version, a.Intent, string(a.Purpose), hex.EncodeToString(a.Raw),
				a.Tag, zero(a.Fees.Max), decimal(a.Fees.Tip), int64(a.Gas), string(a.State), a.SignedAt, a.Term)
		}
		_, err := tx.Exec(ctx, `INSERT INTO attempts (chain, era, hash, signer, nonce, version, intent, purpose, raw, tag, max_fee, tip, gas, state,
			signed_at, term) VALUES `+ledger.Rows(len(part), columns), args...)
		if err != nil {
			return fmt.Errorf("store attempts: %w", err)
		}
	}
	return nil
}

// saveAttempts writes back what can change of an attempt; its bytes never do.
func saveAttempts(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, list ...*txmgr.Attempt) error {
	const columns = 11
	for len(list) > 0 {
		part := list[:min(len(list), 500)]
		list = list[len(part):]
		args := make([]any, 0, columns*len(part))
		for _, a := range part {
			var failure txmgr.Failure
			if a.Error != nil {
				failure = *a.Error
			}
			args = append(args, lane.Chain, lane.Era, a.Hash, a.Tag, string(a.State), a.Ambiguous, a.SentAt, a.Offers, a.RefusedAt, failure.Class, failure.Message)
		}
		_, err := tx.Exec(ctx, `UPDATE attempts SET state = v.column5, ambiguous = CAST(v.column6 AS BOOLEAN), sent_at = CAST(v.column7 AS BIGINT), offers = CAST(v.column8 AS BIGINT),
			refused_at = CAST(v.column9 AS BIGINT), error_class = v.column10, error = v.column11 FROM (VALUES `+ledger.Rows(len(part), columns)+`) AS v
			WHERE attempts.chain = v.column1 AND attempts.era = CAST(v.column2 AS BIGINT) AND attempts.hash = v.column3 AND attempts.tag = v.column4`, args...)
		if err != nil {
			return fmt.Errorf("update attempts: %w", err)
		}
	}
	return nil
}
