package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const operatorKey = "105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"

// enough is the least environment a relay starts with.
func enough(more ...string) []string {
	return append([]string{
		"CHAIN_ID=298",
		`HEDERA_NETWORK={"127.0.0.1:50211":"0.0.3"}`,
		"MIRROR_NODE_URL=http://127.0.0.1:5551",
		"OPERATOR_ID_MAIN=0.0.1002",
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"OPERATOR_KEY_MAIN=" + operatorKey,
	}, more...)
}

func TestLoadDefaultsAndValues(t *testing.T) {
	c, err := Load(enough("LOCK_MAX_HOLD_MS=1500", "WS_CONNECTION_LIMIT=", "ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=2s"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.ChainID.Hex() != "0x12a" || c.Server.Port != 7546 || c.RPC.WebSocket.ConnectionLimit != 10 {
		t.Errorf("defaults: %+v", c.Server)
	}
	if !c.Lock.Enabled || c.Lock.MaxHold.Duration() != 1500*time.Millisecond || c.Lock.GapHold.Duration() != 2*time.Second {
		t.Errorf("lock settings: %+v", c.Lock)
	}
	if c.Lock.HeartbeatMissed != 5 || c.Precheck.MaxGasLimit != 15_000_000 {
		t.Error("defaults of the parts are missing")
	}
}

// All mistakes come at once, each with the name of its setting.
func TestLoadReportsEveryMistake(t *testing.T) {
	_, err := Load([]string{"CHAIN_ID=mainnet", "SERVER_PORT=http", "LOCK_MAX_HOLD_MS=soon"})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	for _, name := range []string{"CHAIN_ID", "SERVER_PORT", "LOCK_MAX_HOLD_MS"} {
		if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
	_, err = Load([]string{"RPC_HTTP_ENABLED=false", "SERVER_PORT=70000", "LOCK_MAX_QUEUE_PER_SENDER=-1", "SEND_RAW_TRANSACTION_RETURNS=never"})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	for _, name := range []string{"RPC_HTTP_ENABLED", "SERVER_PORT", "LOCK_MAX_QUEUE_PER_SENDER", "SEND_RAW_TRANSACTION_RETURNS", "OPERATOR_ID_MAIN", "HEDERA_NETWORK", "MIRROR_NODE_URL"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
}

func TestReadOnlyNeedsNoOperator(t *testing.T) {
	environ := slices.DeleteFunc(enough("READ_ONLY=true"), func(s string) bool { return strings.HasPrefix(s, "OPERATOR_") })
	if _, err := Load(environ); err != nil {
		t.Error(err)
	}
}

// No print of the configuration and no error shows a secret.
func TestSecretsAreMasked(t *testing.T) {
	dir := t.TempDir()
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(enough("REDIS_URL=redis://:hunter2@127.0.0.1:6379", "ADMIN_TOKEN_FILE="+tokenFile, "MIRROR_NODE_AUTH_HEADER=Bearer abc123", "MIRROR_NODE_URL=http://user:letmein@127.0.0.1:5551"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.AdminToken.Reveal() != "sesame" {
		t.Errorf("the token file was not read")
	}
	printed := fmt.Sprintf("%v %+v %#v %v", c, c, c, c.Effective())
	for _, word := range []string{operatorKey, "hunter2", "sesame", "abc123", "letmein"} {
		if strings.Contains(printed, word) {
			t.Errorf("%s is in a print of the configuration", word)
		}
	}
	_, err = Load(append(enough(), "OPERATOR_KEY_MAIN="+operatorKey+"zz"))
	if err == nil || strings.Contains(err.Error(), operatorKey) {
		t.Errorf("error of a broken key: %v", err)
	}
}

func TestEffectiveListsEverySettingOnce(t *testing.T) {
	c, err := Load(enough())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, s := range c.Effective() {
		if _, twice := seen[s.Name]; twice {
			t.Errorf("%s is listed twice", s.Name)
		}
		seen[s.Name] = s.Value
	}
	for name, want := range map[string]string{"CHAIN_ID": "0x12a", "OPERATOR_KEY_MAIN": "**********", "OPERATOR_ID_MAIN": "0.0.1002", "LOCK_HEARTBEAT_MISSED_COUNT": "5"} {
		if seen[name] != want {
			t.Errorf("%s = %q, want %q", name, seen[name], want)
		}
	}
}

func TestEnviron(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, ".env")
	if err := os.WriteFile(file, []byte("A=file\nB='quoted words'\n# comment\nC=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, used, err := Environ([]string{"A=environment", "C="}, deep)
	if err != nil || used != file {
		t.Fatalf("used %q, %v", used, err)
	}
	slices.Sort(all)
	if want := []string{"A=environment", "B=quoted words", "C="}; !slices.Equal(all, want) {
		t.Errorf("environment %q, want %q", all, want)
	}
	if err := os.WriteFile(filepath.Join(deep, ".env"), []byte("'"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Environ(nil, deep); err == nil {
		t.Error("a broken .env file was accepted")
	}
}
