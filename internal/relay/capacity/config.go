package capacity

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"lockstep/internal/envx"
)

// Config holds the settings of what requests may take of the process.
type Config struct {
	// Megabytes (1048576 bytes) of memory that the process stays below, whatever clients send. The environment variable GOMEMLIMIT takes its place where it is set.
	Limit int `env:"MEMORY_LIMIT_MB" envDefault:"512" min:"64" max:"1048576"`
	// Megabytes that all requests may hold together: bodies, answers of the mirror node, results, answers that are being sent. 0 = a quarter of the limit.
	Requests int `env:"MEMORY_REQUESTS_MB" envDefault:"0"`
	// Megabytes that the requests of one client (an address; of IPv6 a /64) may hold together. 0 = as much as is left for all others, so that the only client has half of what all requests may.
	Client int `env:"MEMORY_CLIENT_MB" envDefault:"0"`
	// Megabytes that one request may hold, a batch being one request. 0 = half of what all requests may.
	Request int `env:"MEMORY_REQUEST_MB" envDefault:"0"`
	// Processor time that one request may take for simulations, a batch being one request. Milliseconds.
	RequestTime envx.Millis `env:"REQUEST_CPU_TIME_MS" envDefault:"10000" min:"1ms"`
	// How many simulations use the processor at the same time; others wait, and the client that has used the least processor time comes first. 0 = half of the processors.
	Processors int `env:"SIMULATION_PROCESSORS" envDefault:"0" min:"0"`
	// How many heavy reads (logs, receipts of blocks, traces, histories of fees) run at the same time, by weight: a trace counts four. One client has half of them.
	HeavyReads int `env:"HEAVY_READ_CONCURRENCY" envDefault:"64"`
}

const megabyte = 1 << 20

// smallest is the smallest memory, in megabytes, with which the methods still work.
const smallest = 8

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	for name, value := range map[string]int{"MEMORY_REQUESTS_MB": c.Requests, "MEMORY_CLIENT_MB": c.Client, "MEMORY_REQUEST_MB": c.Request} {
		if value != 0 && (value < smallest || value > 1<<20) {
			errs = append(errs, fmt.Errorf("%s: want 0, or %d to 1048576, is %d", name, smallest, value))
		}
	}
	if c.HeavyReads < 2*MostWeight {
		errs = append(errs, fmt.Errorf("HEAVY_READ_CONCURRENCY: must be at least %d", 2*MostWeight))
	}
	return errors.Join(errs...)
}

// limit is what the process stays below, in bytes.
func (c Config) limit() int64 {
	if given := debug.SetMemoryLimit(-1); os.Getenv("GOMEMLIMIT") != "" && given != math.MaxInt64 {
		return given
	}
	return int64(c.Limit) * megabyte
}

// Collect returns the size, in bytes, at which the collector holds the process. It must be above what may be kept: 10,000 connections
// whose transactions wait keep some 300 MB, and a collector that can't get below its limit takes half of the processors for ever,
// though nothing happens. The rest is for what a collector that gets too little of the processor lets grow meanwhile.
func (c Config) Collect() int64 { return int64(c.Limit) * megabyte * 3 / 4 }

func (c Config) requests() int64 { return either(c.Requests, c.limit()/4) }
func (c Config) client() int64   { return min(either(c.Client, c.requests()/2), c.requests()) }
func (c Config) request() int64  { return min(either(c.Request, c.requests()/2), c.client()) }

func either(megabytes int, otherwise int64) int64 {
	if megabytes > 0 {
		return int64(megabytes) * megabyte
	}
	return max(otherwise, smallest*megabyte)
}

func (c Config) processors() int {
	if c.Processors > 0 {
		return c.Processors
	}
	return max(1, runtime.GOMAXPROCS(0)/2)
}
