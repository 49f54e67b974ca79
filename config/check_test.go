package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

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
