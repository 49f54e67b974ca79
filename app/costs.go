package app

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// costs finds out what transactions cost, for the metrics. Nobody waits for it. What does not
// fit in its queue, or is not known in time, is counted as missed.
type costs struct {
	charge  func(context.Context, hedera.TransactionID) (hedera.Tinybar, *mirror.Transaction, error)
	gasUsed func(context.Context, hedera.TransactionID) (uint64, error)

	queue  chan charged
	cost   *prometheus.HistogramVec
	gas    *prometheus.HistogramVec
	missed prometheus.Counter
}

// charged is a transaction whose cost is to be found out.
type charged struct {
	id    hedera.TransactionID
	due   time.Time
	looks int
}

const (
	maxCharged  = 16_384
	costLookers = 4           // that ask at the same time
	costDelay   = time.Second // the mirror node shows a transaction some seconds after consensus
	costLooks   = 5           // each wait is twice the one before
)

// costTimeout is for one look. Tests prolong it.
var costTimeout = 10 * time.Second

// The values of the labels, as established relays have them.
const (
	modeTransaction = "TRANSACTION"
	modeQuery       = "QUERY"
	typeEthereum    = "EthereumTransaction"
)

func newCosts(charge func(context.Context, hedera.TransactionID) (hedera.Tinybar, *mirror.Transaction, error), gasUsed func(context.Context, hedera.TransactionID) (uint64, error)) *costs {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"mode", "type", "status"})
		// A series that is there before anything happened makes rates right from the first transaction on.
		h.WithLabelValues(modeTransaction, typeEthereum, "SUCCESS")
		h.WithLabelValues(modeQuery, "", "SUCCESS")
		return h
	}
	return &costs{
		charge: charge, gasUsed: gasUsed, queue: make(chan charged, maxCharged),
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

// toldCharges returns what is told of transactions that were charged for; nil if their costs
// are not wanted.
func (a *App) toldCharges() func(common.Hash, ...hedera.TransactionID) {
	if !a.cfg.Server.CostMetrics {
		return nil
	}
	return a.costs.add
}

// add queues transactions: an Ethereum transaction, or those of its file.
func (c *costs) add(_ common.Hash, ids ...hedera.TransactionID) {
	for _, id := range ids {
		c.enqueue(charged{id: id, due: time.Now().Add(costDelay)})
	}
}

func (c *costs) enqueue(one charged) {
	select {
	case c.queue <- one:
	default:
		c.missed.Inc()
	}
}

// run looks for costs until ctx ends.
func (c *costs) run(ctx context.Context) error {
	var lookers sync.WaitGroup
	for range costLookers {
		lookers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case one := <-c.queue:
					c.look(ctx, one)
				}
			}
		})
	}
	lookers.Wait()
	return nil
}

// look waits until a transaction is due and asks for its cost.
func (c *costs) look(ctx context.Context, one charged) {
	timer := time.NewTimer(time.Until(one.due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	ctx, cancel := context.WithTimeout(ctx, costTimeout)
	defer cancel()
	cost, own, err := c.charge(ctx, one.id)
	if err != nil || own == nil {
		if one.looks++; one.looks == costLooks {
			c.missed.Inc()
			return
		}
		one.due = time.Now().Add(costDelay << one.looks)
		c.enqueue(one)
		return
	}
	kind := typeOf(own.Name)
	c.cost.WithLabelValues(modeTransaction, kind, own.Result).Observe(float64(cost))
	if kind != typeEthereum {
		return
	}
	if gas, err := c.gasUsed(ctx, one.id); err == nil {
		c.gas.WithLabelValues(modeTransaction, kind, own.Result).Observe(float64(gas))
	}
}

// typeOf is what established relays call a type of transaction.
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

// gasUsed asks what gas a transaction used. The answer is for this metric alone: it is kept nowhere, so that
// a transaction costs Redis nothing for it.
func (a *App) gasUsed(ctx context.Context, id hedera.TransactionID) (uint64, error) {
	result, err := a.mirror.ContractResultByID(ctx, id)
	if err != nil {
		return 0, err
	}
	return result.GasUsed, nil
}
