package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

func parseEnv(t *testing.T, environ map[string]string) (Config, error) {
	t.Helper()
	return env.ParseAsWithOptions[Config](env.Options{Environment: environ})
}

func TestConfigDefaults(t *testing.T) {
	cfg := must.Get(parseEnv(t, map[string]string{"HEDERA_NETWORK": "testnet"}))(t)
	if err := cfg.Validate(); err != nil {
		t.Errorf("the defaults with a network: %v", err)
	}
	if cfg.attemptTimeout() != 10*time.Second || cfg.RequestTimeout.Duration() != 10*time.Second || cfg.MaxAttempts != 10 {
		t.Errorf("defaults: %v %v %d", cfg.attemptTimeout(), cfg.RequestTimeout, cfg.MaxAttempts)
	}
}

// What a client waits for the verdict follows from what a submission may take.
func TestPatience(t *testing.T) {
	for submission, want := range map[time.Duration]time.Duration{
		time.Second: 3 * time.Second, 10 * time.Second: 30 * time.Second, 20 * time.Second: 30 * time.Second, time.Minute: time.Minute,
	} {
		cfg := Config{RequestTimeout: envx.Millis(submission)}
		if got := cfg.VerdictWait(); got != want {
			t.Errorf("a submission may take %v: patience %v, want %v", submission, got, want)
		}
	}
}

func TestConfigTimeouts(t *testing.T) {
	for _, test := range []struct {
		environ map[string]string
		want    time.Duration
	}{
		{map[string]string{"SDK_GRPC_DEADLINE": "2500"}, 2500 * time.Millisecond},
		{map[string]string{"CONSENSUS_MAX_EXECUTION_TIME": "15000"}, 15 * time.Second},
		{map[string]string{"CONSENSUS_MAX_EXECUTION_TIME": "15000", "SDK_GRPC_DEADLINE": "3s"}, 3 * time.Second},
	} {
		cfg, err := parseEnv(t, test.environ)
		if err != nil || cfg.attemptTimeout() != test.want {
			t.Errorf("%v: %v, %v; want %v", test.environ, cfg.attemptTimeout(), err, test.want)
		}
	}
}

