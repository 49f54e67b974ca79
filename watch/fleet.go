package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// fleet decides which units this process owns, and takes and gives back their leases.
type fleet struct {
	s *Service

	mu     sync.Mutex
	mine   map[string]*lease.Lease
	nodes  []string
	warned string // the last warning about partitions
	reign  string // what the cursors of our units name as their owner
	reigns int
}

func newFleet(s *Service) *fleet { return &fleet{s: s, mine: map[string]*lease.Lease{}} }

// heartbeatEvery is how often a process writes its row for people. Its lease tells the fleet that it lives.
const heartbeatEvery = 3 * time.Second

// farewell bounds the last row of a process that ends.
const farewell = 10 * time.Second

// rebalance is how often the division of the units is looked at.
const rebalance = 500 * time.Millisecond

// lease returns the lease of a unit, or nil if it is not ours.
func (f *fleet) lease(unit string) *lease.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mine[unit]
}

// owned returns the units that are certainly ours for a while.
func (f *fleet) owned(d time.Duration) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, l := range f.mine {
		if l.Trusted(d) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *fleet) run(ctx context.Context) error {
	beat := time.Time{}
	for ctx.Err() == nil {
		err := f.balance(ctx)
		if err == nil && time.Since(beat) >= heartbeatEvery {
			if err = f.heartbeat(ctx, "active"); err == nil {
				beat = time.Now()
				f.s.metrics.beat.Store(beat.UnixNano())
			}
		}
		if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			f.s.log.WarnContext(ctx, "the division of the work cannot be read", "error", err)
		}
		sleep.For(ctx, rebalance)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := f.heartbeat(last, "dead"); err != nil {
		f.s.log.WarnContext(last, "the fleet was not told that this process ends; it will notice when the leases end", "error", err)
	}
	return ctx.Err()
}

// balance gives back the units that others should have, and takes those that are ours and free.
func (f *fleet) balance(ctx context.Context) error {
	nodes, err := f.s.leases.Nodes(ctx)
	if err != nil {
		return err
	}
	work, err := f.work(ctx)
	if err != nil {
		return err
	}
	units := work.units
	// Who has another plan owns nothing, and is given nothing. That may be this process.
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return !work.current[n] })
	if !work.current[f.s.cfg.Instance] && f.s.pending.Load() {
		if err := f.s.adopt(ctx); err != nil && !errors.Is(err, errStale) {
			return err
		}
		work.current[f.s.cfg.Instance] = !f.s.pending.Load()
	}
	f.s.behind(ctx, !work.current[f.s.cfg.Instance])
	if !work.current[f.s.cfg.Instance] {
		units = nil
	}
	owners := f.divide(units, nodes, work.partitions)
	self, reign := f.s.cfg.Instance, f.owner()
	f.mu.Lock()
	f.nodes = nodes
	var give []*lease.Lease
	var take []string
	changed := map[uint64]bool{}
	for name, l := range f.mine {
		select {
		case <-l.Lost():
			delete(f.mine, name)
			changed[work.units[name]] = true
			continue
		default:
		}
		if cursor, has := work.owners[name]; owners[name] != self || has && cursor != reign { // or it cannot write for it
			give = append(give, l)
			delete(f.mine, name)
			changed[work.units[name]] = true
		}
	}
	for name, owner := range owners {
		if owner == self && f.mine[name] == nil {
			take = append(take, name)
		}
	}
	f.mu.Unlock()
	slices.Sort(take)
	if err := f.give(ctx, give); err != nil {
		return err
	}
	if len(take) > 0 {
		taken, err := f.take(ctx, take)
		if err != nil {
			return err
		}
		f.mu.Lock()
		for _, l := range taken {
			f.mine[l.Name()] = l
			changed[units[l.Name()]] = true
			if isFactory(l.Name()) {
				f.s.metrics.elections.Inc()
			}
		}
		f.mu.Unlock()
	}
	f.s.metrics.leader.Set(float64(bit(slices.ContainsFunc(f.owned(0), isFactory))))
	f.s.metrics.instances.Set(float64(len(nodes)))
	for chain := range changed {
		if c := f.s.chains[chain]; c != nil { // of a unit that was forgotten nobody knows the chain
			nudge(c.reload)
			nudge(c.wake)
		}
	}
	if len(changed) > 0 {
		f.s.wakePublishers(f.owned(0))
	}
	return nil
}

