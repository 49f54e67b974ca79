package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// heads are the columns.
var heads = []string{"", "ours (min–max)", "target", "", "TypeScript relay*", "naive (min–max)", "ours ÷ naive"}

// write prints a table for people.
func (t *table) write(w io.Writer) error {
	rows := t.lines()
	width := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, c := range cells {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s (%.0f s)\n", t.ID, t.Title, t.Seconds)
	for _, cells := range rows {
		line := "  "
		for i, c := range cells {
			line += c + strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for _, n := range t.Notes {
		b.WriteString("  - " + n + "\n")
	}
	if t.Failure != "" {
		b.WriteString("  INCOMPLETE: " + t.Failure + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are the heads and what is below them.
func (t *table) lines() [][]string {
	if t.grid != nil {
		return t.gridLines()
	}
	rows := [][]string{heads}
	for _, f := range t.Figures {
		rows = append(rows, f.cells())
	}
	return rows
}

// gridLines puts figures that are cells into lines. One that misses its target has it beside it.
func (t *table) gridLines() [][]string {
	rows := [][]string{append([]string{""}, t.grid...)}
	at := map[string][]string{}
	for _, f := range t.Figures {
		line, column, _ := strings.Cut(f.name, ": ")
		place := slices.Index(t.grid, column)
		if place < 0 {
			continue
		}
		if at[line] == nil {
			at[line] = append([]string{line}, make([]string, len(t.grid))...)
			rows = append(rows, at[line])
		}
		text := show(f.ours)
		if f.bound != nil && len(f.ours) > 0 && !f.bound.met(f.ours) {
			text += " MISSED " + f.bound.text
		}
		at[line][place+1] = text
	}
	return rows
}

func (f *figure) cells() []string {
	name := f.name
	if f.unit != "" {
		name += ", " + f.unit
	}
	target, met := "", ""
	if f.bound != nil {
		target = f.bound.text
		switch {
		case len(f.ours) == 0:
		case f.bound.met(f.ours):
			met = "met"
		default:
			met = "MISSED"
		}
	}
	return []string{name, show(f.ours), target, met, f.peer, show(f.naive), show(f.ratios())}
}

func show(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	s := spreadOf(values)
	if s.Runs == 1 || s.Min == s.Max {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
}

// number writes three or more significant digits and no exponent.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case v == math.Trunc(v) && a < 1e15:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	case a >= 0.001:
		return fmt.Sprintf("%.3g", v)
	default:
		return fmt.Sprintf("%.5f", v)
	}
}