func TestOperatorKeys(t *testing.T) {
	const derEd25519 = "302e020100300506032b657004220420" + devEd25519
	file := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(file, []byte(derEd25519+"\n"), 0o600))
	tests := []struct {
		name    string
		environ map[string]string
		kind    hedera.KeyKind
	}{
		{"DER by default", map[string]string{"OPERATOR_KEY_MAIN": derEd25519}, hedera.Ed25519},
		{"DER of ECDSA", map[string]string{"OPERATOR_KEY_MAIN": "3030020100300706052b8104000a04220420" + devECDSA[2:], "OPERATOR_KEY_FORMAT": "DER"}, hedera.Secp256k1},
		{"hex Ed25519", map[string]string{"OPERATOR_KEY_MAIN": devEd25519, "OPERATOR_KEY_FORMAT": "HEX_ED25519"}, hedera.Ed25519},
		{"hex ECDSA", map[string]string{"OPERATOR_KEY_MAIN": devECDSA, "OPERATOR_KEY_FORMAT": "HEX_ECDSA"}, hedera.Secp256k1},
		{"from a file", map[string]string{"OPERATOR_KEY_MAIN_FILE": file}, hedera.Ed25519},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.environ["OPERATOR_ID_MAIN"], test.environ["HEDERA_NETWORK"] = "0.0.1002", "previewnet"
			cfg := must.Get(parseEnv(t, test.environ))(t)
			c := must.Get(New(cfg, quickLog(t)))(t)
			address, hasAddress := c.OperatorAddress()
			if wantAddress, want := c.operators.main().Key.Address(); address != wantAddress || hasAddress != want {
				t.Errorf("operator address %s, %v", address, hasAddress)
			}
			if id, ok := c.Operator(); !ok || id != hedera.Entity(1002) || c.operators.main().Key.Kind() != test.kind {
				t.Errorf("operator %s, %v, kind %d", id, ok, c.operators.main().Key.Kind())
			}
			if dump := fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg); strings.Contains(dump, devEd25519) || strings.Contains(dump, devECDSA[2:]) {
				t.Errorf("the key is in the dump of the configuration: %s", dump)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	valid := func() Config {
		return Config{
			Network: `{"127.0.0.1:50211":"0.0.3"}`, OperatorID: "0.0.2", OperatorKey: devECDSA, OperatorKeyFormat: "HEX_ECDSA",
			AttemptTimeout: 1e9, RequestTimeout: 1e9, MaxAttempts: 1,
		}
	}
	tests := []struct {
		name  string
		spoil func(*Config)
		want  []string // in the error; none means valid
	}{
		{"valid", func(*Config) {}, nil},
		{"no operator at all", func(c *Config) { c.OperatorID, c.OperatorKey = "", "" }, nil},
		{"no network", func(c *Config) { c.Network = "" }, []string{"HEDERA_NETWORK"}},
		{"unknown network", func(c *Config) { c.Network = "moonnet" }, []string{"HEDERA_NETWORK", "moonnet"}},
		{"broken map", func(c *Config) { c.Network = `{"127.0.0.1:50211"}` }, []string{"HEDERA_NETWORK"}},
		{"empty map", func(c *Config) { c.Network = `{}` }, []string{"HEDERA_NETWORK", "no nodes"}},
		{"no port", func(c *Config) { c.Network = `{"127.0.0.1":"0.0.3"}` }, []string{"HEDERA_NETWORK", "host:port"}},
		{"port 0", func(c *Config) { c.Network = `{"127.0.0.1:0":"0.0.3"}` }, []string{"HEDERA_NETWORK", "host:port"}},
		{"bad account", func(c *Config) { c.Network = `{"127.0.0.1:1":"3"}` }, []string{"HEDERA_NETWORK", "shard.realm.num"}},
		{"pins that are no JSON", func(c *Config) { c.CertHashes = "ff" }, []string{"HEDERA_NODE_CERT_HASHES"}},
		{"a short pin", func(c *Config) { c.CertHashes = `{"0.0.3":"ff"}` }, []string{"HEDERA_NODE_CERT_HASHES", "0.0.3"}},
		{"id without key", func(c *Config) { c.OperatorKey = "" }, []string{"OPERATOR_KEY_MAIN"}},
		{"key without id", func(c *Config) { c.OperatorID = "" }, []string{"OPERATOR_ID_MAIN"}},
		{"two keys", func(c *Config) { c.OperatorKeyFile = devECDSA }, []string{"OPERATOR_KEY_MAIN_FILE"}},
		{"bad id", func(c *Config) { c.OperatorID = "two" }, []string{"OPERATOR_ID_MAIN"}},
		{"bad key", func(c *Config) { c.OperatorKeyFormat = "DER" }, []string{"OPERATOR_KEY_MAIN", "OPERATOR_KEY_FORMAT=HEX_ECDSA"}},
		{"hex key without a format", func(c *Config) { c.OperatorKeyFormat = "" }, []string{"OPERATOR_KEY_MAIN", "OPERATOR_KEY_FORMAT=HEX_ECDSA"}},
		{"bad format", func(c *Config) { c.OperatorKeyFormat = "PEM" }, []string{"Invalid OPERATOR_KEY_FORMAT provided: PEM"}},
		{
			"all at once", func(c *Config) { *c = Config{OperatorID: "0.0.2"} },
			[]string{"HEDERA_NETWORK", "OPERATOR_KEY_MAIN", "SDK_GRPC_DEADLINE", "SDK_REQUEST_TIMEOUT", "SDK_MAX_ATTEMPTS"},
		},
	}
	for _, test := range tests {
		cfg := valid()
		test.spoil(&cfg)
		_, err := New(cfg, quickLog(t))
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in %q", test.name, part, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), devECDSA[2:]) {
			t.Errorf("%s: the key is in %q", test.name, err)
		}
	}
}

func TestBuiltinNetworks(t *testing.T) {
	for name, count := range map[string]int{"mainnet": 29, "Testnet": 7, "PREVIEWNET": 7} {
		nodes, err := ParseNetwork(name)
		if err != nil || len(nodes) != count {
			t.Errorf("%s: %d nodes, %v; want %d", name, len(nodes), err, count)
			continue
		}
		if nodes[0].ID != hedera.Entity(3) {
			t.Errorf("%s: the first node is %s", name, nodes[0].ID)
		}
		for _, n := range nodes {
			if len(n.CertHash) != 48 || len(n.Endpoints) == 0 {
				t.Errorf("%s: node %s has no pin or no endpoint", name, n.ID)
			}
			for _, endpoint := range n.Endpoints {
				if err := checkEndpoint(endpoint); err != nil || !strings.HasSuffix(endpoint, ":50211") {
					t.Errorf("%s: endpoint %q of node %s: %v", name, endpoint, n.ID, err)
				}
			}
			if secure, withTLS := n.dialAddresses(true); !withTLS || len(secure) != len(n.Endpoints) || !strings.HasSuffix(secure[0], ":50212") {
				t.Errorf("%s: node %s with TLS is at %v", name, n.ID, secure)
			}
		}
	}
}

