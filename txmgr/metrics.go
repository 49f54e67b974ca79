package txmgr

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	intents         *prometheus.CounterVec
	stage           *prometheus.HistogramVec
	queueDepth      *prometheus.GaugeVec
	pending         *prometheus.GaugeVec
	oldest          *prometheus.GaugeVec
	balance         *prometheus.GaugeVec
	gap             *prometheus.GaugeVec
	drift           *prometheus.GaugeVec
	enabled         *prometheus.GaugeVec
	owned           *prometheus.GaugeVec
	sendErrors      *prometheus.CounterVec
	idempotencyHits prometheus.Counter
	terms           prometheus.Counter
	leaseWait       prometheus.Histogram
	invalidNonce    *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"chain", "signer"})
	}
	return &metrics{
		intents: counter("txm_intents_total", "Intents that this process accepted, or gave their final status.", "chain", "origin", "status"),
		stage: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "txm_stage_seconds", Help: "Time from the signature until a stage: broadcast, mined.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"stage"}),
		queueDepth: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "txm_queue_depth", Help: "Accepted intents that wait for a slot, as far as an owner looks ahead.",
		}, []string{"chain"}),
		pending:         gauge("txm_signer_pending", "Slots that are not consumed."),
		oldest:          gauge("txm_signer_oldest_pending_seconds", "How long the oldest slot that is not consumed has had its nonce; 0 if there is no such slot."),
		balance:         gauge("txm_signer_balance_wei", "The signer's balance."),
		gap:             gauge("txm_signer_nonce_gap", "Nonces without a transaction on its way, although later nonces were sent."),
		drift:           gauge("txm_signer_nonce_drift", "How far the chain's nonce was ahead of the ledger when it was last compared."),
		enabled:         gauge("txm_signer_enabled", "1 while the signer may get intents."),
		owned:           gauge("txm_signer_owned", "1 while a living process owns the signer."),
		sendErrors:      counter("txm_send_errors_total", "Answers to sent transactions that do not say that the transaction was taken.", "class"),
		idempotencyHits: prometheus.NewCounter(prometheus.CounterOpts{Name: "txm_idempotency_hits_total", Help: "Requests that were answered with an earlier one's intent."}),
		terms:           prometheus.NewCounter(prometheus.CounterOpts{Name: "txm_lease_terms_total", Help: "How often this process became the owner of a signer."}),
		leaseWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "txm_lease_wait_seconds", Help: "Time from a process's first attempt to own a signer until it has the lease.", Buckets: []float64{.01, .1, 1, 5, 10, 15, 30},
		}),
		invalidNonce: counter("txm_invalid_nonce_total", "Answers that say that the nonce was used already, or that an earlier nonce is missing.", "chain"),
	}
}

// Collectors returns what the program registers.
func (m *Manager) Collectors() []prometheus.Collector {
	x := m.metrics
	return []prometheus.Collector{
		x.intents, x.stage, x.queueDepth, x.pending, x.oldest, x.balance, x.gap, x.drift, x.enabled, x.owned,
		x.sendErrors, x.idempotencyHits, x.terms, x.leaseWait, x.invalidNonce,
	}
}
