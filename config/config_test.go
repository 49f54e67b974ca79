package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
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
	c := must.Get(Load(enough("LOCK_MAX_HOLD_MS=1500", "WS_CONNECTION_LIMIT=", "ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=2s")))(t)
	if c.Server.ChainID.Hex() != "0x12a" || c.Server.Port != 7546 || c.RPC.WebSocket.ConnectionLimit != 10 {
		t.Errorf("defaults: %+v", c.Server)
	}
	if !c.Lock.Enabled || c.Lock.MaxHold.Duration() != 1500*time.Millisecond || c.Lock.Window.Duration() != 2*time.Second {
		t.Errorf("lock settings: %+v", c.Lock)
	}
	if c.Lock.HeartbeatMissed != 5 || c.Precheck.MaxGasLimit != 15_000_000 {
		t.Error("defaults of the parts are missing")
	}
}

// All mistakes come at once: what cannot be read does not hide what makes no sense.
func TestLoadReportsFormAndSenseTogether(t *testing.T) {
	c, err := Load([]string{"SERVER_PORT=http", "WEB_SOCKET_PORT=70000", "LOG_LEVEL=loud", "CHAIN_ID=0x12a", "ADMIN_TOKEN_FILE=/no/such/file"})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	for _, part := range []string{"SERVER_PORT: ", "WEB_SOCKET_PORT: 70000 is not a port", `LOG_LEVEL "loud"`, "OPERATOR_ID_MAIN=0.0.1234", "MIRROR_NODE_URL", "ADMIN_TOKEN_FILE"} {
		if n := strings.Count(err.Error(), part); n != 1 {
			t.Errorf("%q is said %d times in:\n%v", part, n, err)
		}
	}
	if c.Server.ChainID.Hex() != "0x12a" || c.Server.Port != 7546 || c.Server.WebSocketPort != 70000 {
		t.Errorf("what could be read is not there: %+v", c.Server)
	}
}

// Several settings have fields of one name. Each mistake has the name of its own setting, in words, and hides no other mistake.
func TestMistakesHaveTheNamesOfTheirSettings(t *testing.T) {
	has := func(err error, lines ...string) {
		t.Helper()
		if err == nil {
			t.Fatal("nonsense was accepted")
		}
		for _, line := range lines {
			if n := strings.Count("\n"+err.Error()+"\n", "\n"+line+"\n"); n != 1 {
				t.Errorf("%q is said %d times in:\n%v", line, n, err)
			}
		}
		if strings.Contains(err.Error(), "strconv") {
			t.Errorf("not in plain words:\n%v", err)
		}
	}
	const neither = " is neither a number of milliseconds nor a duration such as 1m30s"
	_, err := Load([]string{"CACHE_TTL=y", "FILTER_TTL=x", "RPC_HTTP_ENABLED=perhaps", "BATCH_REQUESTS_MAX_SIZE=many", "WS_BATCH_REQUESTS_MAX_SIZE=9999999999999999999", "MIRROR_NODE_RETRY_BUDGET=much"})
	has(err, `CACHE_TTL: "y"`+neither, `FILTER_TTL: "x"`+neither, `RPC_HTTP_ENABLED: "perhaps" is neither true nor false`,
		`BATCH_REQUESTS_MAX_SIZE: "many" is not a whole number, such as 10`, `WS_BATCH_REQUESTS_MAX_SIZE: the number 9999999999999999999 is too large`,
		`MIRROR_NODE_RETRY_BUDGET: "much" is not a number, such as 0.5`, "MIRROR_NODE_URL is not set; it says where the mirror node is, such as https://testnet.mirrornode.hedera.com",
		`HEDERA_NETWORK: it is not set; want mainnet, testnet, previewnet, or the nodes as JSON, such as {"127.0.0.1:50211":"0.0.3"}`)
	_, err = LoadManager([]string{"TXM_RETENTION=later", "TXM_WEBHOOK_RETENTION=soon"})
	has(err, `TXM_RETENTION: "later"`+neither, `TXM_WEBHOOK_RETENTION: "soon"`+neither)
	_, err = LoadWatchers([]string{"WATCH_RETENTION=soon"})
	has(err, `WATCH_RETENTION: "soon"`+neither)
}

// A name that nothing reads is told with the setting that it is near; what belongs to other
// programs is not.
func TestMisspelt(t *testing.T) {
	for name, near := range map[string]string{
		"ENABLE_NONCE_ORDERNG": "ENABLE_NONCE_ORDERING", "ENABLE_NONCE_ODRERING": "ENABLE_NONCE_ORDERING", "enable_nonce_ordering": "ENABLE_NONCE_ORDERING",
		"REDIS-ENABLED": "REDIS_ENABLED", "CHAINID": "CHAIN_ID", "OPERATOR_KEY_MAIM": "OPERATOR_KEY_MAIN", "MIRROR_NODE_URLS": "MIRROR_NODE_URL",
		"ENABLE_NONCE_ORDERING": "", "WORKERS_POOL_ENABLED": "", "PATH": "", "HOME": "", "HOSTNAME": "", "GOPATH": "", "PORT": "", "SHLVL": "", "LC_ALL": "",
		"KUBERNETES_SERVICE_HOST": "", "REDIS_HOST": "", "SERVER_NAME": "", "LOG_FORMAT": "", "TERM": "", "LOGNAME": "", "TEST_TMPDIR": "",
	} {
		c, _ := Load([]string{name + "=1"})
		var want []Misspelt
		if near != "" {
			want = []Misspelt{{Name: name, Near: near}}
		}
		if !slices.Equal(c.Misspelt, want) {
			t.Errorf("%s: %v, want %v", name, c.Misspelt, want)
		}
	}
}

