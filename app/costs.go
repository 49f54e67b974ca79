package app

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
	"lockstep/mirror"
	"lockstep/submit"
)

// costs finds out what transactions cost, for the metrics and for the budget. Nobody waits for it. What does not
// fit in its queue, or is not known in time, is missed. In a burst many transactions are
// looked for with one request.
type costs struct {
	source costSource

	queue  chan charged
	lag    atomic.Int64 // the shortest time from a valid start to consensus in the newest batch, nanoseconds
	cost   *prometheus.HistogramVec
	gas    *prometheus.HistogramVec
	missed prometheus.Counter
}

// costSource knows what transactions cost. Those that it does not know yet are not in its answers.
type costSource interface {
	// charges tells what transactions of one payer took from it. If there are several, those that reached consensus
	// before from may be missing.
	charges(ctx context.Context, ids []hedera.TransactionID, from hedera.Timestamp) (map[hedera.TransactionID]charge, error)
	// gasUsed tells what gas Ethereum transactions used.
	gasUsed(ctx context.Context, charges map[hedera.TransactionID]charge) map[hedera.TransactionID]uint64
}

// charged is a transaction whose cost is to be found out.
type charged struct {
	id    hedera.TransactionID
	due   time.Time
	looks int
	told  func(fee hedera.Tinybar, known bool) // nil: the metrics are told
}

const (
	maxCharged  = 16_384
	maxTogether = 1000            // transactions that are looked for together: what a busy relay sends in a second
	costLookers = 4               // that ask at the same time
	costDelay   = 3 * time.Second // the mirror node shows a transaction some seconds after consensus
	costLooks   = 5               // each wait is twice the one before
	// looksTogether is how many looks for a transaction may be together with others. A list of a payer that
	// does much else may end before it: the last looks are for it alone.
	looksTogether = 3
	// lagVaries is by how much sooner than those of the batch before transactions may reach consensus and still be
	// found at the first look.
	lagVaries = time.Second
)

// costTimeout is for one look. Tests prolong it.
var costTimeout = 10 * time.Second

// The values of the labels, as the TypeScript relay has them.
const (
	modeTransaction = "TRANSACTION"
	modeQuery       = "QUERY"
	typeEthereum    = "EthereumTransaction"
)

func newCosts(source costSource) *costs {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"mode", "type", "status"})
		// A series that is there before anything happened makes rates right from the first transaction on.
		h.WithLabelValues(modeTransaction, typeEthereum, "SUCCESS")
		h.WithLabelValues(modeQuery, "", "SUCCESS")
		return h
	}
	return &costs{
		source: source, queue: make(chan charged, maxCharged),
		cost: histogram("rpc_relay_consensusnode_response", "Tinybars that the operator was charged for a transaction, by mode (TRANSACTION; QUERY stays 0, since no query is paid for), type and network status.",
			[]float64{1e5, 1e6, 2.5e6, 5e6, 1e7, 2.5e7, 5e7, 1e8, 2.5e8, 5e8, 1e9, 1e10}),
		gas: histogram("rpc_relay_consensusnode_gasfee", "Gas that a transaction used, by mode, type and network status.",
			[]float64{21_000, 50_000, 100_000, 250_000, 500_000, 1e6, 2.5e6, 5e6, 1e7, 1.5e7}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_costs_missed_total", Help: "Transactions whose cost is missing in the metrics rpc_relay_consensusnode_*: the mirror node did not tell it in time, or too many waited.",
		}),
	}
}

func (c *costs) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.cost, c.gas, c.missed}
}

// toldCharges returns what is told of transactions that were charged for: nobody if their costs are not wanted.
func (a *App) toldCharges() func(common.Hash, ...hedera.TransactionID) {
	if !a.cfg.Server.CostMetrics {
		return submit.TellNobody
	}
	return a.costs.add
}

// add queues transactions: an Ethereum transaction, or those of its file.
func (c *costs) add(_ common.Hash, ids ...hedera.TransactionID) {
	for _, id := range ids {
		c.enqueue(charged{id: id, due: time.Now().Add(costDelay)})
	}
}

// lookUp finds out what a transaction cost, and tells it, or that it is missed.
func (c *costs) lookUp(id hedera.TransactionID, told func(fee hedera.Tinybar, known bool)) {
	c.enqueue(charged{id: id, due: time.Now().Add(costDelay), told: told})
}

func (c *costs) enqueue(one charged) {
	select {
	case c.queue <- one:
	default:
		c.miss(one)
	}
}

func (c *costs) miss(one charged) {
	if one.told != nil {
		one.told(0, false)
	} else {
		c.missed.Inc()
	}
}

// run looks for costs until ctx ends.
func (c *costs) run(ctx context.Context) error {
	var lookers sync.WaitGroup
	for range costLookers {
		lookers.Go(func() {
			for ctx.Err() == nil {
				c.askCosts(ctx, c.gather(ctx))
			}
		})
	}
	lookers.Wait()
	return nil
}

