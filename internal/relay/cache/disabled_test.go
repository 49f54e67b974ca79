package cache_test

import (
	"log/slog"
	"testing"

	"lockstep/internal/redistest"
	"lockstep/internal/relay/cache"
)

// TestDisabled: a store that is off takes everything and keeps nothing.
func TestDisabled(t *testing.T) {
	off, on := cache.Disabled(), cache.New(config, redistest.Dial(t, "redis://127.0.0.1:1"), slog.New(slog.DiscardHandler))
	off.Put("a", []byte("1"))
	if value := off.Get(t.Context(), "a"); value != nil || off.Enabled() || !on.Enabled() {
		t.Errorf("found %q, enabled %v", value, off.Enabled())
	}
	if err := off.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(off.Collectors()); n != len(on.Collectors()) {
		t.Errorf("%d collectors", n)
	}
}
