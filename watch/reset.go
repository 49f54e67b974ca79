package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lockstep/internal/ledger"
)

// ErrAlive means that processes still follow what should be forgotten.
var ErrAlive = errors.New("processes are alive")

// Reset forgets all that was read of a chain, which was reset itself: the next process that starts reads it from the first block on. No
// process may live.
func Reset(ctx context.Context, db *ledger.DB, chain uint64) error {
	if err := db.Migrate(ctx, Schema); err != nil {
		return err
	}
	return db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		alive, err := ledger.All(ctx, tx, "SELECT instance_id FROM nodes WHERE status = 'active' AND last_heartbeat > $1 ORDER BY instance_id", []any{now - deadAfter.Microseconds()}, ledger.Text)
		if err != nil {
			return err
		}
		if len(alive) > 0 {
			return fmt.Errorf("%w: %s: stop them first", ErrAlive, strings.Join(alive, ", "))
		}
		return forget(ctx, tx, chain)
	})
}

func forget(ctx context.Context, tx *ledger.Tx, chain uint64) error {
	if err := emptyTables(ctx, tx, chain); err != nil {
		return err
	}
	for _, query := range []ledger.SQL{
		"DELETE FROM sink_cursors WHERE unit IN (SELECT unit FROM cursors WHERE chain = $1)",
		"DELETE FROM outbox WHERE topic = '" + topic + "' AND subject IN (SELECT unit FROM cursors WHERE chain = $1)",
		"DELETE FROM backfills WHERE chain = $1",
		"DELETE FROM chain_events WHERE chain = $1",
		"DELETE FROM contracts WHERE chain = $1",
		"DELETE FROM cursors WHERE chain = $1",
		"DELETE FROM watch_blocks WHERE chain = $1",
		"DELETE FROM watch_forks WHERE chain = $1",
		"DELETE FROM watch_chains WHERE chain = $1",
		"DELETE FROM watches WHERE chain = $1",
	} {
		if _, err := tx.Exec(ctx, query, int64(chain)); err != nil {
			return err
		}
	}
	// What the next plan means is worked out again. Its numbers go on, so that no older one comes before.
	_, err := tx.Exec(ctx, "UPDATE watch_plans SET digest = ''")
	return err
}
