package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/ledger"
)

// ErrRange means that a backfill's blocks cannot be read again.
var ErrRange = errors.New("these blocks cannot be read again")

// Backfill is blocks that are read again for all contracts of a watch: events that the ledger does not have are added, such as those of
// a signature that the plan has only named since.
type Backfill struct {
	ID    string `json:"id"`
	Watch string `json:"watch"`
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	// Repeat hands on again what the sinks have been told before.
	Repeat bool `json:"repeat"`
	// Act lets the manager's sink act on what is handed on. Otherwise it does not: what is old may be settled otherwise.
	Act      bool  `json:"act"`
	Units    int64 `json:"units" doc:"Parts of the work."`
	Left     int64 `json:"left" doc:"Those that are not done."`
	Messages int64 `json:"messages" doc:"Handed on so far."`
	Done     bool  `json:"done"`
}

// Mark is in events that a backfill hands on.
type Mark struct {
	ID  string `json:"id"`
	Act bool   `json:"act"`
}

// StartBackfill leaves the work to the owners of the units. It goes up to block to, or if
// that is -1 to the newest.
func (s *Service) StartBackfill(ctx context.Context, b Backfill, to int64) (Backfill, error) {
	w := s.cfg.Plan.watch(b.Watch)
	if w == nil {
		return b, ErrNotFound
	}
	b.ID = uuid.NewString()
	err := s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) (err error) {
		if err := s.current(ctx, tx); err != nil {
			return err
		}
		var head uint64
		if _, err := tx.One(ctx, "SELECT head FROM watch_chains WHERE chain = $1", []any{int64(w.Chain)}, &head); err != nil {
			return err
		}
		if b.To = head; to >= 0 {
			b.To = uint64(to)
		}
		start := s.startOf(w)
		if b.From < start || b.To < b.From || b.To > head {
			return fmt.Errorf("%w: want some of %d to %d, the first block of the watch and the newest", ErrRange, start, head)
		}
		b.Left, err = insertBackfill(ctx, tx, b, now)
		return err
	})
	b.Units, b.Done = b.Left, b.Left == 0
	return b, err
}

// insertBackfill makes a row for each unit of the watch, and returns how many.
func insertBackfill(ctx context.Context, tx *ledger.Tx, b Backfill, now int64) (int64, error) {
	return tx.Exec(ctx, `INSERT INTO backfills (id, unit, chain, watch, from_block, to_block, next_block, repeats, acts, messages, created_at, updated_at)
		SELECT DISTINCT $1, unit, chain, watch, CAST($2 AS BIGINT), CAST($3 AS BIGINT), CAST($2 AS BIGINT), CAST($4 AS INTEGER), CAST($5 AS INTEGER), 0, CAST($6 AS BIGINT), CAST($6 AS BIGINT)
		FROM contracts WHERE watch = $7 AND removed = 0`, b.ID, int64(b.From), int64(b.To), int64(bit(b.Repeat)), int64(bit(b.Act)), now, b.Watch)
}

// Backfills returns the newest backfills of a watch and how far they are.
func (s *Service) Backfills(ctx context.Context, watch string) ([]Backfill, error) {
	list, err := ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]Backfill, error) {
		return ledger.All(ctx, tx, `SELECT id, watch, from_block, to_block, repeats, acts, COUNT(*), SUM(CASE WHEN next_block <= to_block THEN 1 ELSE 0 END), SUM(messages)
			FROM backfills WHERE watch = $1 GROUP BY id, watch, from_block, to_block, repeats, acts, created_at ORDER BY created_at DESC, id LIMIT 100`, []any{watch}, func(r ledger.Row) (b Backfill, err error) {
			var repeat, act int
			err = r.Scan(&b.ID, &b.Watch, &b.From, &b.To, &repeat, &act, &b.Units, &b.Left, &b.Messages)
			b.Repeat, b.Act, b.Done = repeat == 1, act == 1, b.Left == 0
			return b, err
		})
	})
	return append([]Backfill{}, list...), err // a list in JSON, also without any
}

