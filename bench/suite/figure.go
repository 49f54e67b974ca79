package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// table is what one row of the suite found out.
type table struct {
	ID      string
	Title   string
	Figures []*figure
	Notes   []string
	Seconds float64 // it took
	Failure string  // why it is incomplete

	events map[string]int // see count
	grid   []string       // columns, if the figures are cells: named "line: column"
}

// figure is one number over several runs, ours and the baseline's.
type figure struct {
	name, unit  string
	bound       *bound
	peer        string
	ours, naive []float64
}

// bound is a target.
type bound struct {
	text string
	met  func(ours []float64) bool
}

func atMost(limit float64, text string) *bound {
	return &bound{text: "≤ " + text, met: func(v []float64) bool { return spreadOf(v).Median <= limit }}
}

func atLeast(limit float64, text string) *bound {
	return &bound{text: "≥ " + text, met: func(v []float64) bool { return spreadOf(v).Median >= limit }}
}

// always is a target that each run must meet.
func always(want float64, text string) *bound {
	return &bound{text: text, met: func(v []float64) bool {
		return !slices.ContainsFunc(v, func(x float64) bool { return x != want })
	}}
}

// never is a target for the worst run.
func never(limit float64, text string) *bound {
	return &bound{text: "≤ " + text, met: func(v []float64) bool { return slices.Max(v) <= limit }}
}

// want declares a figure with its target and what the TypeScript relay showed, either
// of which may be missing. Figures are printed in the order in which they are declared.
func (t *table) want(name, unit string, b *bound, peer string) {
	f := t.figure(name, unit)
	f.bound, f.peer = b, peer
}

// ours adds a value of one run.
func (t *table) ours(name, unit string, value float64) {
	f := t.figure(name, unit)
	f.ours = append(f.ours, value)
}

// naive adds a value of the baseline.
func (t *table) naive(name, unit string, value float64) {
	f := t.figure(name, unit)
	f.naive = append(f.naive, value)
}

// add adds a value to one of the two.
func (t *table) add(naive bool, name, unit string, value float64) {
	if math.IsNaN(value) {
		return
	}
	if naive {
		t.naive(name, unit, value)
	} else {
		t.ours(name, unit, value)
	}
}

func (t *table) figure(name, unit string) *figure {
	for _, f := range t.Figures {
		if f.name == name {
			return f
		}
	}
	f := &figure{name: name, unit: unit}
	t.Figures = append(t.Figures, f)
	return f
}

// count adds to a number that a note at the end tells, if there is anything to tell.
func (t *table) count(event string, n int) {
	if t.events == nil {
		t.events = make(map[string]int)
	}
	t.events[event] += n
}

// conclude makes notes of what was counted, the most frequent first.
func (t *table) conclude() {
	const most = 6
	events := slices.SortedFunc(maps.Keys(t.events), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.events[b], t.events[a]), cmp.Compare(a, b))
	})
	for i, e := range events {
		if i == most {
			t.note(fmt.Sprintf("and %d kinds more", len(events)-most))
			break
		}
		t.note(fmt.Sprintf("over all runs %d × %s", t.events[e], e))
	}
}

func (t *table) note(text string) { t.Notes = append(t.Notes, text) }

// spread sums up values.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

func spreadOf(values []float64) spread {
	n := len(values)
	if n == 0 {
		return spread{Median: math.NaN(), Min: math.NaN(), Max: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return spread{Median: median, Min: sorted[0], Max: sorted[n-1], Runs: n}
}

// ratios divides run by run, or median by median where the runs are no pairs.
func (f *figure) ratios() []float64 {
	if len(f.ours) == 0 || len(f.naive) == 0 {
		return nil
	}
	if len(f.ours) != len(f.naive) {
		if d := spreadOf(f.naive).Median; d != 0 {
			return []float64{spreadOf(f.ours).Median / d}
		}
		return nil
	}
	var out []float64
	for i, v := range f.ours {
		if f.naive[i] != 0 {
			out = append(out, v/f.naive[i])
		}
	}
	return out
}

// figureJSON is a figure in the file of -json.
type figureJSON struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Ours   *spread `json:"ours,omitempty"`
	Naive  *spread `json:"naive,omitempty"`
	Ratio  *spread `json:"ours_by_naive,omitempty"`
	Target string  `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`
	Peer   string  `json:"established_relay_measured_earlier,omitempty"`
}

// MarshalJSON writes the sums over the runs.
func (f *figure) MarshalJSON() ([]byte, error) {
	out := figureJSON{Name: f.name, Unit: f.unit, Ours: some(f.ours), Naive: some(f.naive), Ratio: some(f.ratios()), Peer: f.peer}
	if f.bound != nil {
		out.Target = f.bound.text
		if len(f.ours) > 0 {
			met := f.bound.met(f.ours)
			out.Met = &met
		}
	}
	return json.Marshal(out)
}

func some(values []float64) *spread {
	if len(values) == 0 {
		return nil
	}
	s := spreadOf(values)
	return &s
}

// MarshalJSON writes a table.
func (t *table) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"row": t.ID, "title": t.Title, "figures": t.Figures, "notes": t.Notes, "seconds": t.Seconds, "failure": t.Failure,
	})
}
