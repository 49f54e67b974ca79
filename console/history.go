package console

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// The history is what the charts of the page are made of: sampled every historyEvery for an hour, whether or not a page is open.
const (
	historyEvery  = 2 * time.Second
	historyLength = int(time.Hour/historyEvery) + 1
	// maxPoints is how many points one chart has.
	maxPoints = 120
)

// sample has the counters and histograms of one moment, as they stood since the start.
type sample struct {
	at                                      time.Time
	calls, failed, executed, refused, wrong float64
	wrongCost                               float64 // tinybars of transactions with a wrong nonce; 0 where nobody asks what they cost
	waiting, onWay                          float64 // gauges
	methods, txs, mirror, nodes             spread
}

// spread is a histogram whose series are added up. Bounds are in milliseconds.
type spread struct {
	bounds, counts []float64
	all            float64
}

func (s *spread) add(family *dto.MetricFamily, millis float64) {
	for _, metric := range family.GetMetric() {
		h := metric.GetHistogram()
		s.all += float64(h.GetSampleCount())
		for i, bucket := range h.GetBucket() {
			if i == len(s.counts) {
				s.counts, s.bounds = append(s.counts, 0), append(s.bounds, bucket.GetUpperBound()*millis)
			}
			s.counts[i] += float64(bucket.GetCumulativeCount())
		}
	}
}

// quantile estimates a quantile of what came after an earlier spread, between the bounds of its bucket; nil if nothing came.
func (s *spread) quantile(earlier spread, q float64) *float64 {
	all := s.all - earlier.all
	if all <= 0 {
		return nil
	}
	low, before := 0.0, 0.0
	for i, count := range s.counts {
		if i < len(earlier.counts) {
			count -= earlier.counts[i]
		}
		if count >= q*all {
			if count > before {
				low += (s.bounds[i] - low) * (q*all - before) / (count - before)
			}
			return &low
		}
		low, before = s.bounds[i], count
	}
	return &low // at least the highest bound
}

// history is a ring of samples.
type history struct {
	mu      sync.Mutex
	samples []sample // guarded by mu; the oldest first
}

func (h *history) add(s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) == historyLength {
		h.samples = append(h.samples[:0], h.samples[1:]...)
	}
	h.samples = append(h.samples, s)
}

// point is what happened between two samples. Rates are per second, times in milliseconds; null is nothing to measure.
type point struct {
	At        int64       `json:"at"` // milliseconds since the Unix epoch
	Calls     float64     `json:"calls"`
	Failed    float64     `json:"failed"`
	Executed  float64     `json:"executed"`
	Refused   float64     `json:"refused"` // not sent, rejected, or unknown
	Wrong     float64     `json:"wrong"`   // in all: transactions whose nonce was not next
	WrongCost float64     `json:"wrongCost"`
	Waiting   float64     `json:"waiting"`
	OnWay     float64     `json:"onWay"`
	Methods   [2]*float64 `json:"methods"` // the time under which half of them were, and 99 of 100
	Txs       [2]*float64 `json:"txs"`
	Mirror    [2]*float64 `json:"mirror"`
	Nodes     [2]*float64 `json:"nodes"`
}

// points are those of the last span, at most maxPoints of them.
func (h *history) points(span time.Duration) []point {
	h.mu.Lock()
	samples := h.samples
	if wanted := int(span/historyEvery) + 1; len(samples) > wanted {
		samples = samples[len(samples)-wanted:]
	}
	step := max(1, (int(span/historyEvery)+maxPoints-1)/maxPoints)
	var picked []sample
	for i := (len(samples) - 1) % step; i >= 0 && i < len(samples); i += step {
		picked = append(picked, samples[i])
	}
	h.mu.Unlock()
	list := []point{}
	for i := 1; i < len(picked); i++ {
		a, b := &picked[i-1], &picked[i]
		seconds := max(b.at.Sub(a.at).Seconds(), 0.001)
		rate := func(from, to float64) float64 { return max(0, to-from) / seconds }
		pair := func(from, to spread) [2]*float64 {
			return [2]*float64{to.quantile(from, 0.5), to.quantile(from, 0.99)}
		}
		list = append(list, point{
			At: b.at.UnixMilli(), Calls: rate(a.calls, b.calls), Failed: rate(a.failed, b.failed), Executed: rate(a.executed, b.executed), Refused: rate(a.refused, b.refused),
			Wrong: b.wrong - a.wrong, WrongCost: b.wrongCost - a.wrongCost, Waiting: b.waiting, OnWay: b.onWay,
			Methods: pair(a.methods, b.methods), Txs: pair(a.txs, b.txs), Mirror: pair(a.mirror, b.mirror), Nodes: pair(a.nodes, b.nodes),
		})
	}
	return list
}

// Run samples the metrics for the charts until ctx ends.
func (c *Console) Run(ctx context.Context) {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	for {
		c.history.add(c.sample())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

const milli = 1000 // milliseconds of a second

func (c *Console) sample() sample {
	s := sample{at: time.Now()}
	families, _ := c.deps.Metrics.Gather() // what was gathered beside an error is good
	for _, f := range families {
		switch f.GetName() {
		case "rpc_relay_method_result", "rpc_relay_method_response", "rpc_websocket_message_duration_miliseconds":
			s.methods.add(f, 1)
		case "lockstep_rpc_errors_total":
			s.failed += sum(f, "", "")
		case "rpc_relay_tx_outcomes_total":
			s.executed = sum(f, "outcome", "executed") + sum(f, "outcome", "reverted")
			s.refused = sum(f, "", "") - s.executed
		case "rpc_relay_wrong_nonce_errors_total":
			s.wrong = sum(f, "", "")
		case "rpc_relay_consensusnode_response":
			s.wrongCost = sum(f, "status", "WRONG_NONCE")
		case "rpc_relay_lock_waiting_txns":
			s.waiting = sum(f, "", "")
		case "rpc_relay_tx_in_progress":
			s.onWay = sum(f, "", "")
		case "rpc_relay_tx_seconds":
			s.txs.add(f, milli)
		case "rpc_relay_mirror_response":
			s.mirror.add(f, 1)
		case "rpc_relay_consensus_submit_seconds":
			s.nodes.add(f, milli)
		}
	}
	s.calls = s.methods.all
	return s
}

// sum adds up the series with a label, or all.
func sum(f *dto.MetricFamily, name, value string) (all float64) {
	for _, m := range f.GetMetric() {
		if name == "" || label(m, name) == value {
			all += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return all
}

// showHistory answers GET /ui/history?seconds=60.
func (c *Console) showHistory(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.FormValue("seconds"))
	if span := time.Duration(seconds) * time.Second; err == nil && span >= 2*historyEvery && span <= time.Hour {
		respond(w, map[string]any{"points": c.history.points(span)})
		return
	}
	http.Error(w, "seconds: want a number from 4 to 3600", http.StatusBadRequest)
}
