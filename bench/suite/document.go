package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// documentHead begins the document of figures.
const documentHead = `# What it costs

` + "`make bench`" + ` writes this file. Each section is one row of the suite, with the day and the machine of its run: ` + "`make bench ROWS=reads-limit`" + ` repeats one. The load, the network, Redis and
the relays share the machine's processors. A figure is the median of its runs, with the least and the greatest. "TypeScript relay" is what hiero-json-rpc-relay showed earlier on such a machine. "Naive" is
the plainest program that could do the work, measured in the same run. No target fails a build: ` + "`bench/suite/doc.go`" + ` says how the table is to be read.
`

const sectionMark = "\n## "

// document puts the tables of a run into the document, each in place of the former one of its row, in the order of
// the rows. A table that is incomplete replaces nothing.
func (r report) document(path string) error {
	old, err := os.ReadFile(path)
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
	out.WriteString(documentHead)
	for _, row := range rows() {
		if body, ok := sections[row.id]; ok {
			out.WriteString(sectionMark + row.id + "\n\n" + body + "\n")
		}
	}
	return os.WriteFile(path, []byte(out.String()), 0o644) //nolint:gosec // a document of the project
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
