package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
	"lockstep/watch/source"
)

// errStale means that what this process remembers is not what the ledger says any more.
var errStale = errors.New("the ledger has changed meanwhile")

// match decodes the logs that contracts wait for, in the order of the chain. It may run while something is written.
func (w *worker) match(ctx context.Context, contracts []*contract, logs []source.Log) []*occurrence {
	byAddress := map[common.Address][]*contract{}
	for _, c := range contracts {
		byAddress[c.address] = append(byAddress[c.address], c)
	}
	var list []*occurrence
	for i := range logs {
		l := &logs[i]
		for _, c := range byAddress[l.Address] {
			signature := c.wants(l)
			if signature == nil || c.watch.over(l.BlockNumber) {
				continue
			}
			if o := w.occurrence(ctx, c, signature, l); o != nil {
				list = append(list, o)
			}
		}
	}
	return list
}

// occurrence reads a log. One that cannot be read is an event all the same: it has happened, and its bytes are handed on. It is nil for one that does not
// meet the event's condition, or is not the anonymous event that it could have been.
func (w *worker) occurrence(ctx context.Context, c *contract, signature *decode.Signature, l *source.Log) *occurrence {
	o := &occurrence{
		contract: c, event: signature.Name, signature: signature.String(), args: "{}", blockNumber: l.BlockNumber, blockHash: l.BlockHash.Hex(),
		txHash: l.TxHash.Hex(), logIndex: l.Index, time: l.Time,
	}
	values, err := signature.Decode(l.Topics, l.Data)
	if err != nil && signature.Anonymous {
		return nil
	}
	if err != nil {
		w.log.WarnContext(ctx, "a log has the selector of an event but cannot be read by its signature; it is handed on as it is", "event", o.signature, "address", l.Address.Hex(), "transaction", l.TxHash.Hex(), "log", l.Index, "bytes", len(l.Data), "error", err)
		extra := rawOf(l.Topics, l.Data)
		extra.Undecoded = true
		o.extra, o.undecoded = encode(extra), true
		return o
	}
	if f := c.watch.Where[signature]; f != nil && !f.Match(values.Args) {
		return nil
	}
	o.args, o.values = encode(values.Args), values.Args
	if c.watch.Raw || len(values.Hex) > 0 {
		var extra Extra
		if c.watch.Raw {
			extra = rawOf(l.Topics, l.Data)
		}
		extra.Hex = values.Hex
		o.extra = encode(extra)
	}
	if c.factory && c.watch.Factory != nil && signature == c.watch.Factory.Event {
		child := c.watch.child(o.id(w.chain.ID), l.BlockNumber, values.Args)
		o.child = &child
	}
	return o
}

// children are the contracts that events announce.
func children(list []*occurrence) (all []newContract) {
	for _, o := range list {
		if o.child != nil {
			all = append(all, *o.child)
		}
	}
	return all
}

// wants finds the event of a contract that a log is: by its first topic, or else the anonymous one with as many topics.
func (c *contract) wants(l *source.Log) *decode.Signature {
	if c.account {
		return nil
	}
	is := func(e *decode.Signature) bool { return !e.Anonymous && len(l.Topics) > 0 && e.Selector == l.Topics[0] }
	if c.factory && c.watch.Factory != nil && is(c.watch.Factory.Event) {
		return c.watch.Factory.Event
	}
	if i := slices.IndexFunc(c.watch.Events, is); i >= 0 {
		return c.watch.Events[i]
	}
	for _, e := range c.watch.Events {
		if e.Anonymous && e.Indexed() == len(l.Topics) {
			return e
		}
	}
	return nil
}

// child is the contract that a factory's event announces.
func (w *Watch) child(by string, block uint64, args map[string]any) newContract {
	address, _ := args[w.Factory.Child].(string) // an address, as the plan was checked for
	n := newContract{watch: w, address: common.HexToAddress(address), kind: kindChild, block: block, by: by, fields: map[string]*string{}}
	w.takeFields(n.fields, w.Factory.Event.String(), args)
	return n
}

