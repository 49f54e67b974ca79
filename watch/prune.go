package watch

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

const (
	pruneEvery = time.Minute
	// prunePerStep bounds the rows that one transaction deletes, and pruneSteps the transactions of one turn.
	prunePerStep = 2000
	pruneSteps   = 100
)

// defaultRetention is how long messages are kept that all sinks have taken.
const defaultRetention = 7 * 24 * time.Hour

// pruneOutbox forgets old messages of our units now and then.
func (s *Service) pruneOutbox(ctx context.Context) error {
	for ctx.Err() == nil {
		sleep.For(ctx, pruneEvery)
		for range pruneSteps {
			n, err := s.prune(ctx)
			if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
				s.log.WarnContext(ctx, "old messages are not deleted; they will be later", "error", err)
			}
			if err != nil || n < prunePerStep {
				break
			}
		}
	}
	return ctx.Err()
}

// prune deletes messages of our units that are older than the retention and that every sink has taken. The slowest sink loses nothing,
// and readers of the stream go on at the oldest message that is left.
func (s *Service) prune(ctx context.Context) (deleted int64, err error) {
	owner := s.fleet.owner()
	err = s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		args := []any{owner, now - s.cfg.Retention.Microseconds()}
		taken := ledger.SQL("SELECT unit, CAST(NULL AS BIGINT) AS upto FROM cursors WHERE owner = $1") // without a sink only the age counts
		if n := len(s.publishers); n > 0 {
			for _, p := range s.publishers {
				args = append(args, p.id)
			}
			taken = `SELECT c.unit, MIN(c.position) AS upto FROM sink_cursors c JOIN cursors u ON u.unit = c.unit
				WHERE u.owner = $1 AND c.sink IN ` + ledger.List(3, n) + ` GROUP BY c.unit HAVING COUNT(*) = ` + ledger.Number(n)
		}
		deleted, err = tx.Exec(ctx, `DELETE FROM outbox WHERE id IN (SELECT o.id FROM (`+taken+`) AS t JOIN outbox o ON o.subject = t.unit AND (t.upto IS NULL OR o.id <= t.upto)
			WHERE o.topic = '`+topic+`' AND o.seq > 0 AND o.at < $2 LIMIT `+ledger.Number(prunePerStep)+`)`, args...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("old messages: %w", err)
	}
	return deleted, nil
}
