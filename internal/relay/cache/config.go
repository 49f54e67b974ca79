package cache

import "lockstep/internal/envx"

// Config is what is kept in Redis, and what that may cost.
type Config struct {
	// Share what cannot change (blocks, results, logs) between the relays of a fleet through Redis; needs REDIS_ENABLED.
	Enabled bool `env:"CACHE_REDIS_ENABLED" envDefault:"true"`
	// How long Redis keeps a value.
	TTL envx.Millis `env:"CACHE_TTL" envDefault:"3600000" min:"1ms"`
	// Longest value that is kept, in bytes.
	MaxValue int `env:"CACHE_REDIS_MAX_VALUE_BYTES" envDefault:"262144" min:"1" max:"536870912"`
	// Maximum bytes that the relays of a fleet keep in Redis together; half of them can be written in the time that a value lives. Nothing is kept while less than a quarter of the memory of Redis is left.
	MaxBytes int64 `env:"CACHE_REDIS_MAX_BYTES" envDefault:"268435456" min:"1"`
	// Maximum time for a look-up in Redis; a value that comes later counts as missing.
	Timeout envx.Millis `env:"CACHE_REDIS_TIMEOUT" envDefault:"100" min:"1ms"`
}

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error { return envx.Check(c) }
