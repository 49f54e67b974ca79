package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/relay/lifecycle"
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

	byMethod []methodUse // since the sample before
}

// methodUse is how much a method was called in some time: its calls, and the milliseconds under which half of them were, and 99 of 100.
type methodUse struct {
	name       string
	calls      float64
	half, slow float64
}

// spread is a histogram whose series are added up. Bounds are in milliseconds.
type spread struct {
	bounds, counts []float64
	all            float64
}

func (s *spread) add(family *dto.MetricFamily, millis float64) {
	for _, metric := range family.GetMetric() {
		s.addSeries(metric.GetHistogram(), millis)
	}
}

func (s *spread) addSeries(h *dto.Histogram, millis float64) {
	s.all += float64(h.GetSampleCount())
	for i, bucket := range h.GetBucket() {
		if i == len(s.counts) {
			s.counts, s.bounds = append(s.counts, 0), append(s.bounds, bucket.GetUpperBound()*millis)
		}
		s.counts[i] += float64(bucket.GetCumulativeCount())
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

// methodChart is what one method did in the same steps as the points: calls a second, and the slowest quantiles of a step.
type methodChart struct {
	Name  string     `json:"name"`
	Calls []float64  `json:"calls"`
	Half  []*float64 `json:"half"`
	Slow  []*float64 `json:"slow"`
}

// maxMethods is how many methods have a chart: those with the most calls.
const maxMethods = 5

// points are those of the last span, at most maxPoints of them, with the methods that were called most.
func (h *history) points(span time.Duration) ([]point, []*methodChart) {
	h.mu.Lock()
	samples := h.samples
	if wanted := int(span/historyEvery) + 1; len(samples) > wanted {
		samples = samples[len(samples)-wanted:]
	}
	step := max(1, (int(span/historyEvery)+maxPoints-1)/maxPoints)
	var picked []sample
	var steps [][]sample // what came after the picked one before, up to the picked one
	for i := (len(samples) - 1) % step; i >= 0 && i < len(samples); i += step {
		picked, steps = append(picked, samples[i]), append(steps, slices.Clone(samples[max(0, i-step+1):i+1]))
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
	return list, methodCharts(picked, steps)
}

func methodCharts(picked []sample, steps [][]sample) []*methodChart {
	charts, total := map[string]*methodChart{}, map[string]float64{}
	for i := 1; i < len(picked); i++ {
		seconds := max(picked[i].at.Sub(picked[i-1].at).Seconds(), 0.001)
		for _, s := range steps[i] {
			for _, use := range s.byMethod {
				chart := charts[use.name]
				if chart == nil {
					n := len(picked) - 1
					chart = &methodChart{Name: use.name, Calls: make([]float64, n), Half: make([]*float64, n), Slow: make([]*float64, n)}
					charts[use.name] = chart
				}
				total[use.name] += use.calls
				chart.Calls[i-1] += use.calls
				chart.Half[i-1], chart.Slow[i-1] = slower(chart.Half[i-1], use.half), slower(chart.Slow[i-1], use.slow)
			}
		}
		for _, chart := range charts {
			chart.Calls[i-1] /= seconds
		}
	}
	all := slices.AppendSeq([]*methodChart{}, maps.Values(charts))
	slices.SortFunc(all, func(a, b *methodChart) int {
		return cmp.Or(cmp.Compare(total[b.Name], total[a.Name]), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxMethods)]
}

func slower(one *float64, other float64) *float64 {
	if one != nil && *one > other {
		return one
	}
	return &other
}

// Run samples the metrics for the charts until ctx ends. A sample asks the upstreams, so who stops them waits for Run first.
func (c *Console) Run(ctx context.Context) error {
	tick := time.NewTicker(historyEvery)
	defer tick.Stop()
	before := map[string]*spread{}
	for {
		s, methods := c.sample()
		s.byMethod = used(before, methods)
		before = methods
		c.history.add(s)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

const milli = 1000 // milliseconds of a second

// used is what the methods did between two samples.
func used(before, now map[string]*spread) (all []methodUse) {
	for name, s := range now {
		var earlier spread
		if b := before[name]; b != nil {
			earlier = *b
		}
		if half, slow := s.quantile(earlier, 0.5), s.quantile(earlier, 0.99); half != nil {
			all = append(all, methodUse{name, s.all - earlier.all, *half, *slow})
		}
	}
	return all
}

// sample reads the metrics; methods has the calls of each method since the start.
func (c *Console) sample() (s sample, methods map[string]*spread) {
	s, methods = sample{at: time.Now()}, map[string]*spread{}
	families, _ := c.deps.Metrics.Gather() // what was gathered beside an error is good
	for _, f := range families {
		switch f.GetName() {
		case "rpc_relay_method_result", "rpc_relay_method_response", "rpc_websocket_message_duration_miliseconds":
			for _, m := range f.GetMetric() {
				s.methods.addSeries(m.GetHistogram(), 1)
				name := label(m, "method")
				if methods[name] == nil {
					methods[name] = new(spread)
				}
				methods[name].addSeries(m.GetHistogram(), 1)
			}
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
	return s, methods
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
		points, methods := c.history.points(span)
		respond(w, map[string]any{"points": points, "methods": methods})
		return
	}
	http.Error(w, "seconds: want a number from 4 to 3600", http.StatusBadRequest)
}

// maxSteps is how many steps one answer has; who wants more asks again.
const maxSteps = 1000

// followed is an answer to GET /ui/steps.
type followed struct {
	Steps []lifecycle.Entry `json:"steps"`
	Next  uint64            `json:"next"` // to go on with
	Now   int64             `json:"now"`  // milliseconds since the Unix epoch
}

// steps tells what happened to transactions from a number on: GET /ui/steps?from=17. Every transaction of every sender is in it,
// so that the page can draw lanes with transactions that have left them.
func (c *Console) steps(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseUint(r.FormValue("from"), 10, 64)
	if err != nil {
		http.Error(w, "from: want the number of a step, 0 for the oldest one that is kept", http.StatusBadRequest)
		return
	}
	list, next := c.deps.Steps.From(from, maxSteps)
	respond(w, followed{list, next, time.Now().UnixMilli()})
}

// mirrorOf answers GET /ui/mirror/{path} with what the development network's mirror node says to
// GET /api/v1/{path}. The host is always the same, whatever the request says.
func mirrorOf(node *url.URL) http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		path := "/api/v1/" + strings.TrimPrefix(r.In.URL.Path, "/ui/mirror/")
		r.Out.URL = &url.URL{Scheme: node.Scheme, Host: node.Host, Path: path, RawQuery: r.In.URL.RawQuery}
		r.Out.Host = node.Host
		r.Out.Header = http.Header{"Accept": {"application/json"}}
	}}
}
