package sqlstore

import (
	"cmp"
	"context"
	"math/big"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

func audit(ctx context.Context, tx *ledger.Tx, now int64, actor, action, subject, body string) error {
	_, err := tx.Exec(ctx, "INSERT INTO audit_log (at, actor, action, subject, body) VALUES ($1, $2, $3, $4, $5)", now, clip(actor), action, clip(subject), body)
	return err
}

// Audit writes a line that is never changed.
func (s *Store) Audit(ctx context.Context, actor, action, subject, body string) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error { return audit(ctx, tx, now, actor, action, subject, body) })
}

// Kill turns the switch of a scope on or off.
func (s *Store) Kill(ctx context.Context, scope, actor, reason string, on bool) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		if !on {
			if _, err := tx.Exec(ctx, "DELETE FROM kills WHERE scope = $1", scope); err != nil {
				return err
			}
			return audit(ctx, tx, now, actor, "kill.off", scope, "")
		}
		reason = cmp.Or(reason, "no reason given")
		if _, err := tx.Exec(ctx, `INSERT INTO kills (scope, reason, actor, at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (scope) DO UPDATE SET reason = excluded.reason, actor = excluded.actor, at = excluded.at`, scope, clip(reason), clip(actor), now); err != nil {
			return err
		}
		return audit(ctx, tx, now, actor, "kill.on", scope, asJSON(&reason))
	})
}

// Kills returns the switches that are on.
func (s *Store) Kills(ctx context.Context) (map[string]string, error) {
	return ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (map[string]string, error) { return killsOf(ctx, tx) })
}

func killsOf(ctx context.Context, tx *ledger.Tx) (map[string]string, error) {
	kills := map[string]string{}
	err := tx.Query(ctx, "SELECT scope, reason FROM kills", nil, func(r ledger.Row) error {
		var scope, reason string
		err := r.Scan(&scope, &reason)
		kills[scope] = reason
		return err
	})
	return kills, err
}

// ResetChain begins a new era of a chain.
func (s *Store) ResetChain(ctx context.Context, chain, actor, identity string, era int64) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		if old, err := chainRow(ctx, tx, chain); err != nil || old.Era != era {
			return cmp.Or(err, txmgr.ErrStale)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO chains (chain, identity, era) VALUES ($1, $2, 1) ON CONFLICT (chain) DO UPDATE SET
			identity = excluded.identity, era = chains.era + 1, halted = '', final_number = 0, final_hash = ''`, chain, identity); err != nil {
			return err
		}
		state, err := chainRow(ctx, tx, chain)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE signer_chains SET era = $2, known = FALSE, halted = '', chain_nonce = 0, next_nonce = 0, lock_id = '', lock_until = 0
			WHERE chain = $1`, chain, state.Era); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE reservations SET status = 'expired' WHERE chain = $1 AND status = 'held'", chain); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE slots SET final = TRUE WHERE chain = $1 AND era < $2 AND NOT final", chain, state.Era); err != nil {
			return err
		}
		open, err := intentsWhere(ctx, tx, "chain = $1 AND NOT final AND status <> 'accepted' ORDER BY seq"+tx.ForUpdate(), chain)
		if err != nil {
			return err
		}
		for _, i := range open {
			i.Status, i.Final, i.Waiting = txmgr.StatusFailed, true, ""
			i.Failure = txmgr.Failure{Class: "chain_reset", Message: "the chain was reset while the transaction was on its way"}
			if err := settle(ctx, tx, i, new(big.Int)); err != nil {
				return err
			}
		}
		if err := saveIntents(ctx, tx, now, open...); err != nil {
			return err
		}
		return audit(ctx, tx, now, actor, "chain.reset", chain, asJSON(&identity))
	})
}

// Reconcile ends a lane's halt, sets its next nonce, and makes slots for what waits below it.
func (s *Store) Reconcile(ctx context.Context, chain, signer, actor string, next, adopted uint64) (*txmgr.Lane, error) {
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		lane, err := laneRow(ctx, tx, chain, signer)
		if err != nil {
			return err
		}
		halted, before := lane.Halted, lane.NextNonce
		lane.Halted, lane.Known, lane.Streak, lane.LastSeen, lane.NextNonce = "", true, 0, now, max(before, adopted)
		if err := saveLane(ctx, tx, lane); err != nil {
			return err
		}
		var slots []*txmgr.Slot
		for nonce := max(next, before); nonce < adopted; nonce++ {
			slots = append(slots, &txmgr.Slot{Nonce: nonce, Holder: txmgr.HolderForeign, AssignedAt: now})
		}
		if err := saveSlots(ctx, tx, lane, slots...); err != nil {
			return err
		}
		body := map[string]any{"halted": halted, "from": before, "to": adopted, "adopted": len(slots)}
		return audit(ctx, tx, now, actor, "signer.reconcile", chain+"/"+signer, asJSON(&body))
	})
	if err != nil {
		return nil, err
	}
	return s.Lane(ctx, chain, signer)
}