func TestNetworkMap(t *testing.T) {
	nodes := must.Get(ParseNetwork(` {"b.example:50212":"0.0.4", "127.0.0.1:50211":"0.0.3", "A.example:50211":"0.0.4", "[::1]:9":"1.2.3"} `))(t)
	want := []NodeAddress{
		{ID: hedera.Entity(3), Endpoints: []string{"127.0.0.1:50211"}},
		{ID: hedera.Entity(4), Endpoints: []string{"a.example:50211", "b.example:50212"}},
		{ID: hedera.ID{Shard: 1, Realm: 2, Num: 3}, Endpoints: []string{"[::1]:9"}},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDialAddresses(t *testing.T) {
	tests := []struct {
		endpoints []string
		secure    bool
		want      []string
		withTLS   bool
	}{
		{[]string{"a:50211"}, false, []string{"a:50211"}, false},
		{[]string{"a:50211"}, true, []string{"a:50212"}, true},
		{[]string{"a:50212"}, false, []string{"a:50212"}, true},
		{[]string{"a:50211", "a:50212"}, false, []string{"a:50211"}, false},
		{[]string{"a:50211", "a:50212", "b:50211"}, true, []string{"a:50212", "b:50212"}, true},
		{[]string{"a:443"}, true, []string{"a:443"}, true},
		{[]string{"a:443"}, false, []string{"a:443"}, false},
	}
	for _, test := range tests {
		address := NodeAddress{Endpoints: test.endpoints}
		got, withTLS := address.dialAddresses(test.secure)
		if !slices.Equal(got, test.want) || withTLS != test.withTLS {
			t.Errorf("%v, secure %v: %v, %v; want %v, %v", test.endpoints, test.secure, got, withTLS, test.want, test.withTLS)
		}
	}
}

// The wording of what is wrong with PAYMASTER_ACCOUNTS is established.
func TestPaymasterAccountsAreChecked(t *testing.T) {
	const key = "0x0000000000000000000000000000000000000000000000000000000000000001"
	entry := func(items ...any) string {
		text := must.Get(json.Marshal([][]any{{"0.0.5", "HEX_ECDSA", key, "80"}, items}))(t)
		return string(text)
	}
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"[]", ""},
		{entry("0.0.6", "HEX_ECDSA", key, "80"), ""},
		{entry("0.0.6", "HEX_ED25519", key, 80), ""},
		{entry("0.0.6", "HEX_ED25519", "302e020100300506032b657004220420"+devEd25519, "1"), ""},
		{entry("0.0.6", "HEX_ECDSA", "3030020100300706052b8104000a04220420"+devECDSA[2:], "1"), ""},
		{"{}", "PAYMASTER_ACCOUNTS: want a JSON array of arrays"},
		{`["0.0.6"]`, "PAYMASTER_ACCOUNTS: Entry 0 must be an array of 4 elements"},
		{entry("0.0.6", "HEX_ECDSA", key), "PAYMASTER_ACCOUNTS: Entry 1 must be an array of 4 elements"},
		{entry("0.6", "HEX_ECDSA", key, "80"), "PAYMASTER_ACCOUNTS: Entry 1: invalid account id format, required format is realm.shard.num"},
		{entry("0.0.6", "DER", key, "80"), "PAYMASTER_ACCOUNTS: Entry 1: key type must be HEX_ECDSA or HEX_ED25519"},
		{entry("0.0.6", "HEX_ECDSA", key[2:], "80"), "PAYMASTER_ACCOUNTS: Entry 1: invalid private key format, it must be 0x prefixed hex or der encoded (48 or 50 bytes)"},
		{entry("0.0.6", "HEX_ECDSA", key, "0"), "PAYMASTER_ACCOUNTS: Entry 1: allowanceInHBAR must be an integer >= 1"},
		{entry("0.0.6", "HEX_ECDSA", key, "1.5"), "PAYMASTER_ACCOUNTS: Entry 1: allowanceInHBAR must be an integer >= 1"},
	} {
		c := PayerConfig{Paymasters: secret.String(test.text)}
		_, err := c.paymasters(nil)
		if got := fmt.Sprint(err); err == nil && test.want != "" || err != nil && got != test.want {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), key[2:]) {
			t.Error("the error shows a key")
		}
	}
}

