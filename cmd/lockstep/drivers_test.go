package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/service"
)

// TestHederaOfItsOwn: a chain's entry in TXM_CHAINS alone says which network, mirror node and
// operator the driver uses, whatever the settings of the process say.
func TestHederaOfItsOwn(t *testing.T) {
	network := harness.Network(t, devnet.Config{Log: slog.New(slog.DiscardHandler), Signers: 1})
	t.Run("a wrong operator", func(t *testing.T) { testWrongOperator(t, network) })
	whole := map[string]any{
		"driver": "hedera", "inFlight": 3, "url": []string{network.Mirror()}, "network": network.Nodes(),
		"operator": devnet.OperatorID(), "key": devnet.OperatorKey(), "keyFormat": "HEX_ECDSA",
	}
	signer := network.Signers()[0]
	open := func(without string) (*service.Service, error) {
		entry := map[string]any{}
		for field, value := range whole {
			if field != without {
				entry[field] = value
			}
		}
		text := must.Get(json.Marshal(map[string]any{"298": entry}))(t)
		// Elsewhere than the chain's entry says, so that every field of it counts.
		cfg, err := config.LoadManager([]string{
			"TXM_CHAINS=" + string(text), "DATABASE_URL=memory:", "RELAYER_PRIVATE_KEYS=" + strings.TrimPrefix(signer.PrivateKey, "0x"), "INSTANCE_ID=t",
			"HEDERA_NETWORK=" + `{"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "OPERATOR_KEY_FORMAT=DER",
		})
		if err != nil {
			return nil, err
		}
		log := slog.New(slog.DiscardHandler)
		return service.New(t.Context(), cfg.TXM, service.Deps{Drivers: drivers(cfg, log), Log: log})
	}
	s := must.Get(open(""))(t)
	defer func() { _ = s.Close() }()
	chain := must.Get(s.Manager.Chain("298"))(t)
	if n := chain.Traits().InFlight; n != 3 {
		t.Errorf("inFlight is %d", n)
	}
	if _, err := chain.Head(t.Context()); err != nil {
		t.Errorf("its mirror node: %v", err)
	}
	if nonce, err := chain.HighestPending(t.Context(), signer.Address); err != nil || nonce != 0 { // a query that the operator pays
		t.Errorf("its nodes say %d, %v", nonce, err)
	}
	described := make(chan *prometheus.Desc, 1000)
	s.Describe(described)
	close(described)
	var own []string
	for d := range described {
		if text := d.String(); strings.Contains(text, `constLabels: {chain="298"}`) {
			own = append(own, text)
		}
	}
	for _, part := range []string{"consensus", "mirror"} {
		if !strings.Contains(fmt.Sprint(own), part) {
			t.Errorf("no metric of the client of %s is registered; of this chain are %v", part, own)
		}
	}
	if s, err := open("inFlight"); err != nil {
		t.Error(err)
	} else {
		chain, _ := s.Manager.Chain("298")
		if n := chain.Traits().InFlight; n != 1 {
			t.Errorf("inFlight is %d by itself", n)
		}
		_ = s.Close()
	}
	for _, field := range []string{"operator", "key", "keyFormat"} {
		if s, err := open(field); err == nil {
			t.Errorf("without %q the settings were taken", field)
			_ = s.Close()
		}
	}
	for _, field := range []string{"url", "network"} {
		s, err := open(field)
		if err != nil {
			continue
		}
		chain, _ := s.Manager.Chain("298")
		_, head := chain.Head(t.Context())
		_, nonce := chain.HighestPending(t.Context(), signer.Address)
		if head == nil && nonce == nil {
			t.Errorf("without %q the chain was reached", field)
		}
		_ = s.Close()
	}
}

// testWrongOperator: a manager whose operator's key is that of another account says so to a probe, which needs no key, and as a metric.
func testWrongOperator(t *testing.T, network *devnet.Network) {
	nodes := must.Get(json.Marshal(network.Nodes()))(t)
	cfg := must.Get(config.LoadManager([]string{
		`TXM_CHAINS={"298":{"driver":"hedera"}}`, "DATABASE_URL=memory:", "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS=127.0.0.1:0", "INSTANCE_ID=t",
		"HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + network.Mirror(),
		"RELAYER_PRIVATE_KEYS=" + strings.TrimPrefix(network.Signers()[0].PrivateKey, "0x"),
		"OPERATOR_ID_MAIN=0.0.1003", "OPERATOR_KEY_MAIN=" + devnet.OperatorKey(), "OPERATOR_KEY_FORMAT=HEX_ECDSA",
	}))(t)
	log := slog.New(slog.DiscardHandler)
	s := must.Get(service.New(t.Context(), cfg.TXM, service.Deps{Drivers: drivers(cfg, log), Log: log}))(t)
	must.Do(t, s.Listen(t.Context()))
	must.Run(t, s.Run)
	const cause = "chain 298: the operator's key is not the key of its account 0.0.1003"
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		code, out, errs := lockstep(t, nil, "health", "--url", s.URL())
		if code == 1 && strings.Contains(errs, cause) {
			break
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("a probe is told %q %q", out, errs)
		}
	}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/metrics", nil))(t)
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if body := string(content); err != nil || !strings.Contains(body, `txm_operator_ok{chain="298"} 0`) || !strings.Contains(body, `txm_operator_balance_tinybars{accountId="0.0.1003",chain="298"}`) {
		t.Errorf("%v: %s", err, body)
	}
}

// TestTraitsOfEntries: what a chain's entry says becomes the traits that the manager goes by.
func TestTraitsOfEntries(t *testing.T) {
	for entry, want := range map[string]txmgr.Traits{
		``:                                       {Mempool: true, Depth: 12, InFlight: 16},
		`,"mempool":true,"depth":3,"inFlight":4`: {Mempool: true, Depth: 3, InFlight: 4},
		`,"mempool":false`:                       {Order: txmgr.OrderStrict, InFlight: 1},
		`,"mempool":false,"depth":2,"inFlight":5`: {Order: txmgr.OrderStrict, Depth: 2, InFlight: 5},
		`,"driver":"ethereum","mempool":false`:    {Order: txmgr.OrderStrict, InFlight: 1},
	} {
		list, err := service.Chains{Chains: secret.String(`{"295":{"url":["http://127.0.0.1:1"]` + entry + `}}`)}.Parse()
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		chain, err := drivers(config.Manager{}, slog.New(slog.DiscardHandler))[list[0].Driver](t.Context(), list[0])
		if err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		want.Unit = txmgr.Unit{Name: "ETH", Decimals: 18}
		if got := chain.Traits(); got != want {
			t.Errorf("%s: the traits are %+v, want %+v", entry, got, want)
		}
	}
	for _, driver := range []string{"hedera", "near"} {
		text := `{"295":{"driver":"` + driver + `","mempool":false}}`
		if list, err := (service.Chains{Chains: secret.String(text)}).Parse(); err == nil {
			t.Errorf("%s is taken: %v", text, list)
		}
	}
}
