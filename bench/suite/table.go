package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// table is what one row of the suite found out, as it stands in the data file.
type table struct {
	ID       string    `json:"row"`
	Title    string    `json:"title"`
	Measured string    `json:"measured"`          // when and where
	Columns  []string  `json:"columns,omitempty"` // if the figures are cells: named "line: column"
	Figures  []*figure `json:"figures"`
	Notes    []string  `json:"notes,omitempty"`

	seconds float64 // it took
	failure error   // why it is incomplete
	events  map[string]int
}

// figure is one number over several runs, ours and the baseline's.
type figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit,omitempty"`
	Ours   *spread `json:"ours,omitempty"`
	Naive  *spread `json:"naive,omitempty"`
	Ratio  *spread `json:"ours_by_naive,omitempty"`
	Target string  `json:"target,omitempty"`
	Met    *bool   `json:"met,omitempty"`
	Peer   string  `json:"typescript_relay_measured_earlier,omitempty"`

	bound       *bound
	ours, naive []float64
}

// spread sums up the values of several runs.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) *spread {
	n := len(values)
	if n == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	return &spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// bound is a target.
type bound struct {
	text string
	met  func(s *spread) bool
}

func atMost(limit float64) *bound {
	return &bound{"≤ " + thousands(limit), func(s *spread) bool { return s.Median <= limit }}
}

func atLeast(limit float64) *bound {
	return &bound{"≥ " + thousands(limit), func(s *spread) bool { return s.Median >= limit }}
}

// always is a target that each run must meet.
func always(want float64) *bound {
	return &bound{number(want) + " in every run", func(s *spread) bool { return s.Min == want && s.Max == want }}
}

// never is a target for the worst run.
func never(limit float64) *bound {
	return &bound{"≤ " + number(limit), func(s *spread) bool { return s.Max <= limit }}
}

// want declares a figure with its target and what the TypeScript relay showed, either of which may be missing. Figures
// stand in the order in which they are declared.
func (t *table) want(name, unit string, b *bound, peer string) {
	f := t.figure(name, unit)
	f.bound, f.Peer = b, peer
}

// add adds a value of one run, the baseline's or ours.
func (t *table) add(naive bool, name, unit string, value float64) {
	switch f := t.figure(name, unit); {
	case math.IsNaN(value):
	case naive:
		f.naive = append(f.naive, value)
	default:
		f.ours = append(f.ours, value)
	}
}

// ours adds one of ours, perhaps with its target.
func (t *table) ours(name, unit string, value float64, target ...*bound) {
	if t.add(false, name, unit, value); len(target) > 0 {
		t.figure(name, unit).bound = target[0]
	}
}

func (t *table) figure(name, unit string) *figure {
	for _, f := range t.Figures {
		if f.Name == name {
			return f
		}
	}
	f := &figure{Name: name, Unit: unit}
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

func (t *table) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// conclude sums the runs up, and makes notes of what was counted, the most frequent first.
func (t *table) conclude() {
	for _, f := range t.Figures {
		f.Ours, f.Naive, f.Ratio = spreadOf(f.ours), spreadOf(f.naive), spreadOf(f.ratios())
		if f.bound != nil {
			f.Target = f.bound.text
			if f.Ours != nil {
				met := f.bound.met(f.Ours)
				f.Met = &met
			}
		}
	}
	events := slices.SortedFunc(maps.Keys(t.events), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.events[b], t.events[a]), cmp.Compare(a, b))
	})
	const most = 6
	for _, e := range events[:min(most, len(events))] {
		t.note("over all runs %d × %s", t.events[e], e)
	}
	if len(events) > most {
		t.note("and %d kinds more", len(events)-most)
	}
}

// ratios divides run by run, or median by median where the runs are no pairs.
func (f *figure) ratios() (out []float64) {
	ours, naive := f.ours, f.naive
	if len(ours) == 0 || len(naive) == 0 {
		return nil
	}
	if len(ours) != len(naive) {
		ours, naive = []float64{spreadOf(ours).Median}, []float64{spreadOf(naive).Median}
	}
	for i, v := range ours {
		if naive[i] != 0 {
			out = append(out, v/naive[i])
		}
	}
	return out
}

// lines are the heads and what is below them.
func (t *table) lines() [][]string {
	if t.Columns == nil {
		rows := [][]string{{"", "ours (min–max)", "target", "", "TypeScript relay", "naive (min–max)", "ours ÷ naive"}}
		for _, f := range t.Figures {
			rows = append(rows, []string{f.label(), f.Ours.String(), f.Target, f.verdict(), f.Peer, f.Naive.String(), f.Ratio.String()})
		}
		return rows
	}
	rows := [][]string{append([]string{""}, t.Columns...)}
	at := map[string][]string{}
	for _, f := range t.Figures {
		line, column, _ := strings.Cut(f.Name, ": ")
		if at[line] == nil {
			at[line] = append([]string{line}, make([]string, len(t.Columns))...)
			rows = append(rows, at[line])
		}
		text := f.Ours.String()
		if f.verdict() == missed {
			text += " " + missed + " " + f.Target
		}
		at[line][slices.Index(t.Columns, column)+1] = text
	}
	return rows
}

const missed = "MISSED"

func (f *figure) label() string { return strings.TrimSuffix(f.Name+", "+f.Unit, ", ") }

func (f *figure) verdict() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "met"
	}
	return missed
}