// A transaction that takes long keeps the leases of this process from being renewed where the database has one writer, and short
// ones cost more for each event. So their length follows the time that the ones before took. The events of their last block are added.
const (
	commitTime                                 = 500 * time.Millisecond
	firstCommit, shortestCommit, longestCommit = 5000, 500, 20_000 // events
)

// pacedCommit is how many events the next transaction may have after one of so many.
func pacedCommit(now, written int, took time.Duration) int {
	if written < now/2 {
		return now // it says little
	}
	next := int(float64(written) * float64(commitTime) / float64(max(took, time.Millisecond)))
	return min(max(next, now/2, shortestCommit), 2*now, longestCommit)
}

// commitAll writes what was found in a span, in transactions of a bounded length that end between two blocks.
func (w *worker) commitAll(ctx context.Context, state chainState, s span, list []*occurrence, last source.Block) error {
	list = slices.DeleteFunc(list, func(o *occurrence) bool { return o.blockNumber < w.position(o.contract) }) // its owner had it before
	for from := s.from; ; {
		part, rest := cut(list, w.perCommit)
		at := last
		if len(rest) > 0 {
			o := part[len(part)-1]
			at = source.Block{Number: o.blockNumber, Hash: common.HexToHash(o.blockHash)}
		}
		began := time.Now()
		if err := w.commit(ctx, state, w.until(s, from, at.Number), part, at); err != nil {
			return err
		}
		if w.perCommit = pacedCommit(w.perCommit, len(part), time.Since(began)); len(rest) == 0 {
			return nil
		}
		list, from = rest, at.Number+1
	}
}

// cut divides events behind a number of them, between two blocks.
func cut(list []*occurrence, n int) (first, rest []*occurrence) {
	for n < len(list) && list[n].blockNumber == list[n-1].blockNumber {
		n++
	}
	n = min(n, len(list))
	return list[:n], list[n:]
}

// until is a span that ends earlier: with those who are up to there.
func (w *worker) until(s span, from, to uint64) span {
	short := span{from: from, to: to, final: s.final}
	for _, name := range s.units {
		if w.units[name].next <= to {
			short.units = append(short.units, name)
		}
	}
	for _, c := range s.contracts {
		if w.position(c) <= to {
			short.contracts = append(short.contracts, c)
		}
	}
	return short
}

// commit writes, in one transaction, what was found in a span and that it was read.
func (w *worker) commit(ctx context.Context, state chainState, s span, list []*occurrence, last source.Block) error {
	next := last.Number + 1
	var seqs map[contractKey]int64
	var found, told []*occurrence
	err := w.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) (err error) {
		seqs = map[contractKey]int64{}
		if err := w.moveCursors(ctx, tx, s, next, last.Hash.Hex(), state.fork); err != nil {
			return err
		}
		if found, err = w.store(ctx, tx, list, now); err != nil {
			return err
		}
		told = slices.DeleteFunc(slices.Clone(found), func(o *occurrence) bool { return o.contract.watch.Depth != (Depth{}) })
		messages := w.messages(told, seqs, now)
		if err := w.writeRows(ctx, tx, found); err != nil {
			return err
		}
		if err := w.updateContracts(ctx, tx, s, next, seqs, now); err != nil {
			return err
		}
		if err := w.applyFields(ctx, tx, found, now); err != nil {
			return err
		}
		return tx.Emit(ctx, messages...)
	})
	if err != nil {
		return err
	}
	w.metrics.deduplicated.Add(float64(len(list) - len(found)))
	w.metrics.undecoded.Add(float64(undecoded(found)))
	for _, o := range found {
		w.progress.count(o.contract.watch.Name, 1)
	}
	w.metrics.blocks.Add(float64(next - s.from))
	for _, c := range s.contracts {
		if !c.merged {
			c.next = next
		}
	}
	for _, name := range s.units {
		u := w.units[name]
		if s.final && u.checked+1 >= u.next {
			u.checked = next - 1
		}
		u.next, u.parent, u.fork = next, last.Hash.Hex(), state.fork
	}
	for _, c := range s.contracts {
		c.merged = c.merged || c.next == w.units[c.unit].next
	}
	w.handedOn(told, seqs)
	if w.waits() {
		_, err = w.mature(ctx, state)
	}
	return err
}

