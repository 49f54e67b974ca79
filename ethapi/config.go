package ethapi

import (
	"errors"

	"lockstep/internal/envx"
)

// Config holds the settings of the read methods.
type Config struct {
	// How far beyond the newest block a number may lie and still be taken for the newest: a client may have heard of a block before this relay.
	MaxBlockRange uint64 `env:"MAX_BLOCK_RANGE" envDefault:"5"`
	// Maximum number of blocks that a log query may span; queries for exactly one address are exempt.
	LogsBlockRange uint64 `env:"ETH_GET_LOGS_BLOCK_RANGE_LIMIT" envDefault:"1000" min:"1"`
	// A block with this number of transactions, or more, is not shown with all of them in full.
	MaxFullTransactions int `env:"ETH_GET_TRANSACTION_COUNT_MAX_BLOCK_RANGE" envDefault:"1000" min:"1"`
	// Maximum number of blocks of a fee history.
	FeeHistoryBlocks uint64 `env:"FEE_HISTORY_MAX_RESULTS" envDefault:"10" min:"1"`
	// Answer eth_feeHistory from the present price instead of reading the blocks.
	FeeHistoryFixed bool `env:"ETH_FEE_HISTORY_FIXED" envDefault:"true"`
	// Percentage added to the network's gas price.
	GasPriceBufferPercent int `env:"GAS_PRICE_PERCENTAGE_BUFFER" envDefault:"0" min:"0" max:"10000"`
	// Offer the methods that keep filters.
	Filters bool `env:"FILTER_API_ENABLED" envDefault:"true"`
	// How long a filter lives after it was last used. Milliseconds.
	FilterTTL envx.Millis `env:"FILTER_TTL" envDefault:"300000" min:"1ms"`
	// Maximum number of filters. When there are more, the client that has most loses the one that it has not used for longest.
	MaxFilters int `env:"FILTER_MAX_COUNT" envDefault:"10000" min:"1"`
	// Maximum bytes of all filters; the longest makes room. No new one is taken while less than a quarter of the memory of Redis is left.
	MaxFilterBytes int `env:"FILTER_MAX_BYTES" envDefault:"33554432" min:"1"`
	// Keep filters in Redis, so that every relay of a fleet knows them; needs REDIS_ENABLED. While Redis does not answer, the methods of filters fail.
	SharedFilters bool `env:"FILTER_REDIS_ENABLED" envDefault:"true"`
	// Time that a look into Redis for a filter may take.
	SharedFiltersTimeout envx.Millis `env:"FILTER_REDIS_TIMEOUT" envDefault:"1000" min:"1ms"`
	// Name before the version in web3_clientVersion. Empty: relay, or lockstep in profile ethereum.
	ClientName string `env:"WEB3_CLIENT_NAME"`
	// How long a request for a receipt or a transaction that this fleet sent waits until the mirror node shows it. 0 = not at all. Milliseconds.
	ReadYourWrites envx.Millis `env:"READ_YOUR_WRITES_WAIT_MS" envDefault:"5000" min:"0" max:"1m"`
	// Methods that are refused inside batches, over HTTP and WebSocket. Profile hiero only: Ethereum nodes take every method there.
	NotInBatches envx.Strings `env:"BATCH_REQUESTS_DISALLOWED_METHODS" envDefault:"debug_traceTransaction,debug_traceBlockByNumber,eth_newFilter,eth_uninstallFilter,eth_getFilterChanges,eth_getFilterLogs,eth_newBlockFilter,eth_newPendingTransactionFilter"`
	// How many look-ups one request makes at the same time.
	Concurrency int `env:"READ_CONCURRENCY" envDefault:"32" min:"1"`

	Subscriptions SubscriptionConfig
	Debug         DebugConfig
	Sync          SyncConfig
	Simulation    SimulationConfig
}

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error {
	err := envx.Check(c)
	if c.Sync.Max < c.Sync.Default {
		err = errors.Join(err, errors.New("SEND_RAW_TRANSACTION_SYNC_TIMEOUT: must not be longer than SEND_RAW_TRANSACTION_SYNC_MAX_TIMEOUT"))
	}
	return err
}

