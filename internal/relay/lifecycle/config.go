package lifecycle

import "lockstep/internal/envx"

// Config holds the settings of the lifecycle record.
type Config struct {
	// Keep what happened to each raw transaction, for admin_getTransactionTraceByHash and for receipts of rejected ones.
	Enabled bool `env:"TX_STATUS_TRACING" envDefault:"false"`
	// Maximum number of transactions that this process keeps the record of; the oldest makes room.
	MaxEntries int `env:"TX_STATUS_TRACING_MAX_ENTRIES" envDefault:"10000" min:"1"`
	// Maximum bytes of the records that this process keeps; the oldest makes room.
	MaxBytes int `env:"TX_STATUS_TRACING_MAX_BYTES" envDefault:"33554432" min:"1"`
	// Maximum bytes of records that the relays of a fleet keep in Redis together; half of them can be written in the time that a record is kept. Nothing is kept while less than a quarter of the memory of Redis is left.
	RedisMaxBytes int64 `env:"TX_STATUS_TRACING_REDIS_MAX_BYTES" envDefault:"268435456" min:"1"`
	// How long a record is kept after its last step. 0 or less: no limit of time. Milliseconds.
	TTL envx.Millis `env:"TX_STATUS_TRACING_TTL_MS" envDefault:"900000"`
	// Deadline of every Redis call for records. No transaction waits for one.
	RedisTimeout envx.Millis `env:"TX_STATUS_TRACING_REDIS_TIMEOUT_MS" envDefault:"250" min:"1ms"`
}

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error { return envx.Check(c) }
