package app_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"lockstep/app"
	"lockstep/config"
	"lockstep/internal/must"
)

// reloadable makes a relay that reads its settings again with load, and returns its log.
func reloadable(t *testing.T, load func() (config.Config, error)) (*app.App, *bytes.Buffer) {
	t.Helper()
	cfg := must.Get(load())(t)
	log := new(bytes.Buffer)
	relay := must.Get(app.New(cfg, "test", slog.New(slog.NewTextHandler(log, nil))))(t)
	relay.Reloads(load, func(config.Config) {})
	return relay, log
}

// Reading the settings again tells of a misspelt name, as the start does, also while another setting is wrong.
func TestReloadTellsOfMisspeltNames(t *testing.T) {
	t.Parallel()
	var more []string
	load := func() (config.Config, error) {
		return config.Load(append(append([]string{
			"CHAIN_ID=298", `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1",
			"OPERATOR_ID_MAIN=0.0.1002", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=" + operatorKey,
		}, patient...), more...))
	}
	relay, log := reloadable(t, load)
	for _, step := range []struct {
		more         []string
		warns, fails bool
	}{
		{nil, false, false},
		{[]string{"TIER_1_RATE_LIMTI=5"}, true, false},
		{[]string{"TIER_1_RATE_LIMTI=5", "LOG_LEVEL=loud"}, true, true},
	} {
		log.Reset()
		more = step.more
		_, err := relay.Reload(t.Context())
		warned := strings.Contains(log.String(), "is it misspelt?") && strings.Contains(log.String(), "name=TIER_1_RATE_LIMTI setting=TIER_1_RATE_LIMIT")
		if (err != nil) != step.fails || warned != step.warns {
			t.Errorf("%q: %v, warned: %t\n%s", step.more, err, warned, log.String())
		}
	}
}
