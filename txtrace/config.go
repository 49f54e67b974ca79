package txtrace

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
	// Most transactions that this process keeps the record of; the oldest makes room.
	MaxEntries int `env:"TX_STATUS_TRACING_MAX_ENTRIES" envDefault:"10000"`
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
	if c.RedisTimeout.Duration() < time.Millisecond {
		errs = append(errs, fmt.Errorf("TX_STATUS_TRACING_REDIS_TIMEOUT_MS is %v: want at least 1ms", c.RedisTimeout))
	}
	return errors.Join(errs...)
}
