package config

import (
	"slices"
	"testing"

	"lockstep/internal/must"
)

// New settings are told apart: those that a running relay takes, and those that need a new start; the
// latter stay different until then.
func TestChangedSettings(t *testing.T) {
	was := must.Get(Load(enough("TIER_1_RATE_LIMIT=5", "LOG_LEVEL=info")))(t)
	next := must.Get(Load(enough("TIER_1_RATE_LIMIT=7", "LOG_LEVEL=debug", "SERVER_PORT=1", "ADMIN_TOKEN=x")))(t)
	for _, want := range [][]string{{"LOG_LEVEL", "TIER_1_RATE_LIMIT"}, nil} {
		atOnce, restart := was.Changed(next)
		slices.Sort(atOnce)
		if !slices.Equal(atOnce, want) || !slices.Equal(restart, []string{"SERVER_PORT", "ADMIN_TOKEN"}) {
			t.Errorf("at once %q, after a new start %q", atOnce, restart)
		}
		was.Take(next)
	}
	if was.RPC.RateLimit.Tier1 != 7 || was.Log.Level != "debug" || was.Server.Port == 1 || was.Server.AdminToken != "" {
		t.Errorf("taken: %+v, %+v", was.RPC.RateLimit, was.Log)
	}
}