// store writes events and the contracts that they announce, and returns the events that are new, or have come back after a removal.
func (w *worker) store(ctx context.Context, tx *ledger.Tx, list []*occurrence, now int64) ([]*occurrence, error) {
	fresh, err := w.insertEvents(ctx, tx, list, now)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return fresh, insertContracts(ctx, tx, children(list), now)
}

// messages makes those that tell of events.
func (w *worker) messages(list []*occurrence, seqs map[contractKey]int64, now int64) []ledger.Event {
	messages := make([]ledger.Event, len(list))
	for i, o := range list {
		messages[i] = o.message(w.chain.ID, nextSeq(seqs, o.contract), false, now)
	}
	return messages
}

// handedOn notes that messages of events are written, with the numbers of the last ones.
func (w *worker) handedOn(list []*occurrence, seqs map[contractKey]int64) {
	for key, seq := range seqs {
		w.contracts[key].seq = seq
	}
	if len(list) > 0 {
		w.changed(unitsOf(list))
	}
}

// unitsOf are the units of events, sorted.
func unitsOf(list []*occurrence) []string {
	units := map[string]struct{}{}
	for _, o := range list {
		units[o.contract.unit] = struct{}{}
	}
	return sortedKeys(units)
}

// undecoded counts the events that are handed on as they are.
func undecoded(list []*occurrence) (n int) {
	for _, o := range list {
		n += bit(o.undecoded)
	}
	return n
}

// nextSeq counts the messages about a contract within a transaction that may be run again.
func nextSeq(seqs map[contractKey]int64, c *contract) int64 {
	seq, begun := seqs[c.key()]
	if !begun {
		seq = c.seq
	}
	seqs[c.key()] = seq + 1
	return seq + 1
}

// moveCursors moves the units of a span, and makes sure that the units of all its contracts are still ours.
func (w *worker) moveCursors(ctx context.Context, tx *ledger.Tx, s span, next uint64, parent string, fork int64) error {
	n, err := ledger.In(ctx, tx, `UPDATE cursors SET next_block = CAST($1 AS BIGINT), parent = $2, fork = $3, checked = CASE WHEN CAST($5 AS INTEGER) = 1 AND checked + 1 >= next_block THEN CAST($1 AS BIGINT) - 1 ELSE checked END
		WHERE owner = $4 AND unit IN %s`, []any{int64(next), parent, fork, w.owner, int64(bit(s.final))}, s.units, nil)
	if err != nil {
		return err
	}
	if n != int64(len(s.units)) {
		return errDeposed
	}
	others := map[string]struct{}{}
	for _, c := range s.contracts {
		if _, moved := slices.BinarySearch(s.units, c.unit); !moved {
			others[c.unit] = struct{}{}
		}
	}
	return w.fence(ctx, tx, sortedKeys(others))
}

// fence fails unless units are ours, and keeps them so until the transaction ends.
func (w *worker) fence(ctx context.Context, tx *ledger.Tx, units []string) error {
	held := 0
	_, err := ledger.In(ctx, tx, "SELECT unit FROM cursors WHERE owner = $1 AND unit IN %s"+tx.ForUpdate(), []any{w.owner}, units, func(ledger.Row) error { held++; return nil })
	if err == nil && held != len(units) {
		err = errDeposed
	}
	return err
}