// fill is one step of a backfill, or of the second pass: the same blocks of some of our units.
type fill struct {
	Backfill
	second bool // the second pass: it has no row, and its messages are no backfill's
	next   uint64
	units  []string
}

// nextFill finds the backfill of our units that is furthest behind.
func (w *worker) nextFill(ctx context.Context) (*fill, error) {
	return ledger.ReadOf(ctx, w.db, func(tx *ledger.Tx) (f *fill, err error) {
		err = tx.Query(ctx, `SELECT b.id, b.unit, b.watch, b.to_block, b.next_block, b.repeats, b.acts FROM backfills b JOIN cursors u ON u.unit = b.unit
			WHERE b.chain = $1 AND b.next_block <= b.to_block AND u.owner = $2 ORDER BY b.created_at, b.id, b.next_block, b.unit`, []any{int64(w.chain.ID), w.owner}, func(r ledger.Row) error {
			var row fill
			var unit string
			var repeat, act int
			if err := r.Scan(&row.ID, &unit, &row.Watch, &row.To, &row.next, &repeat, &act); err != nil {
				return err
			}
			if w.watches[row.Watch] == nil || w.units[unit] == nil {
				return nil // not in this process's plan, or not loaded yet
			}
			if f == nil {
				row.Repeat, row.Act = repeat == 1, act == 1
				f = &row
			}
			if row.ID == f.ID && row.next == f.next {
				f.units = append(f.units, unit)
			}
			return nil
		})
		return f, err
	})
}

// backfill does one step of a backfill, if there is one. It tells whether there was. New blocks go first: it is called when there are none.
func (w *worker) backfill(ctx context.Context, _ chainState) (bool, error) {
	f, err := w.nextFill(ctx)
	if err != nil || f == nil {
		return false, err
	}
	return true, w.fillStep(ctx, f)
}

// secondPass reads blocks once more that were read before they could not be replaced, when they cannot be any more: what an endpoint did not
// tell of when a block was new is found then, whoever tells of it. It waits until there are some, so that it costs little.
func (w *worker) secondPass(ctx context.Context, state chainState) (bool, error) {
	var lowest, ready uint64 = ^uint64(0), 0
	for _, u := range w.units {
		if upto := min(state.safe+1, u.next); u.checked+1 < upto {
			lowest, ready = min(lowest, u.checked+1), max(ready, upto-u.checked-1)
		}
	}
	if ready == 0 || ready < secondPassBlocks && time.Since(w.passed) < secondPassTime {
		return false, nil
	}
	f := &fill{second: true, next: lowest}
	f.To = min(state.safe, lowest+w.chain.MaxSpan-1)
	for name, u := range w.units {
		if u.checked+1 <= f.To && u.next > lowest {
			f.To = min(f.To, u.next-1)
			f.units = append(f.units, name)
		}
	}
	slices.Sort(f.units)
	if err := w.fillStep(ctx, f); err != nil {
		return false, err
	}
	if f.To == state.safe {
		w.passed = time.Now()
	}
	return true, nil
}

const (
	secondPassBlocks = 32
	secondPassTime   = 30 * time.Second
)

func (w *worker) fillStep(ctx context.Context, f *fill) error {
	longest := w.chain.MaxSpan
	if !f.second { // of blocks by their hashes the transactions were all there
		longest = w.longest()
	}
	s := span{from: f.next, to: min(f.To, f.next+longest-1), units: f.units, logs: f.second}
	for _, c := range w.contracts {
		if _, ours := slices.BinarySearch(f.units, c.unit); ours && (f.second || c.watch.Name == f.Watch) && c.discovered <= s.to {
			s.contracts = append(s.contracts, c)
		}
	}
	found, last, err := w.read(ctx, s)
	if err != nil {
		return err
	}
	next := last.Number + 1
	found, rest := cut(found, w.perCommit)
	if len(rest) > 0 { // the next step's
		next = rest[0].blockNumber
	}
	return w.commitFill(ctx, f, w.again(found), next)
}

