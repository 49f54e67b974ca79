package webhooks

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	deliveries *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "txm_webhook_deliveries_total",
		Help: "Attempts to deliver a webhook: delivered, failed (tried again), refused (a private address; tried again), dead (given up).",
	}, []string{"result"})}
	// Each has a series from the start: Prometheus does not see that a counter grew if its series begins with 1.
	for _, result := range []string{"delivered", "failed", "refused", "dead"} {
		m.deliveries.WithLabelValues(result)
	}
	return m
}

// Collectors are the metrics of this package, for a registry.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.deliveries}
}
