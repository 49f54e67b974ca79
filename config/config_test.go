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

// What `lockstep serve` refuses for its settings alone, without a word to anybody, is a mistake for Load, too.
func TestLoadRefusesWhatServeRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "plans.json")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	for name, test := range map[string]struct {
		more []string
		want string // in the error; "" for none
	}{
		"redis":                    {[]string{"REDIS_ENABLED=true", "REDIS_URL=http://127.0.0.1:17379"}, "REDIS_URL: redis URL: scheme must be"},
		"redis that is not used":   {[]string{"REDIS_URL=http://127.0.0.1:17379"}, ""},
		"redis of the locks":       {[]string{"REDIS_ENABLED=true", "LOCK_REDIS_URL=http://127.0.0.1:17379"}, "LOCK_REDIS_URL: redis URL: scheme must be"},
		"console without a token":  {[]string{"ADMIN_ADDRESS=0.0.0.0:17561"}, "ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN"},
		"console on all addresses": {[]string{"ADMIN_ADDRESS=:17561"}, "ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN"},
		"console with a token":     {[]string{"ADMIN_ADDRESS=0.0.0.0:17561", "ADMIN_TOKEN=sesame"}, ""},
		"console on loopback":      {[]string{"ADMIN_ADDRESS=[::1]:17561"}, ""},
		"console by name":          {[]string{"ADMIN_ADDRESS=localhost:17561"}, ""},
		"console without a port":   {[]string{"ADMIN_ADDRESS=127.0.0.1"}, "ADMIN_ADDRESS: want host:port"},
		"console on no port":       {[]string{"ADMIN_ADDRESS=127.0.0.1:70000"}, "ADMIN_ADDRESS: want host:port"},
		"statuses":                 {[]string{"HEDERA_SPECIFIC_REVERT_STATUSES=NO_SUCH_STATUS"}, "HEDERA_SPECIFIC_REVERT_STATUSES: no such status: NO_SUCH_STATUS"},
		"plans":                    {[]string{"HBAR_SPENDING_PLANS_CONFIG=[1]"}, "HBAR_SPENDING_PLANS_CONFIG: "},
		"a file of plans":          {[]string{"HBAR_SPENDING_PLANS_CONFIG=" + empty}, "HBAR_SPENDING_PLANS_CONFIG: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(enough(test.more...))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

func TestLoadManagerRefusesWhatTheManagerRefuses(t *testing.T) {
	const chains = "TXM_CHAINS=31337=http://127.0.0.1:8545"
	for name, test := range map[string]struct {
		more []string
		want string
	}{
		"good":             {[]string{"DATABASE_URL=postgres://me:sesame@127.0.0.1/txm"}, ""},
		"memory":           {[]string{"DATABASE_URL=memory:"}, ""},
		"another driver":   {[]string{"DATABASE_URL=postgresql+asyncpg://me@127.0.0.1/txm?ssl=disable"}, ""},
		"another database": {[]string{"DATABASE_URL=mysql://me:sesame@127.0.0.1/txm"}, `DATABASE_URL: want sqlite:FILE, memory: or postgres://…, got scheme "mysql"`},
		"no file":          {[]string{"DATABASE_URL=sqlite:"}, "DATABASE_URL: sqlite: needs the name of a file"},
		"no URL":           {[]string{"DATABASE_URL=postgres://me:sesame@127.0.0.1:port/txm"}, "DATABASE_URL: not a PostgreSQL URL"},
		"redis":            {[]string{"TXM_REDIS_URL=http://127.0.0.1:1"}, "TXM_REDIS_URL: redis URL: scheme must be"},
		"webhooks":         {[]string{"TXM_WEBHOOK_NETWORKS=inside"}, "TXM_WEBHOOK_NETWORKS: "},
		"a key":            {[]string{"RELAYER_PRIVATE_KEYS=sesame"}, "RELAYER_PRIVATE_KEYS"},
		"a key of NEAR":    {[]string{"TXM_NEAR_KEYS=sesame"}, "TXM_NEAR_KEYS: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadManager(append([]string{chains}, test.more...))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v; want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "sesame") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestLoadWatchersRefusesWhatTheWatchersRefuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	must.Do(t, os.WriteFile(file, []byte("mysql://127.0.0.1/watch\n"), 0o600))
	for name, test := range map[string]struct {
		more []string
		want string
	}{
		"good":             {[]string{"DATABASE_URL=sqlite:watch.db", "WATCH_WEBHOOK_ALLOW=10.0.0.0/8", "WATCH_ADDRESS=off"}, ""},
		"another database": {[]string{"DATABASE_URL=mysql://127.0.0.1/watch"}, `DATABASE_URL: want sqlite:FILE, memory: or postgres://…, got scheme "mysql"`},
		"one of a file":    {[]string{"DATABASE_URL=sqlite:watch.db", "DATABASE_URL_FILE=" + file}, `got scheme "mysql"`},
		"webhooks":         {[]string{"WATCH_WEBHOOK_ALLOW=inside"}, "WATCH_WEBHOOK_ALLOW: "},
		"its listener":     {[]string{"WATCH_ADDRESS=127.0.0.1"}, "WATCH_ADDRESS: want host:port, or off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadWatchers(test.more)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

// established are all settings that the TypeScript relay knows.
const established = `
BATCH_REQUESTS_DISALLOWED_METHODS BATCH_REQUESTS_ENABLED BATCH_REQUESTS_MAX_SIZE CACHE_MAX CACHE_TTL CALL_DATA_SIZE_LIMIT CHAIN_ID
CLIENT_TRANSPORT_SECURITY CONSENSUS_MAX_EXECUTION_TIME CONTRACT_QUERY_TIMEOUT_RETRIES DEBUG_API_ENABLED DEFAULT_RATE_LIMIT DISABLE_ADMIN_NAMESPACE
DISABLE_MN_PRECHECKS_ON_TX_SENDING E2E_RELAY_HOST E2E_SERVER_PORT ENABLE_NONCE_ORDERING ENABLE_TX_POOL ETH_BLOCK_NUMBER_CACHE_TTL_MS
ETH_CALL_ACCEPTED_ERRORS ETH_CALL_CACHE_TTL ETH_FEE_HISTORY_FIXED ETH_GET_BALANCE_CACHE_TTL_MS ETH_GET_GAS_PRICE_CACHE_TTL_MS
ETH_GET_LOGS_BLOCK_RANGE_LIMIT ETH_GET_TRANSACTION_COUNT_CACHE_TTL ETH_GET_TRANSACTION_COUNT_MAX_BLOCK_RANGE EXTRA_PER_PENDING_TRANSACTION_STORAGE_TTL
FEE_HISTORY_BLOCK_PAGINATION_MAX FEE_HISTORY_MAX_RESULTS FILE_APPEND_CHUNK_SIZE FILE_APPEND_MAX_CHUNKS FILTER_API_ENABLED FILTER_TTL
GAS_PRICE_PERCENTAGE_BUFFER GAS_PRICE_TINY_BAR_BUFFER GET_RECORD_DEFAULT_TO_CONSENSUS_NODE GH_ACCESS_TOKEN GITHUB_PR_NUMBER GITHUB_REPOSITORY
GITHUB_TOKEN HAPI_CLIENT_DURATION_RESET HAPI_CLIENT_ERROR_RESET HAPI_CLIENT_TRANSACTION_RESET HBAR_RATE_LIMIT_BASIC HBAR_RATE_LIMIT_DURATION
HBAR_RATE_LIMIT_EXTENDED HBAR_RATE_LIMIT_PRIVILEGED HBAR_RATE_LIMIT_TINYBAR HBAR_SPENDING_PLANS_CONFIG HEDERA_NETWORK HEDERA_SPECIFIC_REVERT_STATUSES
INITIAL_BALANCE INPUT_SIZE_LIMIT IP_RATE_LIMIT_STORE JUMBO_TX_ENABLED LIMIT_DURATION LOCAL_LOCK_MAX_ENTRIES LOCAL_NODE LOCK_HEARTBEAT_MISSED_COUNT
LOCK_MAX_HOLD_MS LOCK_QUEUE_MEMBERSHIP_CHECK_INTERVAL_MS LOCK_QUEUE_POLL_INTERVAL_MS LOG_LEVEL MAX_BLOCK_RANGE MAX_GAS_ALLOWANCE_HBAR
MAX_TRANSACTION_GAS_LIMIT MEMWATCH_ENABLED MIRROR_NODE_ACCOUNT_TXS_PG_MAX MIRROR_NODE_AGENT_CACHEABLE_DNS MIRROR_NODE_AUTH_HEADER
MIRROR_NODE_CONTRACT_RESULTS_LOGS_BLOCK_RANGE_PG_MAX MIRROR_NODE_CONTRACT_RESULTS_LOGS_PG_MAX MIRROR_NODE_CONTRACT_RESULTS_PG_MAX
MIRROR_NODE_HTTP_KEEP_ALIVE MIRROR_NODE_HTTP_KEEP_ALIVE_MSECS MIRROR_NODE_HTTP_MAX_SOCKETS MIRROR_NODE_HTTP_MAX_TOTAL_SOCKETS
MIRROR_NODE_HTTP_SOCKET_TIMEOUT MIRROR_NODE_LIMIT_PARAM MIRROR_NODE_MAX_REDIRECTS MIRROR_NODE_PAGINATION_MAX MIRROR_NODE_REQUEST_RETRY_COUNT
MIRROR_NODE_RETRIES MIRROR_NODE_RETRY_CODES MIRROR_NODE_RETRY_DELAY MIRROR_NODE_STARTUP_MAX_ATTEMPTS MIRROR_NODE_STARTUP_RETRY_DELAY_MS
MIRROR_NODE_TIMEOUT MIRROR_NODE_TIMESTAMP_SLICING_CONCURRENCY MIRROR_NODE_TIMESTAMP_SLICING_MAX_LOGS_PER_SLICE MIRROR_NODE_URL
MIRROR_NODE_URL_HEADER_X_API_KEY MIRROR_NODE_URL_WEB3 ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE OPCODELOGGER_ENABLED
OPERATOR_BALANCE_STARTUP_MAX_ATTEMPTS OPERATOR_BALANCE_STARTUP_RETRY_DELAY_MS OPERATOR_ID_MAIN OPERATOR_KEY_FORMAT OPERATOR_KEY_MAIN
PAYMASTER_ACCOUNTS PAYMASTER_ACCOUNTS_WHITELISTS PAYMASTER_ENABLED PAYMASTER_WHITELIST PRETTY_LOGS_ENABLED RATE_LIMIT_DISABLED READ_ONLY REDIS_ENABLED
REDIS_ERROR_LOG_INTERVAL_MS REDIS_RECONNECT_DELAY_MS REDIS_URL REQUEST_ID_IS_OPTIONAL RPC_HTTP_API RPC_HTTP_ENABLED RPC_WS_API RPC_WS_ENABLED
SDK_GRPC_DEADLINE SDK_LOG_LEVEL SDK_MAX_ATTEMPTS SDK_REQUEST_TIMEOUT SEND_RAW_TRANSACTION_POLLING_INTERVAL_MS
SEND_RAW_TRANSACTION_POLLING_MAX_ATTEMPTS SEND_RAW_TRANSACTION_SIZE_LIMIT SERVER_HEADERS_TIMEOUT_MS SERVER_HOST SERVER_KEEPALIVE_TIMEOUT_MS
SERVER_PORT SERVER_REQUEST_TIMEOUT_MS SUBSCRIPTIONS_ENABLED TEST TEST_GAS_PRICE_DEVIATION TEST_INITIAL_ACCOUNT_STARTING_BALANCE
TEST_TRANSACTION_RECORD_COST_TOLERANCE TEST_WS_SERVER TIER_1_RATE_LIMIT TIER_2_RATE_LIMIT TIER_3_RATE_LIMIT TXPOOL_API_ENABLED TX_DEFAULT_GAS
TX_STATUS_TRACING TX_STATUS_TRACING_MAX_ENTRIES TX_STATUS_TRACING_TTL_MS TX_TYPE_4_ENABLED USE_ASYNC_TX_PROCESSING
USE_MIRROR_NODE_MODULARIZED_SERVICES WEB_SOCKET_HTTP_PORT WEB_SOCKET_PORT WORKERS_POOL_ENABLED WORKERS_POOL_IDLE_TIMEOUT_MS WORKERS_POOL_MAX_THREADS
WORKERS_POOL_MIN_THREADS WRITE_SNAPSHOT_ON_MEMORY_LEAK WS_BATCH_REQUESTS_ENABLED WS_BATCH_REQUESTS_MAX_SIZE WS_CACHE_TTL WS_CONNECTION_LIMIT
WS_CONNECTION_LIMIT_PER_IP WS_INPUT_SIZE_LIMIT WS_MAX_INACTIVITY_TTL WS_MULTIPLE_ADDRESSES_ENABLED WS_MULTIPLE_ADDRESSES_LIMIT WS_NEW_HEADS_ENABLED
WS_PING_INTERVAL WS_POLLING_INTERVAL WS_RELAY_URL WS_SAME_SUB_FOR_SAME_EVENT WS_SUBSCRIPTION_LIMIT npm_package_version
`

// Each setting that somebody may bring along is honoured, or named as one that does nothing.
func TestNoSettingIsIgnoredSilently(t *testing.T) {
	honoured := map[string]bool{}
	for _, s := range settings() {
		honoured[s.name] = true
	}
	for _, name := range strings.Fields(established) {
		c, err := Load(enough(name + "=1"))
		named := slices.Contains(c.Idle, name)
		switch {
		case honoured[name] && named:
			t.Errorf("%s is honoured and named as one that does nothing", name)
		case !honoured[name] && !named:
			t.Errorf("%s is ignored silently", name)
		case named && err != nil:
			t.Errorf("%s does nothing, and is wrong: %v", name, err)
		}
	}
	for _, s := range idle() {
		if !slices.Contains(strings.Fields(established), s.name) {
			t.Errorf("%s is no setting of established relays", s.name)
		}
	}
	if c, err := Load(enough("HAPI_CLIENT_ERROR_RESET=")); err != nil || len(c.Idle) != 0 {
		t.Errorf("without a value: %v, %v", c.Idle, err)
	}
}
