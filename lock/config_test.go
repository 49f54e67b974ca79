package lock_test

import (
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"

	"lockstep/lock"
)

// DefaultConfig repeats what the tags declare, but for the switch: tests and those who embed the lock use the one, a relay
// uses the other.
func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := env.ParseAsWithOptions[lock.Config](env.Options{Environment: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Enabled {
		t.Error("ordering is on although nobody has asked for it")
	}
	cfg.Enabled = true
	if diff := cmp.Diff(lock.DefaultConfig(), cfg); diff != "" {
		t.Errorf("the tags differ from DefaultConfig:\n%s", diff)
	}
	if window := cfg.Window.Duration(); window != 250*time.Millisecond {
		t.Errorf("without NONCE_GAP_HOLD_MS a transaction waits for its predecessor for %v; docs/ORDERING.md says 250 ms", window)
	}
	if err := cfg.Check(); err != nil {
		t.Errorf("the defaults cannot work: %v", err)
	}
}