func TestPayerSettingsAreChecked(t *testing.T) {
	main := Config{OperatorID: "0.0.2", OperatorKey: devECDSA, OperatorKeyFormat: "HEX_ECDSA", Network: `{"127.0.0.1:1":"0.0.3"}`, MaxAttempts: 1, AttemptTimeout: 1e9, RequestTimeout: 1e9}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // empty: fine
	}{
		"nothing more": {func(*Config) {}, ""},
		"two more": {func(c *Config) {
			c.Payers.Operators = `[["0.0.3","HEX_ECDSA","` + devECDSA + `"],["0.0.4","HEX_ED25519","` + devEd25519 + `"]]`
		}, ""},
		"the main one again": {func(c *Config) { c.Payers.Operators = `[["0.0.2","HEX_ECDSA","` + devECDSA + `"]]` }, "0.0.2 is there already"},
		"no key":             {func(c *Config) { c.Payers.Operators = `[["0.0.3","HEX_ECDSA"]]` }, "OPERATOR_ACCOUNTS: Entry 0 must be an array of 3 elements"},
		"a bad key":          {func(c *Config) { c.Payers.Operators = `[["0.0.3","HEX_ECDSA","0x12"]]` }, "OPERATOR_ACCOUNTS: Entry 0"},
		"no main one": {func(c *Config) {
			c.OperatorID, c.OperatorKey, c.Payers.Operators = "", "", `[["0.0.3","HEX_ECDSA","`+devECDSA+`"]]`
		}, "OPERATOR_ID_MAIN is not"},
		"value and file":      {func(c *Config) { c.Payers.Operators, c.Payers.OperatorsFile = "[]", "[]" }, "OPERATOR_ACCOUNTS and OPERATOR_ACCOUNTS_FILE are both set"},
		"unknown choice":      {func(c *Config) { c.Payers.Choice = "dice" }, `OPERATOR_CHOICE "dice"`},
		"negative allowance":  {func(c *Config) { c.Payers.MaxGasAllowance = -1 }, "MAX_GAS_ALLOWANCE_HBAR"},
		"no address":          {func(c *Config) { c.Payers.Paymaster, c.Payers.PaymasterWhitelist = true, envx.Strings{"0x12"} }, "PAYMASTER_WHITELIST"},
		"list without shape":  {func(c *Config) { c.Payers.PaymasterWhitelists = `[["0.0.3"]]` }, "PAYMASTER_ACCOUNTS_WHITELISTS: Entry 0"},
		"list of no address":  {func(c *Config) { c.Payers.PaymasterWhitelists = `[["0.0.3",["0x1"]]]` }, "is not an address"},
		"list of a non-entry": {func(c *Config) { c.Payers.PaymasterWhitelists = `{"0.0.3":[]}` }, "want a JSON array of arrays"},
	} {
		t.Run(name, func(t *testing.T) {
			c := main
			test.change(&c)
			err := c.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			shown := fmt.Sprintf("%v %+v %#v", c, c, err)
			if strings.Contains(shown, devECDSA[2:]) || strings.Contains(shown, devEd25519) {
				t.Error("a key shows")
			}
		})
	}
}

// Of several lists the last one that names an address counts; what its account does not
// provide falls to the main operator.
func TestWhoSubsidises(t *testing.T) {
	a, b, c := common.Address{1}, common.Address{2}, common.Address{3}
	account := func(num int) string { return fmt.Sprintf(`["0.0.%d","HEX_ECDSA","%s",%d]`, num, devECDSA, num) }
	list := func(num int, of ...common.Address) string {
		text, _ := json.Marshal(of)
		return fmt.Sprintf(`["0.0.%d",%s]`, num, text)
	}
	config := PayerConfig{
		Paymasters:          secret.String("[" + account(5) + "," + account(6) + "]"),
		PaymasterWhitelists: "[" + list(5, a, b, c) + "," + list(6, b) + "," + list(7, c) + "]",
		Paymaster:           true, PaymasterWhitelist: envx.Strings{c.Hex(), a.Hex()}, MaxGasAllowance: 9,
	}
	main := &Operator{ID: hedera.Entity(2)}
	p := must.Get(config.paymasters(main))(t)
	for address, want := range map[common.Address]int64{a: 5, b: 6, c: 2} {
		got, ok := p.find(&address)
		allowance := want
		if want == 2 {
			allowance = 9
		}
		if !ok || got.Payer.ID.Num != want || got.Allowance != hedera.Tinybar(allowance)*hedera.Hbar {
			t.Errorf("%s: %+v, want 0.0.%d", address, got, want)
		}
	}
	if got, ok := p.find(nil); ok {
		t.Errorf("a creation is paid for by %s", got.Payer.ID)
	}
}

