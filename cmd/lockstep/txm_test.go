package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/client"
	"lockstep/txmgr/service"
)

// A signer that gets no intents is not shown as ready.
func TestSignersSayWhyTheyArePassedOver(t *testing.T) {
	for want, signer := range map[string]client.Signer{
		"ready":                    {Ours: true, Enabled: true},
		"passed over: low balance": {Ours: true, Enabled: true, PassedOver: "low balance"},
		"paused: tired":            {Ours: true, PausedReason: "tired", PassedOver: "paused: tired"},
		"halted: restored":         {Ours: true, Enabled: true, Halted: "restored", PassedOver: "halted: restored"},
		"caller signs":             {Enabled: true},
	} {
		signer.Chain, signer.Address = "1", "0xaa"
		var out strings.Builder
		must.Do(t, printSigners(&out, []client.Signer{signer}))
		_, row, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(row, "1      0xaa     "+want+"  ") {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// The commands for a running manager find it where the settings say that it listens.
func TestWhereTheManagerIs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"signers":[{"chain":"77","address":"0xab"}]}`)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for name, env := range map[string][]string{"by the setting": {"TXM_ADDRESS=" + address}, "by the flag": {"TXM_ADDRESS=127.0.0.1:1"}} {
		args := []string{"txm", "signers"}
		if name == "by the flag" {
			args = append(args, "--url", server.URL)
		}
		if code, out, errs := lockstep(t, env, args...); code != 0 || !strings.Contains(out, "0xab") {
			t.Errorf("%s: %d %q %q", name, code, out, errs)
		}
	}
}

// What a running process is asked for is asked of that one alone: a call that is sent on may come as another one, and it may be somebody else's.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another host got %s %s", r.Method, r.URL)
		_, _ = io.WriteString(w, `{}`)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	for _, args := range [][]string{
		{"txm", "signers", "--url", server.URL},
		{"txm", "send", "77", "0xaa", "--url", server.URL},
		{"locks", "--admin", server.URL},
		{"locks", "off", "--admin", server.URL},
		{"top", "--admin", server.URL},
	} {
		if code, out, errs := lockstep(t, nil, args...); code != 1 || !strings.Contains(errs, "302") {
			t.Errorf("%v: %d %q %q", args, code, out, errs)
		}
	}
}

// A transaction is sent from a shell under a key, with arguments as text or JSON; one that failed ends with a status of its own.
func TestSend(t *testing.T) {
	var got string
	answer := `{"id":"i1","status":"mined","hash":"0xabc","receipt":{"success":true}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.URL.String() + " " + r.Header.Get("Idempotency-Key") + " " + string(body)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	args := []string{"txm", "send", "77", "0xaa", "pay((address,bool)[],uint256)", `[["0xbb",true]]`, "1000", "--value", "5", "--key", "k1", "--url", server.URL}
	code, out, errs := lockstep(t, nil, args...)
	want := `/v1/transactions?timeout=1m0s&wait=mined k1 {"chain":"77","to":"0xaa","value":"5","function":"pay((address,bool)[],uint256)","args":[[["0xbb",true]],"1000"]}`
	if code != 0 || out != "i1 mined 0xabc\n" || strings.TrimSpace(got) != want {
		t.Errorf("%d %q %q\n got %s\nwant %s", code, out, errs, got, want)
	}
	answer = `{"id":"i1","status":"reverted","error":{"class":"reverted","message":"no money"}}`
	if code, _, errs := lockstep(t, nil, args...); code == 0 || !strings.Contains(errs, "reverted: no money") {
		t.Errorf("one that failed: %d %q", code, errs)
	}
	if code, _, errs := lockstep(t, nil, "txm", "send", "77"); code == 0 || !strings.Contains(errs, "want a receiver") {
		t.Errorf("nobody: %d %q", code, errs)
	}
}

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
	if _, nonce, err := chain.HighestPending(t.Context(), signer.Address); err != nil || nonce != 0 { // a query that the operator pays
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
		_, _, nonce := chain.HighestPending(t.Context(), signer.Address)
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
	must.Until(t, "a probe is told of the operator", func() bool {
		code, _, errs := lockstep(t, nil, "health", "--url", s.URL())
		return code == 1 && strings.Contains(errs, cause)
	})
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

// TestWatchCheck: a file without mistakes may still have sinks that a start would refuse.
func TestWatchCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "watch.yaml")
	check := func(host string, env ...string) (int, string) {
		text := `chains: [{id: 1, urls: ["http://127.0.0.1:1"]}]
watches: [{name: w, chain: 1, addresses: ["0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"], events: [A()], sinks: ["webhook:https://` + host + `/hook"]}]
`
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		code, out, errs := lockstep(t, env, "watch", "check", file)
		return code, out + errs
	}
	const secret = "WATCH_WEBHOOK_SECRET=whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	for _, of := range []struct {
		host string
		env  []string
		says string
	}{
		{"hooks.example", nil, "WATCH_WEBHOOK_SECRET"},
		{"10.0.0.1", []string{secret}, "WATCH_WEBHOOK_ALLOW"},
		{"10.0.0.1", []string{secret, "WATCH_WEBHOOK_ALLOW=10.0.0.0/8"}, ""},
		{"hooks.example", []string{secret}, ""},
	} {
		code, said := check(of.host, of.env...)
		if of.says == "" && (code != 0 || !strings.Contains(said, "no mistakes")) || of.says != "" && (code != 1 || !strings.Contains(said, of.says)) {
			t.Errorf("%s %v: %d, %s", of.host, of.env, code, said)
		}
	}
}
