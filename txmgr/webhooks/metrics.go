package webhooks

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	deliveries *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "txm_webhook_deliveries_total",
		Help: "Attempts to deliver a webhook: delivered, failed (tried again), refused (a private address; tried again), dead (given up).",
	}, []string{"result"})}
}

// Collectors are the metrics of this package, for a registry.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.deliveries}
}
