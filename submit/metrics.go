package submit

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/telemetry"
)

type metrics struct {
	executions prometheus.Counter
	stale      prometheus.Counter
	outcomes   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	wrongNonce *prometheus.CounterVec
	recovered  *prometheus.CounterVec
	inProgress prometheus.GaugeFunc
	filesLeft  prometheus.Counter
}

func newMetrics(inProgress func() int) *metrics {
	return &metrics{
		stale: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_submissions_with_stale_facts_total", Help: "Transactions that were sent with what was known before the mirror node stopped answering, since they were certainly next.",
		}),
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
		recovered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockstep_tx_recovered_total", Help: "Times that a transaction was certainly not executed and went back to its sender's line.",
		}, []string{"reason"}),
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
	return []prometheus.Collector{m.executions, m.stale, m.outcomes, m.seconds, m.wrongNonce, m.recovered, m.inProgress, m.filesLeft}
}

// logResult counts and logs the final result of a transaction: one line each, and
// never its bytes.
func (s *Submitter) logResult(e *Entry, r Result) {
	status := r.status("none")
	took := time.Since(e.arrived)
	s.metrics.outcomes.WithLabelValues(r.Outcome.String(), status).Inc()
	telemetry.ObserveIn(e.traceID, s.metrics.seconds.WithLabelValues(r.Outcome.String()), took.Seconds())
	attrs := []slog.Attr{
		slog.String("outcome", r.Outcome.String()),
		slog.String("hash", e.tx.Hash().Hex()),
		slog.Any("sender", e.tx.From()), // spelt as in all other lines, without capitals
		slog.Uint64("nonce", e.tx.Nonce()),
		slog.Uint64("gas", e.tx.Gas()),
		slog.Duration("took", took),
	}
	if e.asker.ID != "" {
		attrs = append(attrs, slog.String("request_id", e.asker.ID))
	}
	if e.asker.Client != "" {
		attrs = append(attrs, slog.String("client", e.asker.Client))
	}
	if r.Status != 0 {
		attrs = append(attrs, slog.String("status", status))
	}
	if !r.TransactionID.IsZero() {
		attrs = append(attrs, slog.String("transaction", r.TransactionID.String()), slog.String("node", r.Node.String()))
	}
	if e.fence != 0 {
		attrs = append(attrs, slog.Uint64("fence", e.fence))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("reason", r.Err.Error()))
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "transaction", attrs...) //nolint:forbidigo // the request may be long over
}
