package hederachain

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/operator"
)

const (
	operatorEvery   = time.Minute // how often the operator is looked at
	operatorTimeout = 5 * time.Second
)

var (
	operatorOK = prometheus.NewDesc("txm_operator_ok",
		"1 if the chain's operator exists and has the configured key, 0 if not, as the last look found it that could tell, once a minute. No series: none could.", nil, nil)
	operatorBalance = prometheus.NewDesc("txm_operator_balance_tinybars",
		"Tinybars of the chain's operator, as a consensus node told them within the last minutes, or else the mirror node. No series: neither could tell.", []string{"accountId"}, nil)
)

// operatorWatch looks at the operator at the start and from then on, tells the log of changes, and keeps what was found.
type operatorWatch struct {
	look  func(context.Context) (operator.Finding, bool)
	chain string
	log   *slog.Logger

	mu      sync.Mutex
	last    operator.Finding // guarded by mu: the last one
	looked  bool             // guarded by mu: there is a last one
	fits    bool             // guarded by mu: by the last finding that could tell
	known   bool             // guarded by mu: a finding could tell
	trouble string           // guarded by mu: of the last finding that could tell; "" if nothing is wrong
}

func (w *operatorWatch) run(ctx context.Context) error {
	ticker := time.NewTicker(operatorEvery)
	defer ticker.Stop()
	for {
		if f, ok := w.look(ctx); ok && ctx.Err() == nil {
			w.note(f)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note keeps a finding. While nobody answers, what was wrong stays wrong: an outage mends no key.
func (w *operatorWatch) note(f operator.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, first := w.trouble, !w.looked
	w.last, w.looked = f, true
	fits, known := f.Fits()
	if known {
		w.fits, w.known = fits, true
	}
	if wrong := w.known && !w.fits; known || !wrong && (f.BalanceKnown || f.Trouble() != "") {
		w.trouble = f.Trouble()
	}
	log := w.log.With("chain", w.chain, "operator", f.ID.String())
	switch {
	case w.trouble != before && w.trouble != "":
		log.Error("the network refuses what the manager sends: its operator cannot pay", "cause", w.trouble)
	case w.trouble != before:
		log.Info("the operator can pay again")
	case first && w.trouble == "" && w.known:
		log.Info("the operator exists and has the configured key", "balance_tinybars", int64(f.Balance), "balance_known", f.BalanceKnown)
	case first && w.trouble == "":
		log.Warn("it is not known whether the operator has the configured key", "mirror_error", f.MirrorErr, "node_error", f.NodeErr)
	}
}

// Trouble says why the network refuses what is sent; "" if nothing is known to be wrong.
func (w *operatorWatch) Trouble() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Describe implements prometheus.Collector.
func (w *operatorWatch) Describe(out chan<- *prometheus.Desc) {
	out <- operatorOK
	out <- operatorBalance
}

// Collect implements prometheus.Collector.
func (w *operatorWatch) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known {
		value := 0.0
		if w.fits {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(operatorOK, prometheus.GaugeValue, value)
	}
	if w.last.BalanceKnown {
		out <- prometheus.MustNewConstMetric(operatorBalance, prometheus.GaugeValue, float64(w.last.Balance), w.last.ID.String())
	}
}
