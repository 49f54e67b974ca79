package app_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/config"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/service"
)

// runManager starts a transaction manager that sends from an account through a relay.
func runManager(t *testing.T, from *account, relay string) string {
	t.Helper()
	cfg := must.Get(config.LoadManager([]string{
		"TXM_CHAINS=298=" + relay, "DATABASE_URL=memory:", "RELAYER_PRIVATE_KEYS=" + hex.EncodeToString(crypto.FromECDSA(from.key)), "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS=127.0.0.1:0", "INSTANCE_ID=test",
	}))(t)
	open := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) {
		depth := uint64(0)
		return ethchain.New(ethchain.Config{ID: 298, URLs: spec.URL, Depth: &depth, InFlight: 1})
	}
	s := must.Get(service.New(t.Context(), cfg.TXM, service.Deps{Drivers: map[string]service.Driver{"": open}, Version: "test", Log: slog.New(slog.DiscardHandler)}))(t)
	must.Do(t, s.Listen(t.Context()))
	must.Run(t, s.Run)
	return s.URL()
}

// relay_* on the relay's port go to the manager; without TXM_URL there are none.
func TestRelayMethods(t *testing.T) {
	w := newWorld(t)
	through := w.relay(t)
	relay := w.relay(t, "RPC_HTTP_API=eth,net,web3,relay", "TXM_URL="+runManager(t, w.account(t), through.url))
	for i, want := range [][]string{{"relay_cancel", "relay_getStatus", "relay_sendTransaction"}, nil} {
		var document struct{ Methods []struct{ Name string } }
		if got := []func(string, ...any) answer{relay.call, through.call}[i]("rpc.discover"); json.Unmarshal(got.Result, &document) != nil || len(document.Methods) == 0 {
			t.Fatalf("%+v", got)
		}
		var described []string
		for _, m := range document.Methods {
			if strings.HasPrefix(m.Name, "relay_") {
				described = append(described, m.Name)
			}
		}
		if !slices.Equal(described, want) {
			t.Errorf("rpc.discover has %q, want %q", described, want)
		}
	}
	intent := map[string]any{"chainId": 298, "to": "0x05FbA803Be258049A27B820088bab1cAD2058871", "value": "10000000000", "idempotencyKey": "k"}
	var sent, again, status struct{ ID, Status string }
	if got := relay.call("relay_sendTransaction", intent); got.Error != nil || json.Unmarshal(got.Result, &sent) != nil || sent.ID == "" {
		t.Fatalf("sent: %+v", got)
	}
	intent["chainId"] = "298" // the id may be text, too
	if got := relay.call("relay_sendTransaction", intent); json.Unmarshal(got.Result, &again) != nil || again.ID != sent.ID {
		t.Errorf("the same key again: %+v", got)
	}
	intent["value"] = "20000000000"
	if got := relay.call("relay_sendTransaction", intent); got.Error == nil || !strings.Contains(got.Error.Message, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another intent under the key: %+v", got)
	}
	relay.until("the transaction has its fate", func() bool {
		got := relay.call("relay_getStatus", map[string]any{"id": sent.ID})
		return json.Unmarshal(got.Result, &status) == nil && status.Status == "confirmed"
	})
	if got := relay.call("relay_cancel", map[string]any{"id": sent.ID}); got.Error == nil || !strings.Contains(got.Error.Message, "TOO_LATE") {
		t.Errorf("cancelled after its fate: %+v", got)
	}
	if got := relay.call("relay_getStatus", "x"); got.Error == nil {
		t.Errorf("not an object: %+v", got)
	}
	if got := through.call("relay_getStatus", map[string]any{"id": sent.ID}); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("without a manager: %+v", got)
	}
}
