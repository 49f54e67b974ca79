package consensus

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
	"lockstep/internal/metric"
	"lockstep/internal/relay/telemetry"
)

// metrics are the client's own; Client.Collectors hands them out for registration.
type metrics struct {
	metric.Set
	errors   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	receipts *prometheus.HistogramVec
	healthy  *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{}
	m.errors = m.Counters("rpc_relay_consensus_node_errors_total", "Submissions that ended in an error, by HAPI status; UNKNOWN where there is none.", "status_name")
	m.attempts = m.Counters("rpc_relay_consensus_attempts_total", "Offers of a transaction to a node, by result: accepted, refused, unsent, unclear.", "result")
	m.seconds = m.Histograms("rpc_relay_consensus_submit_seconds", "Time from the start of a submission to its end over all attempts.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "result")
	m.receipts = m.Histograms("rpc_relay_consensus_receipt_seconds", "Time from a node's acceptance to the receipt.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 4, 5, 7.5, 10, 20, 30, 60, 120}, "result")
	m.healthy = m.Gauges("rpc_relay_consensus_node_healthy",
		"1 for a node that is chosen freely, 0 for one that is not used because it failed. Only a transaction shows that: without transactions it stays 1, and in a relay lockstep_upstream_up tells whether any node takes a connection and is active.", "node")
	return m
}

// The values of the result labels.
const (
	resultAccepted = "accepted"
	resultRefused  = "refused"
	resultUnsent   = "unsent"
	resultUnclear  = "unclear"
	resultFound    = "found"
	resultNotFound = "not_found"
)

func (m *metrics) submitted(ctx context.Context, result string, status hedera.Status, since time.Time) {
	telemetry.Observe(ctx, m.seconds.WithLabelValues(result), time.Since(since).Seconds())
	if result != resultAccepted {
		m.errors.WithLabelValues(status.String()).Inc()
	}
}

// Collectors returns the client's metrics, registered nowhere.
func (c *Client) Collectors() []prometheus.Collector { return c.metrics.Collectors() }
