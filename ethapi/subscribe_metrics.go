package ethapi

import "github.com/prometheus/client_golang/prometheus"

// subscriptionMetrics are the numbers of live subscriptions, not registered anywhere.
type subscriptionMetrics struct {
	streams       prometheus.Gauge
	headStreams   prometheus.Gauge
	subscriptions *prometheus.GaugeVec
	lifetime      prometheus.Histogram
	events        *prometheus.CounterVec
	notifications *prometheus.CounterVec
	failures      prometheus.Counter
	skipped       prometheus.Counter
	dropped       prometheus.Counter
	newest        prometheus.Gauge
}

func newSubscriptionMetrics() *subscriptionMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &subscriptionMetrics{
		streams:     gauge("rpc_websocket_active_polls", "Different sets of events with a subscription."),
		headStreams: gauge("rpc_websocket_active_newheads_polls", "Those of the active polls that are for new blocks."),
		subscriptions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rpc_websocket_active_subscriptions", Help: "Subscriptions of all connections.",
		}, []string{"tag"}),
		lifetime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rpc_websocket_subscription_times", Help: "Seconds a subscription lasted.",
			Buckets: []float64{.05, 1, 10, 60, 120, 300, 1200, 3600, 86400},
		}),
		events:        counters("rpc_websocket_poll_received_results", "Events found for subscriptions; an event counts once, also if several subscriptions got it.", "tag"),
		notifications: counters("rpc_websocket_notifications_total", "Notifications queued for clients.", "tag"),
		failures:      counter("rpc_websocket_watch_failures_total", "Failed attempts to read new blocks or their contents."),
		skipped:       counter("rpc_websocket_watch_skipped_blocks_total", "Blocks that subscribers were not told of, because they cannot be read."),
		dropped:       counter("rpc_websocket_pending_dropped_total", "Pending transactions that subscribers were not told of, because there were too many at once."),
		newest:        gauge("rpc_websocket_watch_block", "Newest block that subscribers were told of."),
	}
}

func (m *subscriptionMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.streams, m.headStreams, m.subscriptions, m.lifetime, m.events, m.notifications,
		m.failures, m.skipped, m.dropped, m.newest,
	}
}