// gather waits until there is a transaction that is due, and takes with it those that may be looked for together
// with it. If ctx ends, there are none.
func (c *costs) gather(ctx context.Context) []charged {
	var first charged
	select {
	case <-ctx.Done():
		return nil
	case first = <-c.queue:
	}
	if !sleep.For(ctx, time.Until(first.due)) {
		return nil
	}
	batch := []charged{first}
	for len(batch) < maxTogether {
		select {
		case one := <-c.queue:
			if !first.together(one) {
				c.enqueue(one)
				return batch
			}
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

// together tells whether two transactions may be looked for with one request.
func (one charged) together(other charged) bool {
	return one.id.Payer == other.id.Payer && one.looks == other.looks && one.looks < looksTogether
}

// askCosts waits until all of some transactions are due and asks for their costs.
func (c *costs) askCosts(ctx context.Context, batch []charged) {
	wanted := make(map[hedera.TransactionID]bool, len(batch))
	for _, one := range batch {
		if !sleep.For(ctx, time.Until(one.due)) {
			return
		}
		wanted[one.id] = true
	}
	if len(wanted) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, costTimeout)
	defer cancel()
	ids := slices.Collect(maps.Keys(wanted))
	known, err := c.source.charges(ctx, ids, c.from(ids, batch[0].looks))
	if err != nil {
		known = nil
	}
	c.learn(known)
	counted := make(map[hedera.TransactionID]charge, len(known))
	for _, one := range batch {
		switch found, ok := known[one.id]; {
		case !ok:
			c.later(one)
		case one.told != nil:
			one.told(found.fee, true)
		default:
			counted[one.id] = found
		}
	}
	gas := c.source.gasUsed(ctx, counted)
	for id, one := range counted {
		kind := typeOf(one.own.Name)
		c.cost.WithLabelValues(modeTransaction, kind, one.own.Result).Observe(float64(one.fee))
		if used, ok := gas[id]; ok {
			c.gas.WithLabelValues(modeTransaction, kind, one.own.Result).Observe(float64(used))
		}
	}
}

// from returns from when on transactions are looked for. Valid starts lie some seconds before consensus, and in those a
// busy operator has thousands of other transactions, which the first look leaves out.
func (c *costs) from(ids []hedera.TransactionID, looks int) hedera.Timestamp {
	from := slices.MinFunc(ids, func(a, b hedera.TransactionID) int { return a.ValidStart.Compare(b.ValidStart) }).ValidStart
	if lag := c.lag.Load() - int64(lagVaries); looks == 0 && lag > 0 {
		from = hedera.FromNanos(from.UnixNano() + lag)
	}
	return from
}

// learn notes how long after their valid starts transactions reached consensus.
func (c *costs) learn(known map[hedera.TransactionID]charge) {
	lag := int64(math.MaxInt64)
	for id, one := range known {
		lag = min(lag, one.own.Timestamp.UnixNano()-id.ValidStart.UnixNano())
	}
	if len(known) > 0 {
		c.lag.Store(lag)
	}
}

// later queues a transaction again that the mirror node does not show yet.
func (c *costs) later(one charged) {
	if one.looks++; one.looks == costLooks {
		c.miss(one)
		return
	}
	one.due = time.Now().Add(costDelay << one.looks)
	c.enqueue(one)
}

// typeOf is what the TypeScript relay calls a type of transaction.
func typeOf(name string) string {
	switch name {
	case "ETHEREUMTRANSACTION":
		return typeEthereum
	case "FILECREATE":
		return "FileCreateTransaction"
	case "FILEAPPEND":
		return "FileAppendTransaction"
	case "FILEDELETE":
		return "FileDeleteTransaction"
	}
	return "other"
}

// mirrorCosts asks the mirror node. Its answers are for the metrics alone: they are kept nowhere, so that a
// transaction costs Redis nothing for them.
type mirrorCosts struct{ a *App }

// tooMany is how many records of a list are looked at for some transactions. What comes behind them is asked for by id.
func tooMany(transactions int) int { return 100 + 10*transactions }

func (m mirrorCosts) charges(ctx context.Context, ids []hedera.TransactionID, from hedera.Timestamp) (map[hedera.TransactionID]charge, error) {
	known := make(map[hedera.TransactionID]charge, len(ids))
	if len(ids) == 1 {
		c, err := m.a.charge(ctx, ids[0])
		if c.own != nil {
			known[ids[0]] = c
		}
		return known, err
	}
	byName := make(map[string]hedera.TransactionID, len(ids))
	for _, id := range ids {
		byName[id.Mirror()] = id
	}
	records := 0
	for r, err := range m.a.mirror.TransactionsOf(ctx, ids[0].Payer, from) {
		if err != nil {
			return nil, err
		}
		id, ours := byName[r.ID]
		if records++; records > tooMany(len(ids)) || !ours && len(known) == len(ids) {
			break
		}
		if ours {
			c := known[id]
			c.add(id, r)
			known[id] = c
		}
	}
	// Without its own record a transaction is not known.
	maps.DeleteFunc(known, func(_ hedera.TransactionID, c charge) bool { return c.own == nil })
	return known, nil
}

func (m mirrorCosts) gasUsed(ctx context.Context, charges map[hedera.TransactionID]charge) map[hedera.TransactionID]uint64 {
	byTime, used := make(map[hedera.Timestamp]hedera.TransactionID, len(charges)), make(map[hedera.TransactionID]uint64, len(charges))
	for id, c := range charges {
		if typeOf(c.own.Name) == typeEthereum {
			byTime[c.own.Timestamp] = id
		}
	}
	if len(byTime) > 1 {
		times := slices.SortedFunc(maps.Keys(byTime), hedera.Timestamp.Compare)
		records := 0
		for r, err := range m.a.mirror.ContractResults(ctx, mirror.ResultsQuery{Period: mirror.Period{From: times[0], To: times[len(times)-1]}}) {
			if err != nil {
				return used
			}
			if records++; records > tooMany(len(charges)) {
				break
			}
			if id, ok := byTime[r.Timestamp]; ok {
				used[id] = r.GasUsed
				delete(byTime, r.Timestamp)
			}
		}
	}
	for _, id := range byTime {
		if r, err := m.a.mirror.ContractResultByID(ctx, id); err == nil {
			used[id] = r.GasUsed
		}
	}
	return used
}
