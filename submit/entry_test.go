package submit

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
)

// The table of the package comment is the one that entries are held against.
func TestEntryLifeIsAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "//\tstage ")
	table, _, _ = strings.Cut(table, "\n//\n")
	rows := strings.Split(table, "\n//\t")[1:]
	if len(rows) != int(stages) {
		t.Fatalf("%d rows for %d stages", len(rows), stages)
	}
	for i, row := range rows {
		from := stage(i)
		name, _, _ := strings.Cut(row, " ")
		if name != from.String() {
			t.Errorf("row %d is about %s, not %s", i, name, from)
		}
		var named []stage
		for _, part := range strings.Split(row[strings.LastIndex(row, "  "):], ";") {
			word, _, _ := strings.Cut(strings.TrimSpace(part), ":")
			for to := range stages {
				if word == to.String() {
					named = append(named, to)
				}
			}
		}
		slices.Sort(named)
		want := slices.Clone(changes[from])
		slices.Sort(want)
		if !slices.Equal(named, want) {
			t.Errorf("%s goes to %v by the comment, to %v by the code", from, named, want)
		}
	}
}

// An entry that is at its end stays there; one that goes where it must not does not, and is noted.
func TestEntryInAWrongStage(t *testing.T) {
	t.Parallel()
	s := &Submitter{log: slog.New(slog.DiscardHandler)}
	ended := &Entry{s: s}
	ended.stage.Store(uint32(over))
	if ended.become(waiting) || stage(ended.stage.Load()) != over || s.Strayed() != nil {
		t.Errorf("an entry that was over is %v: %v", stage(ended.stage.Load()), s.Strayed())
	}
	for name, e := range map[string]*Entry{
		"sent before its turn":   {s: s, facts: &facts{}},
		"in line without ticket": {s: s, facts: &facts{}, way: direct},
		"at no gate":             {s: s, facts: &facts{}, way: gated},
		"without facts":          {s: s},
	} {
		s.wrongStage.Store(nil)
		e.stage.Store(uint32(begun))
		to := waiting
		if name == "sent before its turn" {
			to = following
		}
		if e.become(to) || s.Strayed() == nil || stage(e.stage.Load()) != begun {
			t.Errorf("%s: it became %v, and %v was noted", name, stage(e.stage.Load()), s.Strayed())
		}
	}
}
