package lifecycle

import (
	"errors"
	"fmt"
	"time"

	"lockstep/internal/envx"
)

// Config holds the settings of the lifecycle record.
type Config struct {
	// Keep what happened to each raw transaction, for admin_getTransactionTraceByHash and for receipts of rejected ones.
	Enabled bool `env:"TX_STATUS_TRACING" envDefault:"false"`
	// Maximum number of transactions that this process keeps the record of; the oldest makes room.
	MaxEntries int `env:"TX_STATUS_TRACING_MAX_ENTRIES" envDefault:"10000"`
	// Maximum bytes of the records that this process keeps; the oldest makes room.
	MaxBytes int `env:"TX_STATUS_TRACING_MAX_BYTES" envDefault:"33554432"`
	// Maximum bytes of records that the relays of a fleet keep in Redis together; half of them can be written in the time that a record is kept. Nothing is kept while less than a quarter of the memory of Redis is left.
	RedisMaxBytes int64 `env:"TX_STATUS_TRACING_REDIS_MAX_BYTES" envDefault:"268435456"`
	// How long a record is kept after its last step. 0 or less: no limit of time. Milliseconds.
	TTL envx.Millis `env:"TX_STATUS_TRACING_TTL_MS" envDefault:"900000"`
	// Deadline of every Redis call for records. No transaction waits for one.
	RedisTimeout envx.Millis `env:"TX_STATUS_TRACING_REDIS_TIMEOUT_MS" envDefault:"250"`
}

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	if c.MaxEntries < 1 {
		errs = append(errs, fmt.Errorf("TX_STATUS_TRACING_MAX_ENTRIES is %d: want at least 1", c.MaxEntries))
	}
	if c.MaxBytes < 1 || c.RedisMaxBytes < 1 {
		errs = append(errs, errors.New("TX_STATUS_TRACING_MAX_BYTES and TX_STATUS_TRACING_REDIS_MAX_BYTES: want at least 1"))
	}
	if c.RedisTimeout.Duration() < time.Millisecond {
		errs = append(errs, fmt.Errorf("TX_STATUS_TRACING_REDIS_TIMEOUT_MS is %v: want at least 1ms", c.RedisTimeout))
	}
	return errors.Join(errs...)
}
