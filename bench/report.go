package bench

import (
	"math"
	"math/big"
	"slices"
	"time"
)

// A Report is the result of Run.
type Report struct {
	Started time.Time `json:"started"`
	Load    LoadShape `json:"load"`
	// Partial tells that Run was stopped before the end; the last run of a target may
	// then be partial too.
	Partial bool           `json:"partial"`
	Targets []TargetReport `json:"targets"`
	// Ratios compare the first target with the second, over the runs both have completed.
	Ratios []Ratio `json:"ratios,omitempty"`
}

// LoadShape repeats what was asked for.
type LoadShape struct {
	Senders       int     `json:"senders"`
	Count         int     `json:"count"`
	SpacingMS     float64 `json:"spacing_ms"`
	Batch         int     `json:"batch"`
	Sticky        bool    `json:"sticky"`
	ShuffleWindow int     `json:"shuffle_window"`
	Runs          int     `json:"runs"`
	Seed          string  `json:"seed"`
}

// A TargetReport is everything about one target.
type TargetReport struct {
	Name    string      `json:"name"`
	Hosts   []string    `json:"hosts"`
	ChainID *big.Int    `json:"chain_id"`
	Runs    []RunReport `json:"runs"`
	// Summary is over the completed runs.
	Summary []Figure `json:"summary"`
}

// A RunReport is one run of one target. Counts are transactions, rates transactions
// per second.
type RunReport struct {
	Partial bool `json:"partial,omitempty"`
	Planned int  `json:"planned"`
	Sent    int  `json:"sent"`
	// Sent = Accepted + Refused + Unanswered: answered with the hash, with an error, or
	// with nothing that could be used.
	Accepted   int `json:"accepted"`
	Refused    int `json:"refused"`
	Unanswered int `json:"unanswered"`

	// OfferedTPS is how fast the load left: from the first to the last send.
	OfferedTPS float64 `json:"offered_tps"`
	// AnsweredTPS counts acceptances and errors, AcceptedTPS only the former; both from
	// the start of the run to the last of what they count.
	AnsweredTPS float64 `json:"answered_tps"`
	AcceptedTPS float64 `json:"accepted_tps"`

	// Latency is of acceptances, from the write of the request to the end of the answer.
	Latency *Histogram `json:"latency"`
	// RefusalLatency is of errors.
	RefusalLatency *Histogram `json:"refusal_latency"`
	// Lag is of requests behind their schedule: the generator, or its connections, could
	// not keep up. Latency does not contain it.
	Lag *Histogram `json:"lag"`

	Errors []ErrorClass `json:"errors,omitempty"`
	// Chain is nil if the chain could not be asked; ChainError says why.
	Chain      *Chain `json:"chain,omitempty"`
	ChainError string `json:"chain_error,omitempty"`
}

// Clean tells whether everything planned was accepted and executed once, in order.
func (r RunReport) Clean() bool {
	c := r.Chain
	return !r.Partial && c != nil && r.Accepted == r.Planned && c.Executed == r.Planned &&
		c.OutOfOrder == 0 && c.WrongNonce == 0 && c.Lost == 0 && c.Duplicated == 0
}

// Clean tells whether every run of every target was clean.
func (r Report) Clean() bool {
	for _, t := range r.Targets {
		for _, run := range t.Runs {
			if !run.Clean() {
				return false
			}
		}
	}
	return !r.Partial
}