// SubscriptionConfig holds the settings of live subscriptions.
type SubscriptionConfig struct {
	// Offer eth_subscribe and eth_unsubscribe over WebSocket.
	Enabled bool `env:"SUBSCRIPTIONS_ENABLED" envDefault:"true"`
	// Maximum number of subscriptions of one connection.
	Limit int `env:"WS_SUBSCRIPTION_LIMIT" envDefault:"10" min:"1"`
	// Offer subscriptions to new blocks.
	NewHeads bool `env:"WS_NEW_HEADS_ENABLED" envDefault:"true"`
	// How often the mirror node is asked for new blocks, at least, while anybody wants to know; all subscriptions together cost one such question. While a block is due it is asked up to eight times as often. Milliseconds.
	PollingInterval envx.Millis `env:"WS_POLLING_INTERVAL" envDefault:"500" min:"1ms"`
	// Subscribing on one connection again to the same events gives the same id again, and takes no further slot. Profile hiero only: Ethereum nodes give a new id each time.
	SameForSameEvent bool `env:"WS_SAME_SUB_FOR_SAME_EVENT" envDefault:"true"`
	// Allow several addresses in one subscription to logs. Profile hiero only: Ethereum nodes always do.
	MultipleAddresses bool `env:"WS_MULTIPLE_ADDRESSES_ENABLED" envDefault:"false"`
	// Maximum number of addresses of one subscription to logs.
	AddressLimit int `env:"WS_MULTIPLE_ADDRESSES_LIMIT" envDefault:"1000" min:"1"`
}

// DebugConfig holds the settings of the debug methods. They cost the mirror node far more than other reads, so
// they are off by default.
type DebugConfig struct {
	// Offer the debug_ methods: traces and raw encodings.
	Enabled bool `env:"DEBUG_API_ENABLED" envDefault:"false"`
	// Offer traces of single instructions, for which the mirror node runs the transaction again.
	OpcodeLogger bool `env:"OPCODELOGGER_ENABLED" envDefault:"true"`
	// Longest trace of single instructions, in bytes, both as the mirror node sends it and as the client gets it.
	MaxBytes int64 `env:"DEBUG_TRACE_MAX_BYTES" envDefault:"33554432" min:"1"`
	// How many traces of single instructions are in memory at the same time; further ones wait.
	Replays int `env:"DEBUG_TRACE_CONCURRENCY" envDefault:"2" min:"1"`
}

// SimulationConfig holds the settings of what runs in the relay itself: debug_traceCall, eth_createAccessList,
// eth_simulateV1, and eth_call and eth_estimateGas with block overrides. They read the state from the mirror node
// while they run.
type SimulationConfig struct {
	// How long one simulation may take, reading included. Milliseconds.
	Timeout envx.Millis `env:"SIMULATION_TIMEOUT" envDefault:"10000" min:"1ms"`
	// Maximum number of accounts and words of storage that one simulation may read.
	Reads int `env:"SIMULATION_MAX_READS" envDefault:"2000" min:"1"`
	// Maximum gas that all calls of one eth_simulateV1 may use together. Unset, it is at least MAX_TRANSACTION_GAS_LIMIT.
	Gas uint64 `env:"SIMULATION_GAS_CAP" envDefault:"50000000" min:"1"`
	// Maximum number of bytes that all calls of one eth_simulateV1 may return and log together.
	Bytes int `env:"SIMULATION_MAX_BYTES" envDefault:"8388608" min:"1"`
	// How many simulations run at the same time, of which one client has a quarter; further ones wait.
	Concurrency int `env:"SIMULATION_CONCURRENCY" envDefault:"16" min:"1"`
}
