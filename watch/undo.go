package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
)

// undo takes back what our units found above a block that is still on the chain, and has them read on from there. What was handed
// on already is followed by a message that it is removed; what was not is only marked.
func (w *worker) undo(ctx context.Context, state chainState, ancestor uint64) error {
	var behind []string // units that have read blocks above the ancestor
	for name, u := range w.units {
		if u.next > ancestor+1 || u.fork < state.fork {
			behind = append(behind, name)
		}
	}
	slices.Sort(behind)
	var seqs map[contractKey]int64
	told := false
	err := w.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		seqs, told = map[contractKey]int64{}, false
		if err := w.fence(ctx, tx, behind); err != nil {
			return err
		}
		parent := ""
		if _, err := tx.One(ctx, "SELECT hash FROM watch_blocks WHERE chain = $1 AND number = $2", []any{int64(w.chain.ID), int64(ancestor)}, &parent); err != nil {
			return err
		}
		if _, err := ledger.In(ctx, tx, `UPDATE cursors SET parent = CASE WHEN next_block > $1 THEN $2 ELSE parent END,
			next_block = CASE WHEN next_block > $1 THEN $1 ELSE next_block END, fork = $3 WHERE unit IN %s`, []any{int64(ancestor + 1), parent, state.fork}, behind, nil); err != nil {
			return err
		}
		if _, err := ledger.In(ctx, tx, "UPDATE contracts SET next_block = $1 WHERE merged = 0 AND next_block > $1 AND unit IN %s", []any{int64(ancestor + 1)}, behind, nil); err != nil {
			return err
		}
		messages, err := w.removeEvents(ctx, tx, behind, ancestor, seqs, now)
		if err != nil {
			return err
		}
		told = len(messages) > 0
		for key, seq := range seqs {
			if _, err := tx.Exec(ctx, "UPDATE contracts SET seq = $1 WHERE watch = $2 AND chain = $3 AND address = $4", seq, key.watch, int64(w.chain.ID), addressText(key.address)); err != nil {
				return err
			}
		}
		return tx.Emit(ctx, messages...)
	})
	if err != nil {
		return err
	}
	if told {
		w.changed(behind)
	}
	return w.load(ctx)
}

// removeEvents marks the events above the ancestor whose blocks are not on the chain any more, newest first, and returns what the
// sinks have to hear.
func (w *worker) removeEvents(ctx context.Context, tx *ledger.Tx, units []string, ancestor uint64, seqs map[contractKey]int64, now int64) ([]ledger.Event, error) {
	var gone []*occurrence
	announced := map[*occurrence]bool{}
	for part := range slices.Chunk(units, 500) {
		args := append([]any{int64(ancestor), int64(w.chain.ID)}, ledger.Args(part)...)
		// Contracts that their factory's owner has taken back are among them: what was said of those has to be taken back, too.
		contracts := map[contractKey]*contract{}
		err := w.queryContracts(ctx, tx, "unit IN "+ledger.List(1, len(part)), ledger.Args(part), func(c *contract) { contracts[c.key()] = c })
		if err != nil {
			return nil, err
		}
		for _, flag := range []bool{false, true} {
			list, err := queryEvents(ctx, tx, contracts, `removed = 0 AND announced = `+ledger.Number(bit(flag))+` AND block_number > $1 AND unit IN `+ledger.List(3, len(part))+`
				AND NOT EXISTS (SELECT 1 FROM watch_blocks b WHERE b.chain = $2 AND b.number = chain_events.block_number AND b.hash = chain_events.block_hash)`, args)
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				announced[o] = flag
			}
			gone = append(gone, list...)
		}
	}
	slices.SortFunc(gone, func(a, b *occurrence) int {
		return cmp.Or(cmp.Compare(b.blockNumber, a.blockNumber), cmp.Compare(b.logIndex, a.logIndex))
	})
	var messages []ledger.Event
	touched := map[contractKey]*contract{}
	for _, o := range gone {
		if o.contract == nil {
			continue // its watch is not in this plan any more
		}
		_, err := tx.Exec(ctx, "UPDATE chain_events SET removed = 1, announced = 0 WHERE watch = $1 AND chain = $2 AND block_hash = $3 AND log_index = $4",
			o.contract.watch.Name, int64(w.chain.ID), o.blockHash, int64(o.logIndex))
		if err != nil {
			return nil, err
		}
		if err := w.removeRow(ctx, tx, o); err != nil {
			return nil, err
		}
		if announced[o] {
			messages = append(messages, o.message(w.chain.ID, nextSeq(seqs, o.contract), true, now))
		}
		touched[o.contract.key()] = o.contract
		if o.contract.factory { // it may have announced a contract
			_, err := tx.Exec(ctx, "UPDATE contracts SET removed = 1, updated_at = $1 WHERE watch = $2 AND discovered_by = $3", now, o.contract.watch.Name, o.id(w.chain.ID))
			if err != nil {
				return nil, err
			}
		}
	}
	for _, c := range touched {
		if err := w.recompute(ctx, tx, c, now); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// applyFields writes what new events say of their contracts: the status, and the fields that the plan names.
func (w *worker) applyFields(ctx context.Context, tx *ledger.Tx, fresh []*occurrence, now int64) error {
	touched := map[contractKey]*contract{}
	for _, o := range fresh {
		if o.contract.watch.tells(o.signature) && !o.contract.factory {
			touched[o.contract.key()] = o.contract
		}
	}
	for _, c := range touched {
		if err := w.recompute(ctx, tx, c, now); err != nil {
			return err
		}
	}
	return nil
}

// tells reports whether an event says anything about the row of its contract.
func (w *Watch) tells(signature string) bool {
	for event := range w.Status.On {
		if means(event, signature) {
			return true
		}
	}
	return slices.ContainsFunc(w.Fields, func(f Field) bool { return means(f.Event, signature) })
}

// means tells whether what a plan calls an event, a name or one overload's signature, is the event of a signature.
func means(event, signature string) bool {
	name, _, _ := strings.Cut(signature, "(")
	return event == name || event == signature
}

// takeFields takes the business fields that an event tells. One that the event does not have is null, as of an overload.
func (w *Watch) takeFields(fields map[string]*string, signature string, args map[string]any) {
	for _, f := range w.Fields {
		if means(f.Event, signature) {
			fields[f.Name] = fieldText(args[f.Arg])
		}
	}
}

// fieldText is a value as a business field: numbers with all their digits, lists and tuples as JSON.
func fieldText(v any) *string {
	var text string
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		text = v
	default:
		text = encode(v)
	}
	return &text
}

