package consensus

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
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