// A Figure is one number over several runs.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit,omitempty"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// A Ratio is a figure of the first target divided by that of the second, pair of runs
// by pair of runs.
type Ratio struct {
	Name   string  `json:"name"`
	Better string  `json:"better"` // "higher" or "lower"
	Pairs  int     `json:"pairs"`  // in which the divisor was not zero
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// measure is a number that a run has.
type measure struct {
	name, unit string
	better     string                  // "" if a ratio says nothing
	of         func(RunReport) float64 // NaN if the run does not have it
}

// measures lists what reports are made of, in the order of printing.
func measures() []measure {
	quantile := func(q float64) func(RunReport) float64 {
		return func(r RunReport) float64 { return millis(r.Latency.Quantile(q)) }
	}
	chain := func(count func(*Chain) int) func(RunReport) float64 {
		return func(r RunReport) float64 {
			if r.Chain == nil {
				return math.NaN()
			}
			return float64(count(r.Chain))
		}
	}
	refused := func(count func(*Chain) int) func(RunReport) float64 {
		return func(r RunReport) float64 {
			if r.Chain == nil || !r.Chain.tells(count(r.Chain)) {
				return math.NaN()
			}
			return float64(count(r.Chain))
		}
	}
	return []measure{
		{"offered rate", "tx/s", "", func(r RunReport) float64 { return r.OfferedTPS }},
		{"answered rate", "tx/s", "higher", func(r RunReport) float64 { return r.AnsweredTPS }},
		{"accepted rate", "tx/s", "higher", func(r RunReport) float64 { return r.AcceptedTPS }},
		{"latency p50", "ms", "lower", quantile(.5)},
		{"latency p90", "ms", "lower", quantile(.9)},
		{"latency p99", "ms", "lower", quantile(.99)},
		{"latency max", "ms", "lower", quantile(1)},
		{"schedule lag p99", "ms", "", func(r RunReport) float64 { return millis(r.Lag.Quantile(.99)) }},
		{"sent", "tx", "", func(r RunReport) float64 { return float64(r.Sent) }},
		{"accepted", "tx", "", func(r RunReport) float64 { return float64(r.Accepted) }},
		{"refused", "tx", "", func(r RunReport) float64 { return float64(r.Refused) }},
		{"unanswered", "tx", "", func(r RunReport) float64 { return float64(r.Unanswered) }},
		{"executed", "tx", "higher", chain(func(c *Chain) int { return c.Executed })},
		{"executed, unconfirmed", "tx", "", chain(func(c *Chain) int { return c.ExecutedUnconfirmed })},
		{"out of order", "tx", "", refused(func(c *Chain) int { return c.OutOfOrder })},
		{"wrong nonce", "tx", "", chain(func(c *Chain) int { return c.WrongNonce })},
		{"wrong nonce at consensus", "", "", refused(func(c *Chain) int { return c.WrongNonceAtConsensus })},
		{"lost", "tx", "", chain(func(c *Chain) int { return c.Lost })},
		{"duplicated", "", "", chain(func(c *Chain) int { return c.Duplicated })},
	}
}

// completed leaves out what was cut short.
func completed(runs []RunReport) []RunReport {
	return slices.DeleteFunc(slices.Clone(runs), func(r RunReport) bool { return r.Partial })
}

// summarise makes the figures of the completed runs; chain figures only of those whose
// chain could be asked.
func summarise(runs []RunReport) []Figure {
	runs = completed(runs)
	if len(runs) == 0 {
		return nil
	}
	var figures []Figure
	for _, m := range measures() {
		var values []float64
		for _, r := range runs {
			if value := m.of(r); !math.IsNaN(value) {
				values = append(values, value)
			}
		}
		if len(values) == 0 {
			continue
		}
		f := Figure{Name: m.name, Unit: m.unit}
		f.Median, f.Min, f.Max = spread(values)
		figures = append(figures, f)
	}
	return figures
}

// compare divides the figures of a by those of b, pair by pair.
func compare(a, b []RunReport) []Ratio {
	var ratios []Ratio
	for _, m := range measures() {
		if m.better == "" {
			continue
		}
		var values []float64
		for i := range min(len(a), len(b)) {
			x, y := m.of(a[i]), m.of(b[i])
			unmeasured := m.better == "lower" && x == 0 // a latency of nothing
			if a[i].Partial || b[i].Partial || y == 0 || unmeasured || math.IsNaN(x) || math.IsNaN(y) {
				continue
			}
			values = append(values, x/y)
		}
		r := Ratio{Name: m.name, Better: m.better, Pairs: len(values)}
		r.Median, r.Min, r.Max = spread(values)
		ratios = append(ratios, r)
	}
	return ratios
}

// spread returns zeros for no values.
func spread(values []float64) (median, low, high float64) {
	n := len(values)
	if n == 0 {
		return 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(values))
	median = sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return median, sorted[0], sorted[n-1]
}

// runReport turns measurements into a report.
func runReport(l *load, txs []transfer) RunReport {
	r := RunReport{
		Planned: len(txs), Sent: l.sent,
		Latency: &l.accepted, RefusalLatency: &l.refused, Lag: &l.lag,
		Errors: l.errorClasses(),
	}
	for i := range txs {
		switch txs[i].verdict {
		case accepted:
			r.Accepted++
		case refused:
			r.Refused++
		case garbled, unanswered:
			r.Unanswered++
		case planned:
		}
	}
	r.Partial = r.Sent < r.Planned
	r.OfferedTPS = rate(l.sent-1, l.lastSend.Sub(l.start))
	r.AnsweredTPS = rate(r.Accepted+r.Refused, l.last.Sub(l.start))
	r.AcceptedTPS = rate(r.Accepted, l.lastOK.Sub(l.start))
	return r
}

// rate is n per second; 0 when there is nothing to divide.
func rate(n int, in time.Duration) float64 {
	if n <= 0 || in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}
