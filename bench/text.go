package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the report as indented JSON, or as text for people.
func (r Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var out strings.Builder
	r.text(&out)
	_, err := io.WriteString(w, out.String())
	return err
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (r Report) text(out *strings.Builder) {
	l := r.Load
	fmt.Fprintf(out, "%s × %s, spacing %s, batch %d, runs %d",
		plural(l.Senders, "sender"), plural(l.Count, "transaction"), time.Duration(l.SpacingMS*float64(time.Millisecond)), l.Batch, l.Runs)
	if l.ShuffleWindow > 1 {
		fmt.Fprintf(out, ", shuffled in windows of %d", l.ShuffleWindow)
	}
	if l.Sticky {
		out.WriteString(", sticky")
	}
	out.WriteByte('\n')
	for _, t := range r.Targets {
		t.text(out)
	}
	if len(r.Ratios) > 0 {
		r.ratioText(out)
	}
	if r.Partial {
		out.WriteString("\nPARTIAL: stopped before the end\n")
	}
}

func (t TargetReport) text(out *strings.Builder) {
	fmt.Fprintf(out, "\n%s (chain %s)\n", t.Name, t.ChainID)
	if len(t.Runs) == 0 {
		out.WriteString("  no run\n")
		return
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(t.Summary) > 0 {
		row(tw, "  over %s\tmedian\tmin\tmax\n", plural(len(completed(t.Runs)), "run"))
		chainKnown := slices.ContainsFunc(completed(t.Runs), func(r RunReport) bool { return r.Chain != nil })
		for _, m := range measures() {
			i := slices.IndexFunc(t.Summary, func(f Figure) bool { return f.Name == m.name })
			switch {
			case i >= 0:
				f := t.Summary[i]
				row(tw, "  %s\t%s\t%s\t%s\n", label(f.Name, f.Unit), number(f.Median), number(f.Min), number(f.Max))
			case chainKnown: // the chain could be asked, and does not tell this
				row(tw, "  %s\t–\t–\t–\n", label(m.name, m.unit))
			}
		}
	}
	_ = tw.Flush()
	t.histogramText(out)
	for i, run := range t.Runs {
		run.text(out, i+1)
	}
}

// histogramText draws the latencies of all acceptances of the completed runs.
func (t TargetReport) histogramText(out *strings.Builder) {
	var all Histogram
	for _, run := range completed(t.Runs) {
		all.Add(run.Latency)
	}
	bars := all.Bars()
	var highest uint64
	for _, b := range bars {
		highest = max(highest, b.Count)
	}
	for _, b := range bars {
		width := int((b.Count*barWidth + highest - 1) / highest) // whatever is there shows
		fmt.Fprintf(out, "  ≤ %8s ms %7d %s\n", number(millis(b.UpTo)), b.Count, strings.Repeat("#", width))
	}
}

// text writes what the summary does not have: errors, notes, and cut-off runs.
func (r RunReport) text(out *strings.Builder, number int) {
	if r.Partial {
		fmt.Fprintf(out, "  run %d PARTIAL: %d of %d sent, %d accepted, %d refused, %d unanswered\n",
			number, r.Sent, r.Planned, r.Accepted, r.Refused, r.Unanswered)
		if c := r.Chain; c != nil {
			outOfOrder := "–"
			if c.tells(c.OutOfOrder) {
				outOfOrder = strconv.Itoa(c.OutOfOrder)
			}
			fmt.Fprintf(out, "  run %d PARTIAL: %d executed, %s out of order, %d wrong nonce, %d lost, %d duplicated\n",
				number, c.Executed, outOfOrder, c.WrongNonce, c.Lost, c.Duplicated)
		}
	}
	for _, e := range r.Errors {
		if e.Code == 0 {
			fmt.Fprintf(out, "  run %d: %d × %s\n", number, e.Count, e.Message)
		} else {
			fmt.Fprintf(out, "  run %d: %d × %d %s\n", number, e.Count, e.Code, e.Message)
		}
	}
	if r.ChainError != "" {
		fmt.Fprintf(out, "  run %d: chain state unknown: %s\n", number, r.ChainError)
	}
	if r.Chain != nil {
		for _, note := range r.Chain.Notes {
			fmt.Fprintf(out, "  run %d: %s\n", number, note)
		}
	}
}

func (r Report) ratioText(out *strings.Builder) {
	fmt.Fprintf(out, "\n%s ÷ %s\n", r.Targets[0].Name, r.Targets[1].Name)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row(tw, "  ratio\tmedian\tmin\tmax\tpairs\tbetter\n")
	for _, q := range r.Ratios {
		if q.Pairs == 0 {
			row(tw, "  %s\t–\t–\t–\t0\t%s\n", q.Name, q.Better)
			continue
		}
		row(tw, "  %s\t%.3g×\t%.3g×\t%.3g×\t%d\t%s\n", q.Name, q.Median, q.Min, q.Max, q.Pairs, q.Better)
	}
	_ = tw.Flush()
}

// row writes to a table that ends in a strings.Builder, which does not fail.
func row(tw *tabwriter.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(tw, format, args...)
}

func label(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + ", " + unit
}

// number prints whole numbers without decimals and others with three digits that count.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