// take acquires leases and makes their cursors this process's in the same transaction: from then on no other process can write for
// them, whatever it believes. All our cursors get a new name then. So a worker that remembers what was before, perhaps of a
// unit that another process had meanwhile, has to read everything again before it can write.
func (f *fleet) take(ctx context.Context, units []string) ([]*lease.Lease, error) {
	f.mu.Lock()
	before := f.reign
	f.reigns++
	reign := f.s.leases.Owner() + "/" + strconv.Itoa(f.reigns)
	f.mu.Unlock()
	taken, err := f.s.leases.AcquireAll(ctx, units, func(ctx context.Context, tx *ledger.Tx, units []string) error {
		if err := f.s.current(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE cursors SET owner = $1 WHERE owner = $2 AND owner <> ''", reign, before); err != nil {
			return err
		}
		return setOwner(ctx, tx, units, reign)
	})
	if err == nil {
		f.mu.Lock()
		f.reign = reign
		f.mu.Unlock()
	}
	return taken, err
}

func setOwner(ctx context.Context, tx *ledger.Tx, units []string, owner string) error {
	_, err := ledger.In(ctx, tx, "UPDATE cursors SET owner = $1 WHERE unit IN %s", []any{owner}, units, nil)
	return err
}

// owner is what the cursors of our units name.
func (f *fleet) owner() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reign
}

// give releases leases. Their cursors are nobody's before that, so that the worker stops to write for them.
func (f *fleet) give(ctx context.Context, leases []*lease.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	names := make([]string, len(leases))
	for i, l := range leases {
		names[i] = l.Name()
	}
	owner := f.owner()
	err := f.s.db.Write(ctx, func(tx *ledger.Tx) error {
		_, err := ledger.In(ctx, tx, "UPDATE cursors SET owner = '' WHERE owner = $1 AND unit IN %s", []any{owner}, names, nil)
		return err
	})
	return errors.Join(err, f.s.leases.ReleaseAll(ctx, leases))
}

// work is what there is to divide, and among whom.
type work struct {
	units      map[string]uint64 // with their chains
	owners     map[string]string // what their cursors name
	partitions map[int]string    // that living processes have pinned
	current    map[string]bool   // processes that have the plan that the fleet follows
}

func (f *fleet) work(ctx context.Context) (w work, err error) {
	err = f.s.db.Read(ctx, func(tx *ledger.Tx) error {
		w = work{units: map[string]uint64{}, owners: map[string]string{}, partitions: map[int]string{}, current: map[string]bool{}}
		_, newest, err := newestPlan(ctx, tx)
		if err != nil {
			return err
		}
		err = tx.Query(ctx, "SELECT instance_id, partition_number, CASE WHEN total_partitions = $1 AND status = 'active' THEN 1 ELSE 0 END FROM nodes WHERE plan = $2", []any{int64(f.s.cfg.Partitions), newest}, func(r ledger.Row) error {
			var n, pinned int
			var instance string
			err := r.Scan(&instance, &n, &pinned)
			w.current[instance] = true
			if pinned == 1 {
				w.partitions[n] = instance
			}
			return err
		})
		if err != nil {
			return err
		}
		w.current[f.s.cfg.Instance] = newest == f.s.digest
		for _, c := range f.s.cfg.Plan.Chains {
			w.units[headUnit(c.ID)] = c.ID
		}
		return tx.Query(ctx, "SELECT unit, owner, chain FROM cursors WHERE parked = 0", nil, func(r ledger.Row) error {
			var name, owner string
			var chain uint64
			err := r.Scan(&name, &owner, &chain)
			if f.s.chains[chain] != nil {
				w.units[name], w.owners[name] = chain, owner
			}
			return err
		})
	})
	return w, err
}

