package config

import (
	"slices"
	"strings"
)

// idleSetting is a setting of the TypeScript relay that has no effect here, and why.
type idleSetting struct {
	name, why string
}

// idle lists those settings, by reason. With the settings that are read they are all that the
// TypeScript relay knows.
func idle() []idleSetting {
	var list []idleSetting
	for _, group := range []struct{ why, names string }{
		{"Connections to consensus nodes are looked after one by one; there is no client that could be made again.", "HAPI_CLIENT_DURATION_RESET HAPI_CLIENT_ERROR_RESET HAPI_CLIENT_TRANSACTION_RESET"},
		{"What a transaction cost is read from the mirror node, which costs nothing.", "GET_RECORD_DEFAULT_TO_CONSENSUS_NODE"},
		{"There is no SDK inside; `LOG_LEVEL` counts.", "SDK_LOG_LEVEL"},
		{"A transaction is pending until the network has its receipt; the mirror node is not polled for that.", "SEND_RAW_TRANSACTION_POLLING_INTERVAL_MS SEND_RAW_TRANSACTION_POLLING_MAX_ATTEMPTS"},
		{"Pending transactions are kept as `TXPOOL_ENTRY_TTL_MS` says.", "EXTRA_PER_PENDING_TRANSACTION_STORAGE_TTL"},
		{"Requests that come together share an answer of the mirror node; older answers are kept only of what cannot change.", "ETH_GET_BALANCE_CACHE_TTL_MS"},
		{"A call that the mirror node refuses is an error.", "ETH_CALL_ACCEPTED_ERRORS"},
		{"A gas estimate is the mirror node's; if it has none, that is an error.", "TX_DEFAULT_GAS"},
		{"Host names are looked up by the system.", "MIRROR_NODE_AGENT_CACHEABLE_DNS"},
		{"The relay starts without waiting for anybody; its first log lines tell what it found, `/health/readiness` what there is.", "MIRROR_NODE_STARTUP_MAX_ATTEMPTS MIRROR_NODE_STARTUP_RETRY_DELAY_MS OPERATOR_BALANCE_STARTUP_MAX_ATTEMPTS OPERATOR_BALANCE_STARTUP_RETRY_DELAY_MS"},
		{"Each use of Redis has a deadline of its own and goes back to it by itself.", "REDIS_ERROR_LOG_INTERVAL_MS REDIS_RECONNECT_DELAY_MS"},
		{"A subscription remembers what it has sent; there is no cache that forgets it.", "WS_CACHE_TTL"},
		{"Heavy requests need no pool of threads.", "WORKERS_POOL_ENABLED WORKERS_POOL_IDLE_TIMEOUT_MS WORKERS_POOL_MAX_THREADS WORKERS_POOL_MIN_THREADS"},
		{"Without effect in hiero-json-rpc-relay, too.", "CONTRACT_QUERY_TIMEOUT_RETRIES ETH_CALL_CACHE_TTL ETH_GET_GAS_PRICE_CACHE_TTL_MS ETH_GET_TRANSACTION_COUNT_CACHE_TTL INITIAL_BALANCE MEMWATCH_ENABLED WRITE_SNAPSHOT_ON_MEMORY_LEAK"},
		{"For the development and the tests of hiero-json-rpc-relay.", "E2E_RELAY_HOST E2E_SERVER_PORT GH_ACCESS_TOKEN GITHUB_PR_NUMBER GITHUB_REPOSITORY GITHUB_TOKEN LOCAL_NODE TEST TEST_GAS_PRICE_DEVIATION TEST_INITIAL_ACCOUNT_STARTING_BALANCE TEST_TRANSACTION_RECORD_COST_TOLERANCE TEST_WS_SERVER WS_RELAY_URL"},
		{"The version is built in.", "npm_package_version"},
	} {
		for _, name := range strings.Fields(group.names) {
			list = append(list, idleSetting{name, group.why})
		}
	}
	slices.SortFunc(list, func(a, b idleSetting) int { return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name)) })
	return list
}

// idleIn returns those that have a value, by name.
func idleIn(values map[string]string) (set []string) {
	for _, s := range idle() {
		if values[s.name] != "" {
			set = append(set, s.name)
		}
	}
	return set
}
