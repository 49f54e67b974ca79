package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"lockstep/app"
	"lockstep/config"
	"lockstep/devnet"
	"lockstep/internal/must"
)

// Network runs a development network in this process, on free ports, until the test ends.
func Network(t testing.TB, cfg devnet.Config) *devnet.Network {
	t.Helper()
	cfg.Consensus, cfg.Mirror = "127.0.0.1:0", "127.0.0.1:0"
	n := must.Get(devnet.New(t.Context(), cfg))(t)
	t.Cleanup(background(t, "the network", n.Run))
	return n
}

// Relay runs a relay in front of a network in this process. It ends with the test, or when stop is called, as it does by SIGTERM. A nil log
// is nobody's. Settings that are given replace its own.
func Relay(t testing.TB, n *devnet.Network, log *slog.Logger, settings ...string) (a *app.App, stop func()) {
	t.Helper()
	nodes := must.Get(json.Marshal(n.Nodes()))(t)
	cfg, err := config.Load(slices.Concat([]string{
		"CHAIN_ID=298", "HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + n.Mirror(),
		"OPERATOR_ID_MAIN=" + devnet.OperatorID(), "OPERATOR_KEY_MAIN=" + devnet.OperatorKey(), "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "SHUTDOWN_DRAIN_DELAY_MS=0",
	}, settings))
	if err != nil {
		t.Fatal(err)
	}
	a = must.Get(app.New(cfg, "test", cmp.Or(log, slog.New(slog.DiscardHandler))))(t)
	endpoint, ws := a.Endpoints()
	must.Do(t, a.Listen(t.Context(), endpoint, ws))
	stop = background(t, "the relay", a.Run)
	t.Cleanup(stop)
	return a, stop
}

// background runs what goes on until stop, which waits for its end.
func background(t testing.TB, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
}
