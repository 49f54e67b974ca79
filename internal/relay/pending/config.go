package pending

import (
	"time"

	"lockstep/internal/envx"
)

// Config holds the settings of the transaction pool.
type Config struct {
	// Remember the transactions on their way: for pending nonces, for answers that are not stale right after a transaction, and for txpool_*.
	Enabled bool `env:"ENABLE_TX_POOL" envDefault:"true"`
	// Offer the methods txpool_content, txpool_contentFrom, txpool_inspect and txpool_status. The same on every relay of a fleet.
	API bool `env:"TXPOOL_API_ENABLED" envDefault:"false"`
	// Maximum number of transactions that this process remembers. Those that do not fit are submitted all the same. Unset, it is at least MAX_TRANSACTIONS_IN_PROGRESS.
	MaxEntries int `env:"TXPOOL_MAX_ENTRIES" envDefault:"65536" min:"1"`
	// Maximum number of bytes of transactions that this process remembers.
	MaxBytes int `env:"TXPOOL_MAX_BYTES" envDefault:"134217728" min:"1"`
	// Maximum bytes of transactions that the relays of a fleet keep in Redis together, for txpool_content and for eth_getTransactionByHash. Those that do not fit are known by their nonces. Nothing is added while less than a quarter of the memory of Redis is left.
	RedisMaxBytes int64 `env:"TXPOOL_REDIS_MAX_BYTES" envDefault:"67108864" min:"1"`
	// How long Redis keeps a pending transaction of a relay that does not say any more that it is pending.
	EntryTTL envx.Millis `env:"TXPOOL_ENTRY_TTL_MS" envDefault:"30000" min:"1s" max:"24h"`
	// How long the proof of an executed transaction counts while the mirror node does not show it.
	ExecutedTTL envx.Millis `env:"TXPOOL_EXECUTED_TTL_MS" envDefault:"120000" min:"1s" max:"24h"`
	// Deadline of every Redis call of the pool. No transaction waits for one.
	RedisTimeout envx.Millis `env:"TXPOOL_REDIS_TIMEOUT_MS" envDefault:"250" min:"1ms" max:"24h"`
	// Maximum bytes of transactions that this relay keeps in Redis because clients got their hashes before a node had them (USE_ASYNC_TX_PROCESSING), so that another relay can go on with them. Those that do not fit are lost if this relay is killed. Their number is bounded by TXPOOL_MAX_ENTRIES, their lifetime by NONCE_PROMISE_MS.
	PromisesMaxBytes int `env:"PROMISES_MAX_BYTES" envDefault:"67108864" min:"1"`
	// How long a relay may send no heartbeat before another one goes on with the transactions whose hashes its clients got.
	PromisesDeadAfter envx.Millis `env:"PROMISES_DEAD_AFTER_MS" envDefault:"5000" min:"500ms" max:"24h"`
}

// renewal is how often Redis is told that a transaction is still on its way.
func (c Config) renewal() time.Duration { return c.EntryTTL.Duration() / 3 }

// life is the maximum time for which something is kept in Redis, unless it is renewed.
func (c Config) life() time.Duration { return max(c.EntryTTL.Duration(), c.ExecutedTTL.Duration()) }

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error { return envx.Check(c) }
