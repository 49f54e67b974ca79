package fetch

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/relay/telemetry"
)

type metrics struct {
	response *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	repeated *prometheus.CounterVec
	waited   *prometheus.CounterVec
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
			Help: "Mirror node requests that failed, by path and status; the answer that something does not exist is no failure.",
		}, []string{"method", "statusCode"}),
		repeated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_repeated_requests_total",
			Help: "Mirror node requests that were made again: after a failure of the same mirror node (retry) or of another one (failover), or because no answer came in time (hedge); and those that the budget forbade (denied).",
		}, []string{"kind"}),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_waiting_requests_total",
			Help: "Mirror node requests that waited because MIRROR_NODE_HTTP_MAX_SOCKETS were under way, by class: read, or send for the submission of transactions and probes.",
		}, []string{"class"}),
	}
}

func (m *metrics) observe(ctx context.Context, label string, status int, err error, took time.Duration) {
	text := statusLabel(status, err)
	telemetry.Observe(ctx, m.response.WithLabelValues(label, text), float64(took.Microseconds())/1000)
	if err != nil && err != ErrNotFound { //nolint:errorlint // made in this package, never wrapped
		m.errors.WithLabelValues(label, text).Inc()
	}
}

// Collectors returns the metrics, for registration.
func (f *Fetcher) Collectors() []prometheus.Collector {
	return []prometheus.Collector{f.metrics.response, f.metrics.errors, f.metrics.repeated, f.metrics.waited, upstreamMetrics{f}}
}

// upstreamMetrics shows the mirror nodes as they are when somebody looks.
type upstreamMetrics struct{ f *Fetcher }

var (
	stateDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_state",
		"Whether a mirror node's interface (rest, web3) is asked: 0 yes, 1 it is being tried again, 2 not for now.", []string{"upstream", "service"}, nil)
	headDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_head",
		"The highest block that a mirror node is known to have.", []string{"upstream"}, nil)
	lagDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_lag_blocks",
		"How many blocks a mirror node is behind the mirror node with the newest block.", []string{"upstream"}, nil)
)

// Describe implements prometheus.Collector.
func (upstreamMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- stateDesc
	out <- headDesc
	out <- lagDesc
}

// Collect implements prometheus.Collector.
func (m upstreamMetrics) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	var best uint64
	for _, u := range m.f.upstreams {
		best = max(best, u.head.Load())
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, u := range m.f.upstreams {
		head := u.head.Load()
		gauge(stateDesc, float64(u.rest.state(now)), u.name, REST.String())
		gauge(stateDesc, float64(u.web3.state(now)), u.name, Web3.String())
		gauge(headDesc, float64(head), u.name)
		gauge(lagDesc, float64(max(best, head)-head), u.name)
	}
}
