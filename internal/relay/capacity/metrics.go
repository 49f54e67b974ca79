package capacity

import (
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/metric"
)

type metrics struct {
	metric.Set
	refused *prometheus.CounterVec
}

func newMetrics(memory *Memory) *metrics {
	m := &metrics{}
	m.Asked("rpc_relay_request_memory_bytes", "Bytes that all requests hold.", func() float64 { return float64(memory.Used()) })
	m.Asked("rpc_relay_request_memory_clients", "Clients whose requests hold more than a few kilobytes.", func() float64 {
		memory.mu.Lock()
		defer memory.mu.Unlock()
		return float64(len(memory.clients))
	})
	m.refused = m.Counters("rpc_relay_budget_refusals_total", "Refusals because a request, a client or all of them together took too much memory or processor time, by the limit that was reached.", "scope")
	return m
}

// Collectors returns everything there is to register.
func (m *Memory) Collectors() []prometheus.Collector { return m.metrics.Collectors() }