// The manager and the watchers are told of misspelt names, too, also when their settings are wrong. Numbered keys are
// none, though they are near the name of the list.
func TestMisspeltForOthers(t *testing.T) {
	watchers, _ := LoadWatchers([]string{"PRETTY_LOGS_ENABLED=perhaps", "WATCH_FIEL=watch.yaml", "PATH=/bin"})
	if want := []Misspelt{{Name: "WATCH_FIEL", Near: "WATCH_FILE"}}; !slices.Equal(watchers.Misspelt, want) {
		t.Errorf("%v, want %v", watchers.Misspelt, want)
	}
	for _, chains := range []string{"TXM_CHAINS=31337=http://127.0.0.1:1", "TXM_CHAINS="} {
		c, _ := LoadManager([]string{
			chains, "TXM_IN_FLIHGT=3", "RELAYER_PRIVATE_KEY_0=" + strings.Repeat("1", 64), "RELAYER_PRIVATE_KEY_17_FILE=/nowhere", "PATH=/bin",
		})
		if want := []Misspelt{{Name: "TXM_IN_FLIHGT", Near: "TXM_IN_FLIGHT"}}; !slices.Equal(c.Misspelt, want) {
			t.Errorf("%s: %v, want %v", chains, c.Misspelt, want)
		}
	}
}

// A line of a template that has no value but a comment gives nothing.
func TestEnvironTakesNoCommentForAValue(t *testing.T) {
	dir := t.TempDir()
	text := "A=   # the address\nexport B= # none\nC=\nD=x # a comment\nE=\"# no comment\"\nF=a#b\n#G=1\n  H\t=\t# none\nI=60000000000# 600 HBARs\nJ=a#b# c\nK='a# b'\nL=a#\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(text), 0o600))
	all, _ := must.Get2(Environ(nil, dir))(t)
	slices.Sort(all)
	if want := []string{"A=", "B=", "C=", "D=x", "E=# no comment", "F=a#b", "H=", "I=60000000000", "J=a#b", "K=a# b", "L=a"}; !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
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
	must.Do(t, os.WriteFile(tokenFile, []byte("sesame\n"), 0o600))
	c, err := Load(enough("REDIS_URL=redis://:hunter2@127.0.0.1:6379", "ADMIN_TOKEN_FILE="+tokenFile, "MIRROR_NODE_AUTH_HEADER=Bearer abc123", "MIRROR_NODE_URL=http://user:letmein@127.0.0.1:5551/keyInThePath"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.AdminToken.Reveal() != "sesame" {
		t.Errorf("the token file was not read")
	}
	printed := fmt.Sprintf("%v %+v %#v %v", c, c, c, c.Effective())
	for _, word := range []string{operatorKey, "hunter2", "sesame", "abc123", "letmein", "keyInThePath"} {
		if strings.Contains(printed, word) {
			t.Errorf("%s is in a print of the configuration", word)
		}
	}
	_, err = Load(append(enough(), "OPERATOR_KEY_MAIN="+operatorKey+"zz"))
	if err == nil || strings.Contains(err.Error(), operatorKey) {
		t.Errorf("error of a broken key: %v", err)
	}
}

// Another file than .env can be named. It must be there; the environment wins over it, too.
func TestAnotherEnvFile(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "lockstep.env")
	for name, text := range map[string]string{".env": "A=env\nB=env\n", "lockstep.env": "A=other\nC=other\n"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{other, "lockstep.env"} { // in the working directory
		all, used, err := Environ([]string{"C=environment", EnvFile + "=" + name}, dir)
		slices.Sort(all)
		if want := []string{"A=other", "C=environment", EnvFile + "=" + name}; err != nil || used != other || !slices.Equal(all, want) {
			t.Errorf("%q from %q, %v; want %q", all, used, err, want)
		}
	}
	if _, _, err := Environ([]string{EnvFile + "=missing.env"}, dir); err == nil || !strings.Contains(err.Error(), EnvFile) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, used, err := Environ([]string{EnvFile + "="}, dir); err != nil || used != filepath.Join(dir, ".env") {
		t.Errorf("no name: %q, %v", used, err)
	}
}

// The .env file is read from the working directory, and not from those above it.
func TestEnvFileOfAnotherFolderIsNotRead(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	must.Do(t, os.MkdirAll(deep, 0o755))
	file := filepath.Join(root, ".env")
	must.Do(t, os.WriteFile(file, []byte("A=file\nB='quoted words'\n# comment\nC=file\n"), 0o600))
	if all, used, err := Environ([]string{"A=environment"}, deep); used != "" || err != nil || len(all) != 1 {
		t.Errorf("below the file: %q, %q, %v", all, used, err)
	}
	all, used, err := Environ([]string{"A=environment", "C="}, root)
	if err != nil || used != file {
		t.Fatalf("used %q, %v", used, err)
	}
	slices.Sort(all)
	if want := []string{"A=environment", "B=quoted words", "C="}; !slices.Equal(all, want) {
		t.Errorf("environment %q, want %q", all, want)
	}
	must.Do(t, os.WriteFile(filepath.Join(deep, ".env"), []byte("'"), 0o600))
	if _, _, err := Environ(nil, deep); err == nil {
		t.Error("a broken .env file was accepted")
	}
}
