package ethapi

import (
	"errors"
	"fmt"
)

// DebugConfig holds the settings of the debug methods. They cost the mirror node far more than other reads, so
// they are off by default.
type DebugConfig struct {
	// Offer the debug_ methods: traces and raw encodings.
	Enabled bool `env:"DEBUG_API_ENABLED" envDefault:"false"`
	// Offer traces of single instructions, for which the mirror node runs the transaction again.
	OpcodeLogger bool `env:"OPCODELOGGER_ENABLED" envDefault:"true"`
	// Longest trace of single instructions, in bytes, both as the mirror node sends it and as the client gets it.
	MaxBytes int64 `env:"DEBUG_TRACE_MAX_BYTES" envDefault:"33554432"`
	// How many traces of single instructions are in memory at the same time; further ones wait.
	Replays int `env:"DEBUG_TRACE_CONCURRENCY" envDefault:"2"`
}

// Validate returns everything that is wrong with the settings.
func (c DebugConfig) Validate() error {
	var errs []error
	if c.MaxBytes < 1 {
		errs = append(errs, fmt.Errorf("DEBUG_TRACE_MAX_BYTES: must be at least 1, is %d", c.MaxBytes))
	}
	if c.Replays < 1 {
		errs = append(errs, errors.New("DEBUG_TRACE_CONCURRENCY: must be at least 1"))
	}
	return errors.Join(errs...)
}