func (s *spread) String() string {
	switch {
	case s == nil:
		return "–"
	case s.Min == s.Max:
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
}

// number writes three or more significant digits and no exponent.
func number(v float64) string {
	digits := 0
	for a := math.Abs(v); v != math.Trunc(v) && a < 100 && digits < 5; a *= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// thousands is a number with a comma, if it needs one.
func thousands(v float64) string {
	if v < 1000 {
		return number(v)
	}
	return fmt.Sprintf("%.0f,%03d", math.Trunc(v/1000), int(v)%1000)
}

// write prints a table for people: the Markdown, in columns.
func (t *table) write(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	_, err := fmt.Fprintf(out, "\n%s (%.0f s): %s", t.ID, t.seconds, strings.NewReplacer(" | ", "\t| ", "---|", "---\t|").Replace(t.markdown()))
	if t.failure != nil {
		_, err = fmt.Fprintf(out, "INCOMPLETE: %v\n", t.failure)
	}
	return errors.Join(err, out.Flush())
}

// markdown is a table in Markdown, with its notes.
func (t *table) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s. Measured %s.\n\n", strings.ToUpper(t.Title[:1])+t.Title[1:], t.Measured)
	for i, cells := range t.lines() {
		out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	for i, n := range t.Notes {
		if i == 0 {
			out.WriteString("\n")
		}
		out.WriteString("- " + n + "\n")
	}
	return out.String()
}

// figuresHead begins the document of all figures.
const figuresHead = `# Figures

` + "`make bench`" + ` writes this file from [figures.json](figures.json), which has what is measured. Each section is one row of the suite, with the day and the machine of its run:
` + "`make bench ROWS=reads-limit`" + ` repeats one. The load, the network, Redis and the relays share the machine's processors. A figure is the median of its runs, with the least
and the greatest. "TypeScript relay" is what hiero-json-rpc-relay showed earlier on such a machine. "Naive" is the plainest program that could do the work, measured in the same
run. No target fails a build: ` + "`bench/suite/doc.go`" + ` says how the table is to be read.
`

// headlines are the figures that somebody who has a minute wants to know: what each is called in docs/PERFORMANCE.md, and
// its row and name.
var headlines = []struct{ says, row, figure string }{
	{"a burst of 100 from one sender: executed", "burst", "local, executed"},
	{"… transactions a second", "burst", "local, accepted"},
	{"the same over two relays in turns: executed", "two-relays", "executed"},
	{"… from one transaction to the next, p50, ms", "two-relays", "hand-off p50, at the node"},
	{"50 senders × 20: processor time for each, µs", "fifty", "local, CPU of the relay"},
	{"Redis killed in a burst of 100: answered", "redis-killed", "answered"},
	{"kill -9 of the relay whose turn it is: the next goes on after, s", "holder-killed", "next waiter proceeds after"},
	{"`eth_chainId`: processor time, µs", "reads-limit", "eth_chainId, CPU of the relay"},
	{"`eth_getBalance`: processor time, µs", "reads-limit", "eth_getBalance, CPU of the relay"},
	{"memory of a relay with nothing to do, MiB", "reads-memory", "resident, 5 s after the start"},
}

// Between these lines a run writes into docs/PERFORMANCE.md.
const headlinesBegin, headlinesEnd = "<!-- make bench writes from here -->\n", "<!-- to here -->"

// publish puts the tables of a run into the data file below the directory of documents, each in place of the former one
// of its row, and writes from it internals/FIGURES.md, and what matters most into PERFORMANCE.md. A table that is
// incomplete replaces nothing.
func publish(dir string, made []*table) error {
	data := filepath.Join(dir, "internals", "figures.json")
	known := map[string]*table{}
	var all []*table
	text, err := os.ReadFile(data)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, t := range slices.Concat(all, made) {
		if t.failure == nil {
			known[t.ID] = t
		}
	}
	all = nil
	figures := figuresHead
	for _, row := range rows() {
		if t := known[row.id]; t != nil {
			all = append(all, t)
			figures += "\n## " + t.ID + "\n\n" + t.markdown()
		}
	}
	if text, err = json.MarshalIndent(all, "", " "); err != nil {
		return err
	}
	front := filepath.Join(dir, "PERFORMANCE.md")
	page, err := os.ReadFile(front)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), headlinesBegin)
	_, after, ends := strings.Cut(rest, headlinesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table: it begins with %q and ends with %q", front, headlinesBegin, headlinesEnd)
	}
	for path, text := range map[string]string{
		data: string(text) + "\n", filepath.Join(dir, "internals", "FIGURES.md"): figures,
		front: before + headlinesBegin + headlineTable(known) + headlinesEnd + after,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // documents of the project
			return err
		}
	}
	return nil
}

// headlineTable leaves out what was never measured.
func headlineTable(known map[string]*table) string {
	var out strings.Builder
	out.WriteString("|  | Lockstep | TypeScript relay | plainest program that could |\n|---|---|---|---|\n")
	for _, h := range headlines {
		if t := known[h.row]; t != nil {
			for _, f := range t.Figures {
				if f.Name == h.figure && f.Ours != nil {
					fmt.Fprintf(&out, "| [%s](internals/FIGURES.md#%s) | %s | %s | %s |\n", h.says, h.row, f.Ours, f.Peer, f.Naive)
				}
			}
		}
	}
	return out.String()
}