// divide says who owns which unit.
func (f *fleet) divide(units map[string]uint64, nodes []string, partitions map[int]string) map[string]string {
	if f.s.cfg.Partitions == 0 {
		return assign(sortedKeys(units), nodes)
	}
	var elastic []string
	owners := map[string]string{}
	missing := map[int]bool{}
	for name := range units {
		n, isShard := pinned(name, f.s.cfg.Partitions)
		switch instance := partitions[n]; {
		case !isShard:
			elastic = append(elastic, name)
		case n == f.s.cfg.Partition:
			owners[name] = f.s.cfg.Instance
		case !slices.Contains(nodes, instance):
			missing[n] = true
		default:
			owners[name] = instance
		}
	}
	maps.Copy(owners, assign(elastic, nodes))
	f.warn(missing)
	return owners
}

// warn tells of partitions that nobody owns, once until that changes.
func (f *fleet) warn(missing map[int]bool) {
	list := slices.Sorted(maps.Keys(missing))
	text := encode(list)
	f.mu.Lock()
	same := f.warned == text
	f.warned = text
	f.mu.Unlock()
	if !same && len(list) > 0 {
		f.s.log.Warn("no living process has these partitions: the events of their contracts are not read", "partitions", text, "total", f.s.cfg.Partitions)
	}
}

// heartbeat writes the row that tells people of this process.
func (f *fleet) heartbeat(ctx context.Context, status string) error {
	return f.s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error { return f.writeNode(ctx, tx, status, now) })
}

func (f *fleet) writeNode(ctx context.Context, tx *ledger.Tx, status string, now int64) error {
	s := f.s
	var block, contracts, registered int64
	owner := f.owner()
	if _, err := tx.One(ctx, "SELECT COALESCE(MIN(next_block), 1) - 1 FROM cursors WHERE owner = $1", []any{owner}, &block); err != nil {
		return err
	}
	if _, err := tx.One(ctx, "SELECT COUNT(*) FROM contracts c JOIN cursors u ON u.unit = c.unit WHERE u.owner = $1 AND c.removed = 0 AND c.kind <> 'factory'", []any{owner}, &contracts); err != nil {
		return err
	}
	if _, err := tx.One(ctx, "SELECT COUNT(*) FROM contracts WHERE removed = 0 AND kind <> 'factory'", nil, &registered); err != nil {
		return err
	}
	block = max(block, 0) // before the first block
	s.metrics.contracts.Set(float64(contracts))
	s.metrics.registered.Set(float64(registered))
	f.mu.Lock()
	total, number := int64(s.cfg.Partitions), int64(s.cfg.Partition)
	if s.cfg.Partitions == 0 {
		total, number = int64(len(f.nodes)), 0
	}
	leader := int64(bit(status == "active" && slices.ContainsFunc(slices.Collect(maps.Keys(f.mine)), isFactory)))
	f.mu.Unlock()
	_, err := tx.Exec(ctx, `INSERT INTO nodes (instance_id, owner, status, partition_number, total_partitions, last_heartbeat, current_block, contracts, leader, version, plan, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $6, $6) ON CONFLICT (instance_id) DO UPDATE SET owner = excluded.owner, status = excluded.status,
		partition_number = excluded.partition_number, total_partitions = excluded.total_partitions, last_heartbeat = excluded.last_heartbeat, current_block = excluded.current_block,
		contracts = excluded.contracts, leader = excluded.leader, version = excluded.version, plan = excluded.plan, updated_at = excluded.updated_at`,
		s.cfg.Instance, s.leases.Owner(), status, number, total, now, block, contracts, leader, s.cfg.Version, s.digest)
	return err
}
