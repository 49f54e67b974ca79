package diff

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Tally counts requests. A request is in exactly one of Same, Different and Trouble,
// or was left out.
type Tally struct {
	Sent      int `json:"sent"`
	Same      int `json:"same"`
	Different int `json:"different"`
	Trouble   int `json:"trouble"` // not compared: one of the two gave no answer
	Skipped   int `json:"skipped"` // not sent: it would change something
}

// Count is how many requests differ at a place.
type Count struct {
	Method   string `json:"method"`
	Path     string `json:"path"` // with [*] for every index
	Requests int    `json:"requests"`
}

// Summary is what a run found.
type Summary struct {
	Total   Tally            `json:"total"`
	Methods map[string]Tally `json:"methods"`
	Places  []Count          `json:"places"` // the most frequent differences first
}

// Bounds of the summary: method names come from the input, places from the relays.
const (
	maxMethods = 1000
	maxPlaces  = 10_000
	shownPlace = 30
)

type place struct{ method, path string }

// report writes outcomes and adds them up.
type report struct {
	out     *bufio.Writer
	json    bool
	summary Summary
	places  map[place]int
}

func newReport(out io.Writer, asJSON bool) *report {
	return &report{
		out: bufio.NewWriter(out), json: asJSON,
		summary: Summary{Methods: map[string]Tally{}}, places: map[place]int{},
	}
}

// add takes one outcome. What is the same is only counted.
func (r *report) add(o outcome) error {
	r.count(o)
	if o.trouble == nil && len(o.found) == 0 {
		return nil
	}
	if r.json {
		r.writeJSON(o)
	} else {
		r.writeText(o)
	}
	return r.out.Flush() // somebody may be watching
}

func (r *report) count(o outcome) {
	name := printable([]byte(o.method), 60)
	if _, known := r.summary.Methods[name]; !known && len(r.summary.Methods) >= maxMethods {
		name = "others"
	}
	t := r.summary.Methods[name]
	for _, t := range []*Tally{&t, &r.summary.Total} {
		if o.skipped {
			t.Skipped++
			continue
		}
		t.Sent++
		switch {
		case o.trouble != nil:
			t.Trouble++
		case len(o.found) > 0:
			t.Different++
		default:
			t.Same++
		}
	}
	r.summary.Methods[name] = t
	seen := map[place]bool{}
	for _, d := range o.found {
		p := place{printable([]byte(d.method), 60), d.general}
		if _, known := r.places[p]; !seen[p] && (known || len(r.places) < maxPlaces) {
			r.places[p]++
		}
		seen[p] = true
	}
}

func (r *report) writeText(o outcome) {
	_, _ = fmt.Fprintf(r.out, "line %d %s  %s\n", o.line, printable([]byte(o.method), 60), o.excerpt()) // Flush has the error
	if o.trouble != nil {
		_, _ = fmt.Fprintf(r.out, "  not compared: %s\n", strings.ReplaceAll(o.trouble.Error(), "\n", "; "))
	}
	for _, d := range o.found {
		_, _ = fmt.Fprintf(r.out, "  %s: %s\n", printable([]byte(d.Path), 200), d.Text)
	}
	if o.more > 0 {
		_, _ = fmt.Fprintf(r.out, "  and %d more\n", o.more)
	}
}

func (r *report) writeJSON(o outcome) {
	line := map[string]any{"line": o.line, "method": o.method, "request": o.excerpt()}
	if o.trouble != nil {
		line["trouble"] = o.trouble.Error()
	}
	if len(o.found) > 0 {
		line["differences"] = o.found
	}
	if o.more > 0 {
		line["more"] = o.more
	}
	_ = json.NewEncoder(r.out).Encode(line) // Flush has the error
}

// end writes the summary.
func (r *report) end() error {
	for p, n := range r.places {
		r.summary.Places = append(r.summary.Places, Count{p.method, p.path, n})
	}
	slices.SortFunc(r.summary.Places, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Path, b.Path))
	})
	if r.json {
		_ = json.NewEncoder(r.out).Encode(map[string]any{"summary": r.summary}) // Flush has the error
		return r.out.Flush()
	}
	r.summary.write(r.out)
	return r.out.Flush()
}

// write prints the summary for people. The writer keeps its first error.
func (s *Summary) write(w *bufio.Writer) {
	if s.Total.Different+s.Total.Trouble > 0 {
		_, _ = fmt.Fprintln(w)
	}
	_, _ = fmt.Fprintf(w, "%8s %8s %10s %13s %9s  method\n", "sent", "same", "different", "not compared", "left out")
	for _, name := range slices.Sorted(maps.Keys(s.Methods)) {
		t := s.Methods[name]
		_, _ = fmt.Fprintf(w, "%8d %8d %10d %13d %9d  %s\n", t.Sent, t.Same, t.Different, t.Trouble, t.Skipped, name)
	}
	if len(s.Places) > 0 {
		_, _ = fmt.Fprintln(w, "\nWhere they differ, and in how many requests:")
	}
	for i, p := range s.Places {
		if i == shownPlace {
			_, _ = fmt.Fprintf(w, "  and %d places more\n", len(s.Places)-shownPlace)
			break
		}
		_, _ = fmt.Fprintf(w, "  %4d  %s:%s\n", p.Requests, p.Method, p.Path)
	}
	_, _ = fmt.Fprintf(w, "\n%s\n", s)
}

// String is the outcome of a comparison in one line.
func (s *Summary) String() string {
	t := s.Total
	return fmt.Sprintf("%d requests sent: %d the same, %d different, %d not compared; %d left out", t.Sent, t.Same, t.Different, t.Trouble, t.Skipped)
}
