package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// figuresHead begins the document of all figures.
const figuresHead = `# Figures

` + "`make bench`" + ` writes this file. Each section is one row of the suite, with the day and the machine of its run: ` + "`make bench ROWS=reads-limit`" + ` repeats one. The load, the network, Redis and
the relays share the machine's processors. A figure is the median of its runs, with the least and the greatest. "TypeScript relay" is what hiero-json-rpc-relay showed earlier on such a machine. "Naive" is
the plainest program that could do the work, measured in the same run. No target fails a build: ` + "`bench/suite/doc.go`" + ` says how the table is to be read.
`

const sectionMark = "\n## "

// headlines are the figures that somebody who has a minute wants to know: what each is called in docs/PERFORMANCE.md, and
// in which section and line of the figures it stands.
var headlines = []struct{ says, section, line string }{
	{"a burst of 100 from one sender: executed", "burst", "local, executed, tx"},
	{"… transactions a second", "burst", "local, accepted, tx/s"},
	{"the same over two relays in turns: executed", "two-relays", "executed, tx"},
	{"… from one transaction to the next, p50, ms", "two-relays", "hand-off p50, at the node, ms"},
	{"50 senders × 20: processor time for each, µs", "fifty", "local, CPU of the relay, µs/tx"},
	{"Redis killed in a burst of 100: answered", "redis-killed", "answered, tx"},
	{"kill -9 of the relay whose turn it is: the next goes on after, s", "holder-killed", "next waiter proceeds after, s"},
	{"`eth_chainId`: processor time, µs", "reads-limit", "eth_chainId, CPU of the relay, µs/request"},
	{"`eth_getBalance`: processor time, µs", "reads-limit", "eth_getBalance, CPU of the relay, µs/request"},
	{"memory of a relay with nothing to do, MiB", "reads-memory", "resident, 5 s after the start, MiB"},
}

// Between these lines a run writes into docs/PERFORMANCE.md.
const headlinesBegin, headlinesEnd = "<!-- make bench writes from here -->\n", "<!-- to here -->"

// document puts the tables of a run into internals/FIGURES.md below the directory of documents, each in place of the
// former one of its row, in the order of the rows, and what matters most into PERFORMANCE.md. A table that is
// incomplete replaces nothing.
func (r report) document(dir string) error {
	figures, front := filepath.Join(dir, "internals", "FIGURES.md"), filepath.Join(dir, "PERFORMANCE.md")
	old, err := os.ReadFile(figures)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sections := map[string]string{}
	for section := range strings.SplitSeq(string(old), sectionMark) {
		if name, body, found := strings.Cut(section, "\n"); found {
			sections[name] = strings.TrimSpace(body)
		}
	}
	for _, t := range r.Tables {
		if t.Failure == "" {
			sections[t.ID] = t.markdown(fmt.Sprintf("%s, %s", r.Started.Format("2006-01-02"), r.Machine), r.Set)
		}
	}
	var out strings.Builder
	out.WriteString(figuresHead)
	for _, row := range rows() {
		if body, ok := sections[row.id]; ok {
			out.WriteString(sectionMark + row.id + "\n\n" + body + "\n")
		}
	}
	if err := os.WriteFile(figures, []byte(out.String()), 0o644); err != nil { //nolint:gosec // a document of the project
		return err
	}
	text, err := os.ReadFile(front)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), headlinesBegin)
	_, after, ends := strings.Cut(rest, headlinesEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table: it begins with %q and ends with %q", front, headlinesBegin, headlinesEnd)
	}
	return os.WriteFile(front, []byte(before+headlinesBegin+headlineTable(sections)+headlinesEnd+after), 0o644) //nolint:gosec // likewise
}

// headlineTable takes the headlines from the sections of the figures. What was never measured is left out.
func headlineTable(sections map[string]string) string {
	var out strings.Builder
	out.WriteString("|  | Lockstep | TypeScript relay | plainest program that could |\n|---|---|---|---|\n")
	for _, h := range headlines {
		_, after, found := strings.Cut(sections[h.section], "\n| "+h.line+" |")
		if !found {
			continue
		}
		after, _, _ = strings.Cut(after, "\n")
		cells := strings.Split(after, "|") // ours, target, met, the TypeScript relay, naive, ours ÷ naive
		if len(cells) < 6 {
			continue
		}
		fmt.Fprintf(&out, "| [%s](internals/FIGURES.md#%s) | %s | %s | %s |\n", h.says, h.section,
			strings.TrimSpace(cells[0]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4]))
	}
	return out.String()
}

// markdown is a table in Markdown, with its notes.
func (t *table) markdown(measured string, settings []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s. Measured %s.", strings.ToUpper(t.Title[:1])+t.Title[1:], measured)
	if len(settings) > 0 {
		fmt.Fprintf(&out, " Settings: %s.", strings.Join(settings, " "))
	}
	out.WriteString("\n\n")
	for i, cells := range t.lines() {
		if i == 0 {
			cells = slices.Clone(cells)
			for j, c := range cells {
				cells[j] = strings.TrimSuffix(c, "*")
			}
		}
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
	return strings.TrimSpace(out.String())
}
