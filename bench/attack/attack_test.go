package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == echoCommand {
		main() // the tests' own echo server
	}
	os.Exit(harness.Main(m, "../.."))
}

const (
	patience = 4 * time.Minute // for memory to be given back, which takes seconds
	returned = 160 << 20       // bytes that a relay may have some time after an attack; an idle one has 70 MB
)

// The program judges: each bound that a row exceeds is told, and nothing else.
func TestVerdict(t *testing.T) {
	const ms = time.Millisecond
	within := func() result {
		return result{peak: mostMemory, before: pair{echo: ms}, during: pair{relay: 100 * ms, echo: 2 * ms}}
	}
	for name, test := range map[string]struct {
		change func(r *result)
		race   bool
		want   []string
	}{
		"within":       {func(*result) {}, false, nil},
		"memory":       {func(r *result) { r.peak = 600 << 20 }, false, []string{"the relay took 600 MB of memory, and 512 may be"}},
		"latency":      {func(r *result) { r.during.relay = 101 * ms }, false, []string{"an honest client's slowest hundredth took 101ms, and 100ms may be on this machine"}},
		"counted":      {func(r *result) { r.during.relay, r.counted = 101*ms, true }, false, nil},
		"a refusal":    {func(r *result) { r.during.relay = refused }, false, []string{"an honest client was refused"}},
		"its own":      {func(r *result) { r.wrongs = []string{"x"} }, false, []string{"x"}},
		"under -race":  {func(r *result) { r.peak, r.during.relay = 600<<20, time.Second }, true, nil},
		"its own, too": {func(r *result) { r.peak, r.wrongs = 600<<20, []string{"x"} }, true, []string{"x"}},
	} {
		r := within()
		test.change(&r)
		if got := r.verdict(test.race); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestAttacks does each attack in small: the relay stays below its limit of memory and goes
// on answering who is honest.
func TestAttacks(t *testing.T) {
	l := must.Get(open(t.Context(), harness.Program(t), false))(t)
	defer l.close()
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			// The mixture has as many clients as make attack has: each of its clients does one thing at a time, so more
			// of them cost a test memory, which is the point, and little time. In the other attacks each client does
			// the same, and twelve reach the bounds that fifty would reach.
			clients, rest := 12, time.Duration(0)
			l.enough = 0
			if a.name == "mixed" {
				clients, rest, l.enough = 50, patience, returned
			}
			r := must.Get(l.attack(t.Context(), a, clients, time.Second, rest))(t)
			t.Logf("peak %d MB, %d MB after, p99 %v, noise %.1f, %d answered, %d refused; %s", r.peak>>20, r.after>>20, r.during.relay, r.noise(), r.answered, r.refused, r.note)
			if r.peak == 0 || r.peak > mostMemory {
				t.Errorf("%d MB of memory", r.peak>>20)
			}
			if rest > 0 && r.after > returned {
				t.Errorf("%d MB of memory were not given back", r.after>>20)
			}
			if r.during.relay == refused {
				t.Error("an honest client was refused")
			}
			for _, text := range r.wrongs {
				t.Error(text)
			}
		})
	}
}

// A data race that the attacked program reports ends the run, and a program that could not
// report one is not taken.
func TestARaceOfTheRelayEndsTheRun(t *testing.T) {
	l := &lab{dir: t.TempDir(), race: true}
	if err := l.races(); err != nil {
		t.Errorf("without a report: %v", err)
	}
	c := l.command(t.Context(), nil, "serve")
	if want := "GORACE=halt_on_error=1 log_path=" + l.dir + "/race"; c.Env[len(c.Env)-1] != want {
		t.Errorf("environment %q, want %q at its end", c.Env, want)
	}
	must.Do(t, os.WriteFile(filepath.Join(l.dir, "race.4711"), []byte("WARNING: DATA RACE"), 0o600))
	if err := l.races(); err == nil || !strings.Contains(err.Error(), "WARNING: DATA RACE") {
		t.Errorf("with a report: %v", err)
	}
	if _, err := open(t.Context(), harness.Program(t), true); err == nil || !strings.Contains(err.Error(), "not built with -race") {
		t.Errorf("a program without the detector: %v", err)
	}
}
