package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestReplaceBetween(t *testing.T) {
	path := filepath.Join(t.TempDir(), "SCALING.md")
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("# Head\n\n" + markBegin + "old\n" + markEnd + "\ntail\n")
	for _, text := range []string{"one\n", "two\n"} {
		if err := replaceBetween(path, text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := "# Head\n\n" + markBegin + "\n" + text + "\n" + markEnd + "\ntail\n"; string(got) != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	put("# Head\n" + markBegin)
	if err := replaceBetween(path, "x"); err == nil {
		t.Error("a document without its end marker is written")
	}
}

func TestSimulationFollowsTheConstants(t *testing.T) {
	c := &constants{
		relay: []float64{400e-6}, single: []float64{380e-6}, redis: []float64{40e-6}, beside: []float64{600e-6}, commands: []float64{12},
		node: []float64{8e-3}, hop: []float64{50e-6}, bus: []float64{2e-6}, resident: []float64{60 << 20},
	}
	path, empty := filepath.Join(t.TempDir(), "SCALING.md"), markBegin+markEnd
	if err := os.WriteFile(path, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	document := func() string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// Two processors can do 2/1040 µs = 1,923 a second; one sender has 8 ms and more for each turn.
	const crowd = 1900
	compare := func(document string, lane float64) (*table, error) {
		tab := &table{ID: "scaling"}
		wantAgreement(tab)
		return tab, c.compare(&lab{scaling: document, cpus: 2}, tab, []float64{lane}, []float64{crowd})
	}
	tab, err := compare(path, 60)
	if err == nil || !strings.Contains(err.Error(), "is not written") || document() != empty {
		t.Errorf("far off: %v, and the document is %q", err, document())
	}
	for name, want := range map[string]bool{"one sender, simulated against measured": false, "crowd, simulated against measured": true} {
		f := tab.figure(name, "%")
		if got := f.bound.met(f.ours); got != want {
			t.Errorf("%s: %v, met %v, want %v", name, f.ours, got, want)
		}
	}
	lane := tab.figure("one sender, two relays, simulated", "tx/s").ours[0]
	if _, err := compare(path, lane/.845); err == nil || !strings.Contains(err.Error(), "by 15.5 %") || document() != empty {
		t.Errorf("15.5 %% off: %v, and the document is %q", err, document())
	}
	if _, err := compare(path, lane/1.145); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\| 1 \| (49|50|51)00, relay \|`, `\| 100 \| (249|250|251)00, Redis \|`, `\| processors of relays, all busy \| 0\.4 \|`,
		`Measured \d{4}-\d\d-\d\d, ` + regexp.QuoteMeta(machine()) + `\.`,
	} {
		if !regexp.MustCompile(want).MatchString(document()) {
			t.Errorf("the document lacks %q:\n%s", want, document())
		}
	}
}
