package capacity

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	used    prometheus.GaugeFunc
	clients prometheus.GaugeFunc
	refused *prometheus.CounterVec
}

func newMetrics(m *Memory) *metrics {
	return &metrics{
		used: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_relay_request_memory_bytes", Help: "Bytes that all requests hold.",
		}, func() float64 { return float64(m.Used()) }),
		clients: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_relay_request_memory_clients", Help: "Clients whose requests hold more than a few kilobytes.",
		}, func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return float64(len(m.clients))
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_budget_refusals_total", Help: "Refusals because a request, a client or all of them together took too much memory or processor time, by the limit that was reached.",
		}, []string{"scope"}),
	}
}

// Collectors returns everything there is to register.
func (m *Memory) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.metrics.used, m.metrics.clients, m.metrics.refused}
}