// An operator that joins takes over some senders and changes nothing for the others.
func TestOperatorsOfSendersStay(t *testing.T) {
	set := &operators{}
	for num := int64(2); num < 6; num++ {
		set.all = append(set.all, &Operator{ID: hedera.Entity(num)})
	}
	more := &operators{all: append(slices.Clip(set.all), &Operator{ID: hedera.Entity(9)})}
	moved, counts := 0, map[hedera.ID]int{}
	for i := range 2000 {
		sender := common.Address{byte(i), byte(i >> 8), 5}
		before, after := set.pick(sender), more.pick(sender)
		counts[after.ID]++
		if before != after {
			moved++
			if after.ID != hedera.Entity(9) {
				t.Fatalf("sender %s moved from %s to %s", sender, before.ID, after.ID)
			}
		}
	}
	if moved == 0 || moved > 600 {
		t.Errorf("%d of 2000 senders moved", moved)
	}
	for id, n := range counts {
		if n < 250 {
			t.Errorf("operator %s has %d of 2000 senders", id, n)
		}
	}
}

// A node that denies its account has the address book fetched again, soon and once, and the
// node that took its place is used.
func TestDeniedAccountRefreshesTheBook(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	a.submit = answers(hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT)
	c := quick(t, a)
	var fetched atomic.Int64
	c.refresh = 1e18 // never by itself
	c.Follow(func(context.Context) ([]NodeAddress, error) {
		if fetched.Add(1) == 1 {
			return []NodeAddress{a.nodeAddress()}, nil // as it was
		}
		return []NodeAddress{b.nodeAddress()}, nil
	})
	must.Run(t, c.Run)
	must.Until(t, "the fetch at the start", func() bool { return fetched.Load() == 1 })
	pending, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
	if err == nil && pending.Node() != b.id {
		t.Errorf("taken by %s", pending.Node())
	}
	must.Until(t, "the node of the new book", func() bool { return c.nodeFor([20]byte{}) == b.id })
}

// What is no usable book changes nothing, and a pin is not lost to a book without one.
func TestRefresh(t *testing.T) {
	c := quickNetwork(t, "testnet")
	first := c.nodes.all()[0]
	entry := NodeAddress{ID: first.id, Endpoints: []string{"127.0.0.1:1"}}
	for name, book := range map[string]struct {
		addresses []NodeAddress
		err       error
	}{
		"error":       {nil, errors.New("no answer")},
		"empty":       {nil, nil},
		"no endpoint": {[]NodeAddress{{ID: hedera.Entity(3)}}, nil},
		"no account":  {[]NodeAddress{{Endpoints: []string{"127.0.0.1:1"}}}, nil},
		"twice":       {[]NodeAddress{entry, entry}, nil},
		"bad address": {[]NodeAddress{{ID: hedera.Entity(3), Endpoints: []string{"127.0.0.1"}}}, nil},
	} {
		before := c.nodes.all()
		err := c.Refresh(t.Context(), func(context.Context) ([]NodeAddress, error) { return book.addresses, book.err })
		if after := c.nodes.all(); err == nil || len(after) != len(before) || after[0] != before[0] {
			t.Errorf("%s: %v, %d nodes", name, err, len(after))
		}
	}
	must.Do(t, c.Refresh(t.Context(), func(context.Context) ([]NodeAddress, error) { return []NodeAddress{entry}, nil }))
	if got := c.nodes.all(); len(got) != 1 || len(got[0].certHash) != 48 {
		t.Errorf("the pin is lost: %v", got)
	}
}

// Only networks that are given by name follow a book.
func TestWhoFollows(t *testing.T) {
	for network, want := range map[string]bool{"testnet": true, " MainNet": true, ` {"127.0.0.1:1":"0.0.3"}`: false} {
		c := must.Get(New(Config{Network: network, MaxAttempts: 1, AttemptTimeout: 1e9, RequestTimeout: 1e9, BookRefresh: envx.Millis(1)}, quickLog(t)))(t)
		c.Follow(func(context.Context) ([]NodeAddress, error) { return nil, nil })
		if got := c.book != nil; got != want {
			t.Errorf("%s follows a book: %v", network, got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
