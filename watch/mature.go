package watch

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
)

// maturePerStep bounds the events that one transaction hands on.
const maturePerStep = 2000

// waits tells whether any watch hands its events on later than it finds them.
func (w *worker) waits() bool {
	for _, watch := range w.watches {
		if watch.Depth != (Depth{}) {
			return true
		}
	}
	return false
}

// contractsPerRefresh is how many rows one transaction works out again.
const contractsPerRefresh = 200

// refresh works out status and fields of contracts whose watch has others now.
func (w *worker) refresh(ctx context.Context, _ chainState) (bool, error) {
	var list []*contract
	units := map[string]struct{}{}
	err := w.db.Read(ctx, func(tx *ledger.Tx) error {
		list = nil
		return w.queryContracts(ctx, tx, "chain = $1 AND stale = 1 AND removed = 0 AND unit IN (SELECT unit FROM cursors WHERE owner = $2) LIMIT "+ledger.Number(contractsPerRefresh), []any{int64(w.chain.ID), w.owner}, func(c *contract) {
			list = append(list, c)
			units[c.unit] = struct{}{}
		})
	})
	if err != nil || len(list) == 0 {
		return false, err
	}
	err = w.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		if err := w.fence(ctx, tx, sortedKeys(units)); err != nil {
			return err
		}
		for _, c := range list {
			if err := w.recompute(ctx, tx, c, now); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil, err
}

// settled is the highest block of which a watch hands on events.
func (w *Watch) settled(state chainState) (uint64, bool) {
	switch {
	case w.Depth.Finalized:
		return state.safe, true
	case w.Depth.Blocks <= state.head:
		return state.head - w.Depth.Blocks, true
	default:
		return 0, false
	}
}

// mature hands on the events that have become as deep as their watch wants them. It tells whether there may be more.
func (w *worker) mature(ctx context.Context, state chainState) (bool, error) {
	more := false
	for _, watch := range w.watches {
		if watch.Depth == (Depth{}) && !w.waiting[watch.Name] {
			continue
		}
		limit, any := watch.settled(state)
		if !any {
			continue
		}
		n, err := w.matureWatch(ctx, watch, limit)
		if err != nil {
			return false, err
		}
		more = more || n == maturePerStep
		w.waiting[watch.Name] = n == maturePerStep
	}
	return more, nil
}

func (w *worker) matureWatch(ctx context.Context, watch *Watch, limit uint64) (int, error) {
	var seqs map[contractKey]int64
	waiting, err := ledger.ReadOf(ctx, w.db, func(tx *ledger.Tx) ([]*occurrence, error) {
		return queryEvents(ctx, tx, w.contracts, `watch = $1 AND announced = 0 AND removed = 0 AND block_number <= $2
			AND unit IN (SELECT unit FROM cursors WHERE owner = $3) ORDER BY block_number, log_index LIMIT $4`, []any{watch.Name, int64(limit), w.owner, int64(maturePerStep)})
	})
	waiting = slices.DeleteFunc(waiting, func(o *occurrence) bool { return o.contract == nil })
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	err = w.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		seqs = map[contractKey]int64{}
		if err := w.fence(ctx, tx, unitsOf(waiting)); err != nil {
			return err
		}
		n, err := ledger.Values(ctx, tx, `UPDATE chain_events SET announced = 1 FROM (VALUES %s) AS v WHERE chain_events.watch = v.column1 AND chain_events.chain = CAST(v.column2 AS BIGINT)
			AND chain_events.block_hash = v.column3 AND chain_events.log_index = CAST(v.column4 AS BIGINT) AND chain_events.announced = 0 AND chain_events.removed = 0`, waiting,
			func(o *occurrence) []any { return []any{watch.Name, int64(w.chain.ID), o.blockHash, int64(o.logIndex)} }, nil)
		if err != nil {
			return err
		}
		if n != int64(len(waiting)) {
			return errStale
		}
		messages := w.messages(waiting, seqs, now)
		if err := w.storeSeqs(ctx, tx, seqs, now); err != nil {
			return err
		}
		if err := w.writeSeqs(ctx, tx, waiting); err != nil {
			return err
		}
		return tx.Emit(ctx, messages...)
	})
	if err != nil {
		return 0, err
	}
	w.handedOn(waiting, seqs)
	return len(waiting), nil
}

// storeSeqs writes the numbers of the last messages.
func (w *worker) storeSeqs(ctx context.Context, tx *ledger.Tx, seqs map[contractKey]int64, now int64) error {
	var rows [][]any
	for key, seq := range seqs {
		c := w.contracts[key]
		rows = append(rows, []any{key.watch, int64(w.chain.ID), c.text, int64(c.next), int64(bit(c.merged)), seq, now, c.seq})
	}
	return w.storeContracts(ctx, tx, rows)
}

// queryEvents reads events. Those of other contracts than the given ones have no contract.
func queryEvents(ctx context.Context, tx *ledger.Tx, contracts map[contractKey]*contract, where ledger.SQL, args []any) ([]*occurrence, error) {
	var list []*occurrence
	err := tx.Query(ctx, "SELECT watch, address, event, signature, args, extra, block_number, block_hash, tx_hash, log_index, time, incarnation FROM chain_events WHERE "+where, args, func(r ledger.Row) error {
		var o occurrence
		var watch, address string
		if err := r.Scan(&watch, &address, &o.event, &o.signature, &o.args, &o.extra, &o.blockNumber, &o.blockHash, &o.txHash, &o.logIndex, &o.time, &o.incarnation); err != nil {
			return err
		}
		o.contract = contracts[contractKey{watch, common.HexToAddress(address)}]
		list = append(list, &o)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return list, nil
}
