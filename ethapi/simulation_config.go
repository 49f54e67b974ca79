package ethapi

import (
	"errors"

	"lockstep/internal/envx"
)

// SimulationConfig holds the settings of what runs in the relay itself: debug_traceCall, eth_createAccessList,
// eth_simulateV1, and eth_call and eth_estimateGas with block overrides. They read the state from the mirror node
// while they run.
type SimulationConfig struct {
	// How long one simulation may take, reading included. Milliseconds.
	Timeout envx.Millis `env:"SIMULATION_TIMEOUT" envDefault:"10000"`
	// Maximum number of accounts and words of storage that one simulation may read.
	Reads int `env:"SIMULATION_MAX_READS" envDefault:"2000"`
	// Maximum gas that all calls of one eth_simulateV1 may use together. Unset, it is at least MAX_TRANSACTION_GAS_LIMIT.
	Gas uint64 `env:"SIMULATION_GAS_CAP" envDefault:"50000000"`
	// Maximum number of bytes that all calls of one eth_simulateV1 may return and log together.
	Bytes int `env:"SIMULATION_MAX_BYTES" envDefault:"8388608"`
	// How many simulations run at the same time, of which one client has a quarter; further ones wait.
	Concurrency int `env:"SIMULATION_CONCURRENCY" envDefault:"16"`
}

// Validate returns what is wrong with the settings.
func (c SimulationConfig) Validate() error {
	if c.Timeout <= 0 || c.Reads < 1 || c.Gas < 1 || c.Bytes < 1 || c.Concurrency < 1 {
		return errors.New("SIMULATION_TIMEOUT, SIMULATION_MAX_READS, SIMULATION_GAS_CAP, SIMULATION_MAX_BYTES and SIMULATION_CONCURRENCY: must be positive")
	}
	return nil
}
