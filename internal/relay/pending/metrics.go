package pending

import "github.com/prometheus/client_golang/prometheus"

// metrics belongs to one Pool. The names without "lockstep" are relied upon by
// dashboards of the TypeScript relay.
type metrics struct {
	added, removed, full prometheus.Counter
	errors               *prometheus.CounterVec

	collectors []prometheus.Collector
}

// The operations of rpc_relay_txpool_storage_errors_total.
const (
	opAdd    = "add"
	opRemove = "remove"
	opGet    = "get"
)

func newMetrics(p *Pool) *metrics {
	operations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpc_relay_txpool_operations_total", Help: "Transactions that were added to the pool and removed from it.",
	}, []string{"operation"})
	m := &metrics{
		added: operations.WithLabelValues(opAdd), removed: operations.WithLabelValues(opRemove),
		full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_txpool_full_total", Help: "Transactions that were submitted without a place in the pool, which was full.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_txpool_storage_errors_total", Help: "Calls of the pool to Redis that failed.",
		}, []string{"operation", "backend"}),
	}
	m.collectors = []prometheus.Collector{
		operations, m.full, m.errors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_relay_txpool_pending_count", Help: "Transactions of this process that are on their way; add the processes of a fleet.",
		}, func() float64 { return float64(p.ownCount()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_relay_txpool_active_addresses", Help: "Senders with transactions of this process that are on their way; a sender that uses several relays counts at each of them.",
		}, func() float64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return float64(p.table.active())
		}),
	}
	return m
}

func (m *metrics) failed(operation string) { m.errors.WithLabelValues(operation, "redis").Inc() }
