package sqlstore

import (
	"context"
	"time"

	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// retentionBatch bounds one statement of the retention.
const retentionBatch = 500

// Forget deletes intents that became final before a time, with all that is theirs. One with an attempt in a slot that is not
// final stays, since the attempt's bytes may still be needed. A slot that is deleted leaves no nonce to be given again: the
// lane's next nonce never falls below one without a row.
func (s *Store) Forget(ctx context.Context, before int64, limit int) (int, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, _ int64) (int, error) {
		ids, err := ledger.All(ctx, tx, `SELECT id FROM intents WHERE final AND updated_at < $1
			AND NOT EXISTS (SELECT 1 FROM attempts a JOIN slots s ON s.chain = a.chain AND s.era = a.era AND s.signer = a.signer AND s.nonce = a.nonce
				WHERE a.intent = intents.id AND NOT s.final)
			ORDER BY seq LIMIT $2`+tx.SkipLocked(), []any{before, min(limit, retentionBatch)}, ledger.Text)
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		in := ledger.List(1, len(ids))
		for _, statement := range []ledger.SQL{
			"UPDATE idempotency SET forgotten = TRUE, outcome = (SELECT status FROM intents WHERE id = idempotency.intent) WHERE intent IN " + in,
			"DELETE FROM slots WHERE final AND intent IN " + in,
			"DELETE FROM attempts WHERE intent IN " + in,
			"DELETE FROM outbox WHERE seq > 0 AND subject IN " + in,
			"DELETE FROM claims WHERE intent IN " + in,
			"DELETE FROM intents WHERE id IN " + in,
		} {
			if _, err := tx.Exec(ctx, statement, ledger.Args(ids)...); err != nil {
				return 0, err
			}
		}
		return len(ids), nil
	})
}

// Tidy deletes what is nobody's intent, is over, and is older than a time. A reservation that ended stays while its nonce may
// be given again: late calls with the nonce are refused by it.
func (s *Store) Tidy(ctx context.Context, before int64, limit int) (int, error) {
	limit = min(limit, retentionBatch)
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (int, error) {
		deleted, err := tidySlots(ctx, tx, before, limit)
		if err != nil {
			return 0, err
		}
		for _, statement := range []ledger.SQL{
			`DELETE FROM reservations WHERE id IN (SELECT r.id FROM reservations r LEFT JOIN signer_chains l ON l.chain = r.chain AND l.signer = r.signer
				WHERE r.status <> 'held' AND r.expires_at < $1 AND (l.chain IS NULL OR r.era < l.era OR r.nonce < l.next_nonce AND NOT EXISTS
					(SELECT 1 FROM slots s WHERE s.chain = r.chain AND s.era = r.era AND s.signer = r.signer AND s.nonce = r.nonce AND NOT s.final))
				LIMIT $2)`,
			"DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE kind = 'nonce.gap' AND at < $1 AND seq > 0 ORDER BY at LIMIT $2)",
		} {
			n, err := tx.Exec(ctx, statement, before, limit)
			if err != nil {
				return 0, err
			}
			deleted += int(n)
		}
		accounts, err := tx.Exec(ctx, `DELETE FROM signer_chains WHERE (chain, signer) IN (SELECT l.chain, l.signer FROM signer_chains l
			WHERE NOT l.ours AND l.created_at < $1 AND l.last_seen < $1 AND l.lock_until < $1 AND NOT EXISTS
				(SELECT 1 FROM slots s WHERE s.chain = l.chain AND s.era = l.era AND s.signer = l.signer AND (NOT s.final OR s.assigned_at >= $1)) LIMIT $2)`,
			now-txmgr.AccountLife.Microseconds(), limit)
		if err != nil {
			return 0, err
		}
		deleted += int(accounts)
		// What is held belongs to intents without a fate.
		days, err := tx.Exec(ctx, "DELETE FROM spend WHERE (scope, day) IN (SELECT scope, day FROM spend WHERE day < $1 AND held = '0' ORDER BY day LIMIT $2)",
			time.UnixMicro(before).UTC().Format(time.DateOnly), limit)
		return deleted + int(days), err
	})
}

// tidySlots deletes final slots without an intent, such as those that somebody else's transactions used, with the attempts that
// filled them.
func tidySlots(ctx context.Context, tx *ledger.Tx, before int64, limit int) (int, error) {
	keys, err := ledger.All(ctx, tx, "SELECT chain, era, signer, nonce FROM slots WHERE final AND intent = '' AND assigned_at < $1 ORDER BY assigned_at LIMIT $2"+tx.SkipLocked(),
		[]any{before, limit}, func(r ledger.Row) ([]any, error) {
			var chain, signer string
			var era, nonce int64
			err := r.Scan(&chain, &era, &signer, &nonce)
			return []any{chain, era, signer, nonce}, err
		})
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	for _, from := range []ledger.SQL{"attempts WHERE intent = '' AND", "slots WHERE"} {
		_, err := ledger.Values(ctx, tx, "DELETE FROM "+from+" (chain, era, signer, nonce) IN (SELECT v.column1, CAST(v.column2 AS BIGINT), v.column3, CAST(v.column4 AS BIGINT) FROM (VALUES %s) AS v)",
			keys, ledger.AsIs, nil)
		if err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}