// recompute derives the status and the fields of a contract from the events that stand: those of its own, and the factory's
// that announced it.
func (w *worker) recompute(ctx context.Context, tx *ledger.Tx, c *contract, now int64) error {
	if c.factory {
		return nil
	}
	var own []string
	for _, e := range c.watch.Events {
		if c.watch.tells(e.String()) {
			own = append(own, e.Name)
		}
	}
	status, fields := c.watch.Status.Initial, map[string]*string{}
	var by string
	if _, err := tx.One(ctx, "SELECT discovered_by FROM contracts WHERE watch = $1 AND chain = $2 AND address = $3", []any{c.watch.Name, int64(w.chain.ID), c.text}, &by); err != nil {
		return err
	}
	apply := func(signature, text string) error {
		args, err := decode.FromJSON([]byte(text))
		if err != nil {
			return err
		}
		c.watch.takeFields(fields, signature, args)
		for event, s := range c.watch.Status.On {
			if means(event, signature) {
				status = s
			}
		}
		return nil
	}
	if parts := strings.Split(by, ":"); len(parts) == 4 {
		var signature, text string
		found, err := tx.One(ctx, "SELECT signature, args FROM chain_events WHERE watch = $1 AND chain = $2 AND block_hash = $3 AND log_index = CAST($4 AS BIGINT)",
			[]any{c.watch.Name, int64(w.chain.ID), parts[2], parts[3]}, &signature, &text)
		if err == nil && found {
			err = apply(signature, text)
		}
		if err != nil {
			return fmt.Errorf("fields: %w", err)
		}
	}
	if len(own) > 0 {
		args := append([]any{c.watch.Name, int64(w.chain.ID), c.text}, ledger.Args(own)...)
		err := tx.Query(ctx, "SELECT signature, args FROM chain_events WHERE watch = $1 AND chain = $2 AND address = $3 AND removed = 0 AND event IN "+ledger.List(4, len(own))+
			" ORDER BY block_number, log_index", args, func(r ledger.Row) error {
			var signature, text string
			if err := r.Scan(&signature, &text); err != nil {
				return err
			}
			return apply(signature, text)
		})
		if err != nil {
			return fmt.Errorf("fields: %w", err)
		}
	}
	_, err := tx.Exec(ctx, "UPDATE contracts SET stale = 0, status = $1, fields = $2, payer = $3, payee = $4, amount = $5, updated_at = $6 WHERE watch = $7 AND chain = $8 AND address = $9",
		status, encode(fields), nullable(fields["payer"]), nullable(fields["payee"]), nullable(fields["amount"]), now, c.watch.Name, int64(w.chain.ID), c.text)
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