// again are events that a contract may have had before. Those that its unit has still to come to are left to it.
func (w *worker) again(list []*occurrence) []*occurrence {
	return slices.DeleteFunc(list, func(o *occurrence) bool {
		return o.blockNumber < o.contract.discovered || o.blockNumber >= w.position(o.contract)
	})
}

// commitFill writes what a step of a backfill found, and that it was done.
func (w *worker) commitFill(ctx context.Context, f *fill, all []*occurrence, next uint64) error {
	var seqs map[contractKey]int64
	var found, told []*occurrence
	err := w.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		seqs = map[contractKey]int64{}
		if err := w.fence(ctx, tx, f.units); err != nil {
			return err
		}
		state, err := w.standing(ctx, tx, f.next, all)
		if err != nil {
			return err
		}
		if found, err = w.store(ctx, tx, all, now); err != nil {
			return err
		}
		told = found
		if f.Repeat {
			told = all
		}
		told = slices.DeleteFunc(slices.Clone(told), func(o *occurrence) bool { // they are handed on when they are deep enough
			limit, settled := o.contract.watch.settled(state)
			return !settled || o.blockNumber > limit
		})
		if err := w.announce(ctx, tx, told); err != nil {
			return err
		}
		count := map[string]int64{} // by unit
		for _, o := range told {
			count[o.contract.unit]++
			if !f.second {
				o.mark = &Mark{ID: f.ID, Act: f.Act}
			}
		}
		if err := w.writeRows(ctx, tx, found); err != nil {
			return err
		}
		if err := w.applyFields(ctx, tx, found, now); err != nil {
			return err
		}
		if f.second {
			_, err = ledger.In(ctx, tx, "UPDATE cursors SET checked = $1 WHERE checked < $1 AND unit IN %s", []any{int64(next - 1)}, f.units, nil)
		}
		for _, unit := range f.units {
			if err == nil && !f.second {
				_, err = tx.Exec(ctx, "UPDATE backfills SET next_block = $1, messages = messages + $2, updated_at = $3 WHERE id = $4 AND unit = $5", int64(next), count[unit], now, f.ID, unit)
			}
		}
		if err != nil {
			return err
		}
		return w.enqueue(ctx, tx, told, seqs, now)
	})
	if err != nil {
		return err
	}
	w.metrics.undecoded.Add(float64(undecoded(found)))
	if f.second {
		w.metrics.repaired.Add(float64(len(found)))
		for _, o := range found {
			w.log.ErrorContext(ctx, "an event was not told of when its block was new; it is handed on now", "event", o.id(w.chain.ID), "address", o.contract.text, "block", o.blockNumber)
		}
		for _, name := range f.units {
			w.units[name].checked = max(w.units[name].checked, next-1)
		}
	} else {
		w.metrics.deduplicated.Add(float64(len(all) - len(found)))
	}
	w.handedOn(told, seqs)
	return nil
}

// standing fails unless the blocks of events are the chain's as the fleet knows it: an endpoint may be behind a reorganisation.
func (w *worker) standing(ctx context.Context, tx *ledger.Tx, from uint64, list []*occurrence) (chainState, error) {
	state, _, err := readChain(ctx, tx, w.chain.ID, from)
	for _, o := range list {
		if err == nil && o.blockNumber > state.safe && state.blocks[o.blockNumber].Hash.Hex() != o.blockHash {
			err = errStale
		}
	}
	return state, err
}

// announce marks events as handed on, and fills in how often they have come back.
func (w *worker) announce(ctx context.Context, tx *ledger.Tx, list []*occurrence) error {
	for _, o := range list {
		err := tx.Query(ctx, "UPDATE chain_events SET announced = 1 WHERE watch = $1 AND chain = $2 AND block_hash = $3 AND log_index = $4 RETURNING incarnation",
			[]any{o.contract.watch.Name, int64(w.chain.ID), o.blockHash, int64(o.logIndex)}, func(r ledger.Row) error { return r.Scan(&o.incarnation) })
		if err != nil {
			return err
		}
	}
	return nil
}

func chainLabel(id uint64) string { return strconv.FormatUint(id, 10) }
