package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A run replaces the sections of its rows, keeps the others, and keeps the order of the rows.
func TestDocument(t *testing.T) {
	dir := t.TempDir()
	front := filepath.Join(dir, "PERFORMANCE.md")
	if err := os.WriteFile(front, []byte("What it costs.\n\n"+headlinesBegin+"old\n"+headlinesEnd+"\nThe rest.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "internals"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := func(id string, value float64, failure string) *table {
		tab := &table{ID: id, Title: "some row", Failure: failure}
		tab.want("cost", "µs", atMost(5, "5"), "7")
		tab.ours("cost", "µs", value)
		tab.note("A note.")
		return tab
	}
	write := func(tables ...*table) string {
		t.Helper()
		r := report{Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: "a machine", Tables: tables}
		if err := r.document(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "internals", "FIGURES.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(made("reads-cold", 1, ""), made("burst", 2, ""))
	text := write(made("burst", 3, ""), made("reads-cold", 9, "it broke"), made("reads-tip", 4, ""))
	for _, want := range []string{
		"Some row. Measured 2026-01-02, a machine.", "| cost, µs | 3 | ≤ 5 | met | 7 | – | – |", "| cost, µs | 1 |", "| cost, µs | 4 |", "- A note.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| 2 |") || strings.Contains(text, "| 9 |") {
		t.Errorf("the document has what was replaced, or what is incomplete:\n%s", text)
	}
	if a, b, c := strings.Index(text, "## burst"), strings.Index(text, "## reads-cold"), strings.Index(text, "## reads-tip"); a < 0 || b < a || c < b {
		t.Errorf("the sections are in another order: %d %d %d", a, b, c)
	}
	burst := made("burst", 3, "")
	burst.want("local, executed", "tx", atMost(100, "100"), "99")
	burst.ours("local, executed", "tx", 98)
	write(burst)
	page, err := os.ReadFile(front)
	if err != nil {
		t.Fatal(err)
	}
	want := "What it costs.\n\n" + headlinesBegin + "|  | Lockstep | TypeScript relay | plainest program that could |\n|---|---|---|---|\n" +
		"| [a burst of 100 from one sender: executed](internals/FIGURES.md#burst) | 98 | 99 | – |\n" + headlinesEnd + "\nThe rest.\n"
	if string(page) != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
}

// Each headline is a line that the last run measured.
func TestHeadlines(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/FIGURES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headlines {
		_, section, _ := strings.Cut(string(text), sectionMark+h.section+"\n")
		section, _, _ = strings.Cut(section, sectionMark)
		if !strings.Contains(section, "\n| "+h.line+" |") {
			t.Errorf("no line %q in the section %s", h.line, h.section)
		}
	}
}
