package lock_test

import (
	"testing"
	"time"

	"lockstep/lock"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg := lock.DefaultConfig()
	if window := cfg.Window.Duration(); window != 250*time.Millisecond {
		t.Errorf("without NONCE_GAP_HOLD_MS a transaction waits for its predecessor for %v; docs/ORDERING.md says 250 ms", window)
	}
	if err := cfg.Check(); err != nil {
		t.Errorf("the defaults cannot work: %v", err)
	}
}
