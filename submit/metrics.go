package submit

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	executions prometheus.Counter
	outcomes   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	wrongNonce *prometheus.CounterVec
	inProgress prometheus.GaugeFunc
	filesLeft  prometheus.Counter
}

func newMetrics(inProgress func() int) *metrics {
	return &metrics{
		executions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpc_relay_eth_executions", ConstLabels: prometheus.Labels{"method": "eth_sendRawTransaction"},
			Help: "Transactions handed to the consensus client.",
		}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_tx_outcomes_total", Help: "Raw transactions by final outcome and network status.",
		}, []string{"outcome", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rpc_relay_tx_seconds", Help: "Time from arrival to the final outcome.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"outcome"}),
		wrongNonce: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_wrong_nonce_errors_total", Help: "Transactions that reached consensus with a nonce that was not next.",
		}, []string{"strategy"}),
		inProgress: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_relay_tx_in_progress", Help: "Transactions between arrival and verdict, queued ones included.",
		}, func() float64 { return float64(inProgress()) }),
		filesLeft: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rpc_relay_files_left_total", Help: "Files with call data that could not be deleted after their transaction.",
		}),
	}
}

// Collectors returns the metrics for registration.
func (s *Submitter) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.executions, m.outcomes, m.seconds, m.wrongNonce, m.inProgress, m.filesLeft}
}

// record counts and logs the final verdict of a transaction: one line each, and
// never its bytes.
func (s *Submitter) record(e *Entry, v verdict) {
	status := "none"
	if v.hasStatus {
		status = v.status.String()
	}
	took := time.Since(e.arrived)
	s.metrics.outcomes.WithLabelValues(v.outcome.String(), status).Inc()
	s.metrics.seconds.WithLabelValues(v.outcome.String()).Observe(took.Seconds())
	attrs := []slog.Attr{
		slog.String("outcome", v.outcome.String()),
		slog.String("hash", e.tx.Hash().Hex()),
		slog.String("sender", e.tx.From().Hex()),
		slog.Uint64("nonce", e.tx.Nonce()),
		slog.Duration("took", took),
	}
	if v.hasStatus {
		attrs = append(attrs, slog.String("status", status))
	}
	if !v.transaction.IsZero() {
		attrs = append(attrs, slog.String("transaction", v.transaction.String()), slog.String("node", v.node.String()))
	}
	if e.fence != 0 {
		attrs = append(attrs, slog.Uint64("fence", e.fence))
	}
	if v.err != nil {
		attrs = append(attrs, slog.String("error", v.err.Error()))
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "transaction", attrs...) //nolint:forbidigo // the request may be long over
}
