package txmgr

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// sequenceEvery is how often the stream's sequencer looks for events of other processes.
const sequenceEvery = 100 * time.Millisecond

// Run registers this process, owns its share of the lanes, and ends when the context does or
// when another living process has the same name.
func (m *Manager) Run(ctx context.Context) error {
	if err := ledger.WhileDown(ctx, m.enter); err != nil {
		return err
	}
	owners, stopped := context.WithCancel(ctx)
	defer stopped()
	group, ctx := errgroup.WithContext(ctx)
	var lanes sync.WaitGroup
	for _, c := range m.chains {
		lanes.Add(1)
		group.Go(func() error {
			defer lanes.Done()
			return m.own(owners, c)
		})
		group.Go(func() error { return m.wakeOthers(ctx, c.ID()) })
	}
	// The leases outlive the owners, so that an owner's last writes carry a living term.
	renewing, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		<-ctx.Done()
		stopped()
		lanes.Wait()
		end()
		return nil
	})
	group.Go(func() error { return m.leases.Run(renewing) })
	group.Go(func() error { return m.listen(ctx) })
	group.Go(func() error { return m.every(ctx, sequenceEvery, m.sequence) })
	group.Go(func() error { return m.every(ctx, m.c.Poll.Duration(), m.expire) })
	group.Go(func() error { return m.every(ctx, time.Minute, m.forget) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// enter makes this process and its signers known.
func (m *Manager) enter(ctx context.Context) error {
	if err := m.leases.Register(ctx); err != nil {
		return err
	}
	return m.hold(ctx)
}

// hold tells the ledger which signers this process has the keys of: each on every chain that knows its account.
func (m *Manager) hold(ctx context.Context) error {
	m.mu.Lock()
	var lanes []Lane
	for _, name := range slices.Sorted(maps.Keys(m.keys)) {
		for _, id := range m.Chains() {
			account, err := m.chains[id].Account(name)
			if err != nil {
				continue // an account of another kind of chain
			}
			lanes = append(lanes, Lane{Chain: id, Signer: account, Pools: append([]string{"default"}, m.pools[name]...)})
		}
	}
	m.mu.Unlock()
	if err := m.store.Hold(ctx, m.leases.Instance(), lanes); err != nil {
		return err
	}
	for _, id := range m.Chains() {
		m.rouse(id)
	}
	return nil
}

// every calls a task again and again. Its errors are logged; they are the ledger's, and the
// next turn may have more luck.
func (m *Manager) every(ctx context.Context, pause time.Duration, task func(context.Context) error) error {
	for sleep.For(ctx, pause) {
		if err := task(ctx); err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			m.log.Warn("the manager's housekeeping failed", "error", err)
		}
	}
	return nil
}

func (m *Manager) sequence(ctx context.Context) error {
	n, err := m.store.Sequence(ctx)
	if n > 0 {
		m.at(ctx, PointStreamed, "", "")
		m.news.wake()
	}
	return err
}

func (m *Manager) expire(ctx context.Context) error {
	ended, err := m.store.Expire(ctx)
	for _, v := range ended {
		m.log.Info("a reservation expired", "chain", v.Chain, "signer", v.Signer, "nonce", v.Nonce)
		m.wakeHere(v.Chain)
	}
	return err
}

func (m *Manager) forget(ctx context.Context) error {
	now, err := m.store.Now(ctx)
	if err != nil {
		return err
	}
	for _, some := range []func(context.Context, int64, int) (int, error){m.store.Forget, m.store.Tidy} {
		for range 20 { // bounded work a turn
			n, err := some(ctx, now-m.c.Retention.Duration().Microseconds(), 500)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// own keeps an owner running for every lane of a chain that this process should own.
func (m *Manager) own(ctx context.Context, c Chain) error {
	running, wanted := map[string]*worker{}, map[string]time.Time{}
	var group sync.WaitGroup
	defer group.Wait()
	for {
		woken := m.owners[c.ID()].next()
		if err := m.shareLanes(ctx, c, running, wanted, &group); err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			m.log.Warn("the lanes of a chain cannot be shared out", "chain", c.ID(), "error", err)
		}
		select {
		case <-time.After(max(m.c.Poll.Duration(), m.c.Lease.Duration()/20)):
		case <-woken:
		case <-ctx.Done():
			return nil
		}
		if !sleep.For(ctx, 10*time.Millisecond) { // many wakes are one look
			return nil
		}
	}
}

// shareLanes starts workers for lanes that this process is the preferred owner of, and asks
// those of other lanes to hand over. wanted holds since when it wants lanes that it does not have.
func (m *Manager) shareLanes(ctx context.Context, c Chain, running map[string]*worker, wanted map[string]time.Time, group *sync.WaitGroup) error {
	lanes, err := m.store.Lanes(ctx, c.ID())
	if err != nil {
		return err
	}
	nodes, err := m.leases.Nodes(ctx)
	if err != nil {
		return err
	}
	// A ledger that is another one than before, such as a standby, may not know what this process has said.
	unsaid := func(l *Lane) bool { return m.key(l.Signer) != nil && !slices.Contains(l.Holders, m.leases.Instance()) }
	if slices.Contains(nodes, m.leases.Instance()) && slices.ContainsFunc(lanes, unsaid) {
		if err := m.hold(ctx); err != nil {
			return err
		}
	}
	for _, lane := range lanes {
		m.publish(lane)
		name := "txm:" + lane.Chain + ":" + lane.Signer
		preferred := lease.Preferred(name, among(lane, nodes))
		mine := preferred == m.leases.Instance()
		w := running[lane.Signer]
		if w != nil && w.finished() {
			delete(running, lane.Signer)
			w = nil
		}
		if lane.Idle() { // an account that nobody uses costs nothing, but for a moment in which its caller may come again
			if w == nil {
				delete(wanted, lane.Signer)
				continue
			}
			if w.idleSince.IsZero() {
				w.idleSince = time.Now()
			}
			if time.Since(w.idleSince) > m.idleAfter {
				w.handOver()
			}
		} else if w != nil {
			w.idleSince = time.Time{}
		}
		if w != nil || !mine {
			delete(wanted, lane.Signer)
		}
		switch {
		case w != nil && preferred != "" && !mine: // without a living process this one is as good as any, such as when its own sign of life is late
			w.handOver()
		case w == nil && mine:
			if wanted[lane.Signer].IsZero() {
				wanted[lane.Signer] = time.Now()
			}
			if lane.Owner != "" && lane.Owner != m.leases.Owner() && !m.leases.OwnerDead(lane.Owner) {
				continue
			}
			l, err := m.leases.Acquire(ctx, name)
			if errors.Is(err, lease.ErrHeld) {
				continue
			}
			if err != nil {
				return err
			}
			m.metrics.terms.Inc()
			m.metrics.leaseWait.Observe(time.Since(wanted[lane.Signer]).Seconds())
			delete(wanted, lane.Signer)
			running[lane.Signer] = m.start(ctx, c, lane.Signer, l, group)
		}
	}
	if len(running) == 0 {
		m.metrics.queueDepth.WithLabelValues(c.ID()).Set(0) // its owners tell
	}
	return nil
}

// among are the processes that may own a lane: those that have its key. What a key without one has signed is followed by any.
func among(lane *Lane, nodes []string) []string {
	var able []string
	for _, node := range nodes {
		if slices.Contains(lane.Holders, node) {
			able = append(able, node)
		}
	}
	if len(able) == 0 {
		return nodes
	}
	return able
}

func (m *Manager) publish(lane *Lane) {
	x := m.metrics
	x.pending.WithLabelValues(lane.Chain, lane.Signer).Set(float64(lane.Pending))
	age := time.Duration(0)
	if lane.Oldest > 0 {
		age = max(age, time.Since(time.UnixMicro(lane.Oldest)))
	}
	x.oldest.WithLabelValues(lane.Chain, lane.Signer).Set(age.Seconds())
	x.gap.WithLabelValues(lane.Chain, lane.Signer).Set(float64(lane.Gaps))
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	x.owned.WithLabelValues(lane.Chain, lane.Signer).Set(flag(lane.Owner != "" || lane.Idle())) // an idle account needs none
	if lane.Ours {                                                                              // others are their callers' business
		x.enabled.WithLabelValues(lane.Chain, lane.Signer).Set(flag(m.c.usable(lane, nil) == ""))
	}
	if lane.Balance != nil {
		balance, _ := lane.Balance.Float64()
		x.balance.WithLabelValues(lane.Chain, lane.Signer).Set(balance)
	}
}

func isRestored(err error) bool {
	_, restored := errors.AsType[*ledger.RestoredError](err)
	return restored
}
