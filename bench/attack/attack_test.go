package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/e2e/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == echoCommand {
		main() // the tests' own echo server
	}
	os.Exit(harness.Main(m, "../.."))
}

// TestAttacks does each attack in small: the relay stays below its limit of memory and goes
// on answering who is honest.
func TestAttacks(t *testing.T) {
	l, err := open(t.Context(), harness.Program(t), false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			r, err := l.attack(t.Context(), a, 12, time.Second, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("peak %d MB, p99 %v, noise %.1f, %d answered, %d refused; %s", r.peak>>20, r.during.relay, r.noise(), r.answered, r.refused, r.note)
			const limit = 512 << 20
			if r.peak == 0 || r.peak > limit {
				t.Errorf("%d MB of memory", r.peak>>20)
			}
			if r.during.relay == refused {
				t.Error("an honest client was refused")
			}
			if a.name == "forged-addresses" && r.answered != 5 {
				t.Errorf("%d connections of one address were taken where 5 may be", r.answered)
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
	if err := os.WriteFile(filepath.Join(l.dir, "race.4711"), []byte("WARNING: DATA RACE"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.races(); err == nil || !strings.Contains(err.Error(), "WARNING: DATA RACE") {
		t.Errorf("with a report: %v", err)
	}
	if _, err := open(t.Context(), harness.Program(t), true); err == nil || !strings.Contains(err.Error(), "not built with -race") {
		t.Errorf("a program without the detector: %v", err)
	}
}
