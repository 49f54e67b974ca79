package lease

import (
	"context"
	"slices"

	"lockstep/internal/ledger"
)

// AcquireAll takes those of some leases that are free, expired, or left by an owner that is certainly dead, in one
// transaction. then is called in it with the names that were taken, so that what they protect can be marked as this owner's at
// the same moment; it may be called again if the transaction is. The leases that others hold are passed over.
func (k *Keeper) AcquireAll(ctx context.Context, names []string, then func(context.Context, *ledger.Tx, []string) error) ([]*Lease, error) {
	defer k.take(names...)()
	before := now()
	var terms map[string]int64
	err := k.db.Write(ctx, func(tx *ledger.Tx) error {
		terms = map[string]int64{}
		clock, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(names, 200) {
			if err := k.acquirePart(ctx, tx, clock, part, terms); err != nil {
				return err
			}
		}
		taken := make([]string, 0, len(terms))
		for name := range terms {
			taken = append(taken, name)
		}
		slices.Sort(taken)
		return then(ctx, tx, taken)
	})
	if err != nil {
		return nil, err
	}
	list := make([]*Lease, 0, len(terms))
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, term := range terms {
		if old := k.held[name]; old != nil {
			old.end()
		}
		l := &Lease{keeper: k, name: name, term: term, trusted: before + k.o.TTL - k.o.Margin, lost: make(chan struct{})}
		k.held[name] = l
		list = append(list, l)
	}
	return list, nil
}

// acquirePart takes some leases in one statement: an upsert that passes over what others hold.
func (k *Keeper) acquirePart(ctx context.Context, tx *ledger.Tx, clock int64, names []string, terms map[string]int64) error {
	owners := map[string]bool{} // whether they may be alive
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	var free []any
	known := map[string]bool{}
	err := tx.Query(ctx, "SELECT name, owner, expires_at FROM leases WHERE name IN "+ledger.List(1, len(names))+" ORDER BY name"+tx.ForUpdate(), args, func(r ledger.Row) error {
		var name, owner string
		var expires int64
		if err := r.Scan(&name, &owner, &expires); err != nil {
			return err
		}
		known[name] = true
		if _, asked := owners[owner]; !asked {
			owners[owner] = owner != "" && owner != k.owner && !k.db.OwnerDead(owner)
		}
		if owners[owner] && expires > clock {
			return nil
		}
		free = append(free, name)
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !known[name] {
			free = append(free, name)
		}
	}
	if len(free) == 0 {
		return nil
	}
	seen := []any{""} // no lease has that name
	for _, name := range free {
		if known[name.(string)] {
			seen = append(seen, name)
		}
	}
	rows := make([]any, 0, 4*len(free))
	for _, name := range free {
		rows = append(rows, name, k.owner, int64(1), clock+k.o.TTL.Microseconds())
	}
	// A row that another process has made since is passed over: those that were seen are locked.
	return tx.Query(ctx, "INSERT INTO leases (name, owner, term, expires_at) VALUES "+ledger.Rows(len(free), 4)+
		" ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, term = leases.term + 1, expires_at = excluded.expires_at"+
		" WHERE leases.name IN "+ledger.List(len(rows)+1, len(seen))+" RETURNING name, term",
		append(rows, seen...), func(r ledger.Row) error {
			var name string
			var term int64
			err := r.Scan(&name, &term)
			terms[name] = term
			return err
		})
}

// ReleaseAll gives leases back in one transaction. Those that were lost meanwhile are passed over. After an error the
// next renewal does it.
func (k *Keeper) ReleaseAll(ctx context.Context, leases []*Lease) error {
	if len(leases) == 0 {
		return nil
	}
	terms := make(map[string]int64, len(leases))
	k.mu.Lock()
	for _, l := range leases {
		l.end()
		terms[l.name] = l.term
		if k.held[l.name] == l {
			delete(k.held, l.name)
		}
	}
	k.mu.Unlock()
	return k.db.Write(ctx, func(tx *ledger.Tx) error { return k.free(ctx, tx, terms) })
}
