package mirror

import (
	"errors"

	"lockstep/internal/envx"
	"lockstep/mirror/fetch"
)

// Config is how the mirror node is reached and how much may be read from it.
type Config struct {
	fetch.Config

	// How often a record is looked at until it is complete.
	ImmatureAttempts int `env:"MIRROR_NODE_REQUEST_RETRY_COUNT" envDefault:"10" min:"1"`

	// Items per page.
	PageSize int `env:"MIRROR_NODE_LIMIT_PARAM" envDefault:"100" min:"1"`
	// Maximum number of pages of a list without a limit of its own.
	MaxPages int `env:"MIRROR_NODE_PAGINATION_MAX" envDefault:"20" min:"1"`
	// Maximum number of pages of contract results.
	MaxResultPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_PG_MAX" envDefault:"25" min:"1"`
	// Maximum number of pages of logs over a range of blocks.
	MaxLogPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_LOGS_PG_MAX" envDefault:"200" min:"1"`
	// Maximum number of pages of logs of a single block.
	MaxBlockLogPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_LOGS_BLOCK_RANGE_PG_MAX" envDefault:"500" min:"1"`
	// Maximum number of pages of an account's transactions.
	MaxAccountPages int `env:"MIRROR_NODE_ACCOUNT_TXS_PG_MAX" envDefault:"100" min:"1"`
	// Maximum number of pages of the blocks of a fee history.
	MaxBlockPages int `env:"FEE_HISTORY_BLOCK_PAGINATION_MAX" envDefault:"20" min:"1"`
	// How many parts of one block are read at once.
	SliceConcurrency int `env:"MIRROR_NODE_TIMESTAMP_SLICING_CONCURRENCY" envDefault:"30" min:"1"`
	// How many transactions of a block one part is meant to hold.
	SliceSize int `env:"MIRROR_NODE_TIMESTAMP_SLICING_MAX_LOGS_PER_SLICE" envDefault:"100" min:"1"`

	// The mirror node reports new blocks by itself, which the development network's can. Others are polled.
	Push bool `env:"MIRROR_NODE_PUSH_ENABLED" envDefault:"false"`

	// How long the newest block and the fees are shared between requests; 0 shares only what is under way. Writes through this relay and newer blocks end it early.
	Freshness envx.Millis `env:"ETH_BLOCK_NUMBER_CACHE_TTL_MS" envDefault:"200" min:"0"`
	// Maximum number of entries of each cache of what cannot change; 0 switches them off.
	CacheEntries int `env:"CACHE_MAX" envDefault:"1000" min:"0"`
	// Maximum memory of the cache of blocks and contract results, in bytes.
	CacheBytes int64 `env:"MIRROR_NODE_CACHE_BYTES" envDefault:"33554432" min:"0"`

	// Results that mean that a transaction was refused before it ran, so that its record never completes. Empty for the built-in list.
	NeverExecuted envx.Strings `env:"HEDERA_SPECIFIC_REVERT_STATUSES"`
}

// Check returns everything that is wrong with the settings.
func (c *Config) Check() error { return errors.Join(envx.Check(*c), c.Config.Check()) }