// insertEvents writes events and returns those that are new, or have come back after a removal, in their order.
func (w *worker) insertEvents(ctx context.Context, tx *ledger.Tx, all []*occurrence, now int64) ([]*occurrence, error) {
	if len(all) == 0 {
		return nil, nil
	}
	row := func(o *occurrence) []any {
		announced := 0
		if o.contract.watch.Depth == (Depth{}) {
			announced = 1
		}
		return []any{
			o.contract.watch.Name, int64(w.chain.ID), o.blockHash, int64(o.logIndex), int64(o.blockNumber), int64(o.time), o.txHash,
			o.contract.text, o.event, o.signature, o.args, o.extra, o.contract.unit, int64(0), int64(1), int64(announced), now, w.node,
		}
	}
	columns := ledger.SQL("chain_events (watch, chain, block_hash, log_index, block_number, time, tx_hash, address, event, signature, args, extra, unit, removed, incarnation, announced, processed_at, processed_by) VALUES %s")
	known, err := w.knowEvents(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	if !known {
		for _, o := range all {
			o.incarnation = 1
		}
		_, err := ledger.Values(ctx, tx, tx.InsertInto()+columns, all, row, nil)
		return all, err
	}
	type key struct {
		watch, hash string
		index       uint64
	}
	incarnations := make(map[key]int64, len(all))
	_, err = ledger.Values(ctx, tx, "INSERT INTO "+columns+` ON CONFLICT (watch, chain, block_hash, log_index) DO UPDATE SET removed = 0, announced = excluded.announced, incarnation = chain_events.incarnation + 1, unit = excluded.unit,
			processed_at = excluded.processed_at, processed_by = excluded.processed_by
		WHERE chain_events.removed = 1 RETURNING watch, block_hash, log_index, incarnation`, all, row, func(r ledger.Row) error {
		var k key
		var incarnation int64
		err := r.Scan(&k.watch, &k.hash, &k.index, &incarnation)
		incarnations[k] = incarnation
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(incarnations) < len(all) {
		if err := w.samePlaces(ctx, tx, all); err != nil {
			return nil, err
		}
	}
	fresh := make([]*occurrence, 0, len(incarnations))
	for _, o := range all {
		if n, ok := incarnations[key{o.contract.watch.Name, o.blockHash, o.logIndex}]; ok {
			o.incarnation = n
			fresh = append(fresh, o)
		}
	}
	return fresh, nil
}

// errPlace means that the ledger has another event in the place of one in its block. Some nodes count a block's logs anew in each transaction; the second of the two
// would be taken for the first.
var errPlace = errors.New("two contracts have an event in one place of a block")

// samePlaces fails if a log that the ledger has already is another contract's. A transaction may be of two.
func (w *worker) samePlaces(ctx context.Context, tx *ledger.Tx, all []*occurrence) error {
	var clash error
	all = slices.DeleteFunc(slices.Clone(all), func(o *occurrence) bool { return o.logIndex >= callIndex })
	_, err := ledger.Values(ctx, tx, `SELECT e.block_number, e.log_index, e.address, v.column5 FROM (VALUES %s) AS v JOIN chain_events e ON e.watch = v.column1 AND e.chain = CAST(v.column2 AS BIGINT)
		AND e.block_hash = v.column3 AND e.log_index = CAST(v.column4 AS BIGINT) WHERE e.address <> v.column5`, all,
		func(o *occurrence) []any {
			return []any{o.contract.watch.Name, int64(w.chain.ID), o.blockHash, int64(o.logIndex), o.contract.text}
		}, func(r ledger.Row) error {
			var block, index int64
			var one, other string
			err := r.Scan(&block, &index, &one, &other)
			clash = fmt.Errorf("%w: place %d of block %d, by %s and %s", errPlace, index, block, one, other)
			return err
		})
	return errors.Join(err, clash)
}

// knowEvents tells whether the ledger has any event of these blocks, of whatever contract: then some of those that are to be written
// may be there already. It has none of most blocks of a long past.
func (w *worker) knowEvents(ctx context.Context, tx *ledger.Tx, all []*occurrence) (known bool, err error) {
	blocks := map[string]map[string]struct{}{} // by watch
	for _, o := range all {
		name := o.contract.watch.Name
		if blocks[name] == nil {
			blocks[name] = map[string]struct{}{}
		}
		blocks[name][o.blockHash] = struct{}{}
	}
	for name, hashes := range blocks {
		_, err := ledger.In(ctx, tx, "SELECT 1 FROM chain_events WHERE watch = $1 AND chain = $2 AND block_hash IN %s LIMIT 1", []any{name, int64(w.chain.ID)}, sortedKeys(hashes),
			func(ledger.Row) error { known = true; return nil })
		if known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// updateContracts writes how far the contracts are that do not go with their units yet, and the numbers of the last messages.
func (w *worker) updateContracts(ctx context.Context, tx *ledger.Tx, s span, next uint64, seqs map[contractKey]int64, now int64) error {
	var rows [][]any
	for _, c := range s.contracts {
		seq, told := seqs[c.key()]
		if c.merged && !told {
			continue
		}
		if !told {
			seq = c.seq
		}
		position, merged := c.next, int64(1)
		if !c.merged {
			position = next
			at := w.units[c.unit].next
			if _, moved := slices.BinarySearch(s.units, c.unit); moved {
				at = next
			}
			if at != next {
				merged = 0
			}
		}
		rows = append(rows, []any{c.watch.Name, int64(w.chain.ID), c.text, int64(position), merged, seq, now, c.seq})
	}
	return w.storeContracts(ctx, tx, rows)
}

// storeContracts updates position, merged and seq of contracts that are not removed, and whose last message is the one that is remembered: what
// was read after a commit whose answer was lost may be older than that commit, and no number is given twice.
func (w *worker) storeContracts(ctx context.Context, tx *ledger.Tx, rows [][]any) error {
	n, err := ledger.Values(ctx, tx, `UPDATE contracts SET next_block = CAST(v.column4 AS BIGINT), merged = CAST(v.column5 AS INTEGER), seq = CAST(v.column6 AS BIGINT), updated_at = CAST(v.column7 AS BIGINT) FROM (VALUES %s) AS v
		WHERE contracts.watch = v.column1 AND contracts.chain = CAST(v.column2 AS BIGINT) AND contracts.address = v.column3 AND contracts.removed = 0 AND contracts.seq = CAST(v.column8 AS BIGINT)`, rows, ledger.AsIs, nil)
	if err != nil {
		return fmt.Errorf("contracts: %w", err)
	}
	if n != int64(len(rows)) {
		return errStale // its factory's owner has taken one back, or a commit without an answer has happened
	}
	return nil
}

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
	units := map[string]struct{}{}
	list, err := ledger.ReadOf(ctx, w.db, func(tx *ledger.Tx) (list []*contract, _ error) {
		err := w.queryContracts(ctx, tx, "chain = $1 AND stale = 1 AND removed = 0 AND unit IN (SELECT unit FROM cursors WHERE owner = $2) LIMIT "+ledger.Number(contractsPerRefresh), []any{int64(w.chain.ID), w.owner}, func(c *contract) {
			list = append(list, c)
			units[c.unit] = struct{}{}
		})
		return list, err
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
		return w.enqueue(ctx, tx, waiting, seqs, now)
	})
	if err != nil {
		return 0, err
	}
	w.handedOn(waiting, seqs)
	return len(waiting), nil
}

// enqueue leaves messages of stored events in the outbox, and their numbers in the rows of events and contracts.
func (w *worker) enqueue(ctx context.Context, tx *ledger.Tx, list []*occurrence, seqs map[contractKey]int64, now int64) error {
	messages := w.messages(list, seqs, now)
	if err := w.storeSeqs(ctx, tx, seqs, now); err != nil {
		return err
	}
	if err := w.writeSeqs(ctx, tx, list); err != nil {
		return err
	}
	return tx.Emit(ctx, messages...)
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

type hash = common.Hash

// errDeposed means that a unit belongs to another process by now: nothing was written.
var errDeposed = errors.New("the unit belongs to another process")

func insertBlocks(ctx context.Context, tx *ledger.Tx, chain uint64, blocks []source.Block) error {
	_, err := ledger.Values(ctx, tx, "INSERT INTO watch_blocks (chain, number, hash, parent, time) VALUES %s ON CONFLICT (chain, number) DO UPDATE SET hash = excluded.hash, parent = excluded.parent, time = excluded.time", blocks,
		func(b source.Block) []any {
			return []any{int64(chain), int64(b.Number), b.Hash.Hex(), b.Parent.Hex(), int64(b.Time)}
		}, nil)
	return err
}

// queryBlocks reads the blocks from a number on that can still be replaced.
func queryBlocks(ctx context.Context, tx *ledger.Tx, chain, from uint64, each func(source.Block)) error {
	return tx.Query(ctx, "SELECT number, hash, parent, time FROM watch_blocks WHERE chain = $1 AND number >= $2 ORDER BY number", []any{int64(chain), int64(from)}, func(r ledger.Row) error {
		var b source.Block
		var h, parent string
		err := r.Scan(&b.Number, &h, &parent, &b.Time)
		b.Hash, b.Parent = common.HexToHash(h), common.HexToHash(parent)
		each(b)
		return err
	})
}

// chainState is what the fleet knows of a chain.
type chainState struct {
	head, safe uint64
	safeHash   string // of the safe block; "" if the ledger does not have it
	best       uint64 // the highest head that any endpoint has shown
	bestAt     int64  // when it did: microseconds since 1970
	pace       int64  // milliseconds from one block to the next; 0: unknown
	fork       int64
	blocks     map[uint64]source.Block
}

// lag is how many blocks somebody is behind who reads a block next: behind the highest head, and behind the clock where that stands.
func (s chainState) lag(next uint64) uint64 {
	best := max(s.best, s.head)
	age := time.Duration(time.Now().UnixMicro()-s.bestAt) * time.Microsecond
	return best + 1 - min(next, best+1) + overdue(age, time.Duration(s.pace)*time.Millisecond)
}

func readChain(ctx context.Context, tx *ledger.Tx, chain, from uint64) (s chainState, known bool, err error) {
	s.blocks = map[uint64]source.Block{}
	known, err = tx.One(ctx, `SELECT head, safe, COALESCE((SELECT hash FROM watch_blocks b WHERE b.chain = c.chain AND b.number = c.safe), ''), fork, best, best_at, pace
		FROM watch_chains c WHERE chain = $1`, []any{int64(chain)}, &s.head, &s.safe, &s.safeHash, &s.fork, &s.best, &s.bestAt, &s.pace)
	if err != nil || !known {
		return s, known, err
	}
	return s, true, queryBlocks(ctx, tx, chain, from, func(b source.Block) { s.blocks[b.Number] = b })
}

// contract is a followed address, as its owner knows it.
type contract struct {
	watch      *Watch
	address    common.Address
	text       string // of the address
	unit       string
	factory    bool
	account    bool // only transactions are followed
	discovered uint64
	next       uint64 // first block that was not read for it; counts while it is not merged
	merged     bool   // it goes with its unit
	seq        int64  // of the last event that was announced
}

func (c *contract) key() contractKey { return contractKey{c.watch.Name, c.address} }

type contractKey struct {
	watch   string
	address common.Address
}

const contractColumns = "watch, address, unit, kind, discovered_block, next_block, merged, seq"

func (w *worker) queryContracts(ctx context.Context, tx *ledger.Tx, where ledger.SQL, args []any, each func(*contract)) error {
	return tx.Query(ctx, "SELECT "+contractColumns+" FROM contracts WHERE "+where, args, func(r ledger.Row) error {
		var c contract
		var watch, kind string
		var merged int
		if err := r.Scan(&watch, &c.text, &c.unit, &kind, &c.discovered, &c.next, &merged, &c.seq); err != nil {
			return err
		}
		c.watch, c.address, c.factory, c.merged = w.watches[watch], common.HexToAddress(c.text), kind == kindFactory, merged == 1
		if r := w.rules[c.watch]; r != nil && kind == kindGiven {
			_, c.account = r.accounts[c.address]
		}
		if c.watch != nil { // else its watch is not in this plan any more
			each(&c)
		}
		return nil
	})
}

// Kinds of contracts.
const (
	kindFactory = "factory"
	kindGiven   = "given"
	kindChild   = "child"
)

// newContract is a row to be made.
type newContract struct {
	watch   *Watch
	address common.Address
	kind    string
	block   uint64
	by      string // id of the factory's event
	fields  map[string]*string
}

func (n newContract) unit() string {
	if n.kind == kindFactory {
		return factoryUnit(n.watch.Name)
	}
	return shardUnit(n.watch.Chain, shardOf(n.address))
}

// insertContracts makes rows. One that was removed by a reorganisation comes back with its new discovery. The units
// that they need are made, too.
func insertContracts(ctx context.Context, tx *ledger.Tx, list []newContract, now int64) error {
	units := map[string][]any{}
	_, err := ledger.Values(ctx, tx, `INSERT INTO contracts (watch, chain, address, unit, kind, discovered_at, discovered_block, discovered_by, next_block, status, fields, payer, payee, amount,
			created_at, updated_at, merged, removed, stale, seq)
		SELECT column1, CAST(column2 AS BIGINT), column3, column4, column5, CAST(column6 AS BIGINT), CAST(column7 AS BIGINT), column8, CAST(column9 AS BIGINT), column10, column11,
			column12, column13, column14, CAST(column15 AS BIGINT), CAST(column15 AS BIGINT), 0, 0, 0, 0
		FROM (VALUES %s) AS v WHERE true
		ON CONFLICT (watch, chain, address) DO UPDATE SET removed = 0, merged = 0, discovered_at = excluded.discovered_at, discovered_block = excluded.discovered_block,
			discovered_by = excluded.discovered_by, next_block = excluded.next_block, status = excluded.status, fields = excluded.fields,
			payer = excluded.payer, payee = excluded.payee, amount = excluded.amount, updated_at = excluded.updated_at
		WHERE contracts.removed = 1`, list, func(n newContract) []any {
		fields := n.fields
		if fields == nil {
			fields = map[string]*string{}
		}
		if row, known := units[n.unit()]; !known || row[2].(int64) > int64(n.block) {
			units[n.unit()] = []any{n.unit(), int64(n.watch.Chain), int64(n.block)}
		}
		return []any{
			n.watch.Name, int64(n.watch.Chain), addressText(n.address), n.unit(), n.kind, now, int64(n.block), n.by, int64(n.block), n.watch.Status.Initial, encode(fields),
			nullable(fields["payer"]), nullable(fields["payee"]), nullable(fields["amount"]), now,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("contracts: %w", err)
	}
	_, err = ledger.Values(ctx, tx, `INSERT INTO cursors (unit, chain, next_block, parent, fork, owner, parked, checked)
		SELECT column1, CAST(column2 AS BIGINT), CAST(column3 AS BIGINT), '', COALESCE((SELECT fork FROM watch_chains WHERE chain = CAST(column2 AS BIGINT)), 0), '', 0, CAST(column3 AS BIGINT) - 1 FROM (VALUES %s) AS v WHERE true
		ON CONFLICT (unit) DO NOTHING`, slices.Collect(maps.Values(units)), ledger.AsIs, nil)
	if err != nil {
		return fmt.Errorf("cursors: %w", err)
	}
	return nil
}

func addressText(a common.Address) string { return a.Hex() }

// nullable is a business field as a column of text. PostgreSQL has no text with a zero byte.
func nullable(text *string) any {
	if text == nil {
		return nil
	}
	return strings.ReplaceAll(*text, "\x00", "\ufffd")
}
