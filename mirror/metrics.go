package mirror

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	response *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

func newMetrics() metrics {
	return metrics{
		response: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rpc_relay_mirror_response",
			Help:    "Time of mirror node requests in milliseconds, by path and HTTP status.",
			Buckets: []float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000},
		}, []string{"method", "statusCode"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_node_http_error_code_count",
			Help: "Mirror node requests that failed, by path and status; absence is no failure.",
		}, []string{"method", "statusCode"}),
	}
}

func (m *metrics) observe(label string, status int, err error, took time.Duration) {
	text := statusLabel(status, err)
	m.response.WithLabelValues(label, text).Observe(float64(took.Microseconds()) / 1000)
	if err != nil && err != ErrNotFound { //nolint:errorlint // made in this package, never wrapped
		m.errors.WithLabelValues(label, text).Inc()
	}
}

func (m *metrics) collectors(c *Client) []prometheus.Collector {
	gauge := func(kind string, size func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "rpc_relay_mirror_cache_entries",
			Help:        "Entries of the caches of what cannot change, by kind.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(size()) })
	}
	return []prometheus.Collector{
		m.response, m.errors,
		gauge("block", c.blocks.size), gauge("result", c.results.size),
		gauge("blockResults", c.lists.size), gauge("blockLogs", c.logs.size), gauge("alias", c.aliases.size),
	}
}
