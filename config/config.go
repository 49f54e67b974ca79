package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caarlos0/env/v11"

	"lockstep/cache"
	"lockstep/consensus"
	"lockstep/ethapi"
	"lockstep/internal/envx"
	"lockstep/internal/secret"
	"lockstep/limit"
	"lockstep/lock"
	"lockstep/mirror"
	"lockstep/precheck"
	"lockstep/rpc"
	"lockstep/submit"
	"lockstep/txpool"
	"lockstep/txtrace"
)

// Config is every setting of the relay.
type Config struct {
	Server    Server
	RPC       rpc.Config
	API       ethapi.Config
	Precheck  precheck.Config
	Submit    submit.Config
	Pool      txpool.Config
	Trace     txtrace.Config
	Lock      lock.Config
	Limit     limit.Config
	Redis     Redis
	Consensus consensus.Config
	Mirror    mirror.Config
	Cache     cache.Config
	Log       Log

	// Idle are the settings of established relays that were given and have no effect here.
	Idle []string
}

// Server says what is served where.
type Server struct {
	// Chain id that transactions must be signed for, decimal or 0x-hexadecimal.
	ChainID envx.ChainID `env:"CHAIN_ID" envDefault:"0x12a"`
	// Serve JSON-RPC over HTTP.
	HTTP bool `env:"RPC_HTTP_ENABLED" envDefault:"true"`
	// Serve JSON-RPC over WebSocket.
	WebSocket bool `env:"RPC_WS_ENABLED" envDefault:"false"`
	// Address to listen on, for HTTP and WebSocket; empty for all.
	Host string `env:"SERVER_HOST"`
	// HTTP port; 0 picks a free one.
	Port int `env:"SERVER_PORT" envDefault:"7546"`
	// WebSocket port; 0 picks a free one.
	WebSocketPort int `env:"WEB_SOCKET_PORT" envDefault:"8546"`
	// How long a stopping process waits for accepted transactions to get their verdict.
	DrainTimeout envx.Millis `env:"SHUTDOWN_DRAIN_TIMEOUT_MS" envDefault:"30000"`
	// Hide the settings (/config and admin_config) and the other methods of the admin namespace.
	DisableAdmin bool `env:"DISABLE_ADMIN_NAMESPACE" envDefault:"false"`
	// Address (host:port) of the admin server: locks, switches, profiles. Empty for none. Keep it on loopback.
	AdminAddress string `env:"ADMIN_ADDRESS"`
	// Bearer token that the admin server wants. Without one it refuses to listen anywhere but on loopback.
	AdminToken secret.String `env:"ADMIN_TOKEN"`
	// File with the admin server's bearer token.
	AdminTokenFile secret.String `env:"ADMIN_TOKEN_FILE,file"`
}

// Redis says where the shared state of a fleet of relays is.
type Redis struct {
	// Use Redis: per-sender locks then hold across all relays on it, so do the limits on spending and on calls, and what cannot change is read once for all.
	Enabled bool `env:"REDIS_ENABLED" envDefault:"false"`
	// Redis server: redis:// or rediss:// for one, redis+sentinel://host,host/master, redis+cluster://host,host.
	URL secret.String `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379"`
	// File with the Redis URL.
	URLFile secret.String `env:"REDIS_URL_FILE,file"`
}

// Log says what is logged and how.
type Log struct {
	// Least level that is logged: trace, debug, info, warn, error or fatal.
	Level string `env:"LOG_LEVEL" envDefault:"info"`
	// Log lines for people instead of JSON.
	Pretty bool `env:"PRETTY_LOGS_ENABLED" envDefault:"true"`
}

// Load reads the settings from environ, a list of NAME=value. Its error joins all
// mistakes.
func Load(environ []string) (Config, error) {
	values := make(map[string]string, len(environ))
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	c := Config{Idle: idleIn(values)}
	if err := env.ParseWithOptions(&c, env.Options{Environment: values}); err != nil {
		return c, readable(err)
	}
	if c.Server.AdminToken == "" {
		c.Server.AdminToken = secret.String(strings.TrimSpace(c.Server.AdminTokenFile.Reveal()))
	}
	if file := strings.TrimSpace(c.Redis.URLFile.Reveal()); file != "" {
		c.Redis.URL = secret.String(file)
	}
	return c, c.Validate()
}

// readable lists parse errors by setting, one a line.
func readable(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	errs := make([]error, 0, len(all.Errors))
	for _, e := range all.Errors {
		var parse env.ParseError
		if errors.As(e, &parse) {
			e = fmt.Errorf("%s: %w", nameOf(parse.Name), parse.Err)
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// nameOf finds the setting that a struct field is read from.
func nameOf(field string) string {
	for _, s := range settings() {
		if s.field == field {
			return s.name
		}
	}
	return field
}

// Validate checks what can be checked without a network, all at once.
func (c Config) Validate() error {
	errs := []error{
		c.RPC.Validate(), c.API.Validate(), c.Precheck.Validate(), c.Submit.Validate(), c.Pool.Validate(), c.Trace.Validate(),
		c.Lock.Check(), c.Limit.Validate(), c.Consensus.Validate(), c.Mirror.Check(), c.Cache.Validate(),
	}
	if !c.Server.HTTP && !c.Server.WebSocket {
		errs = append(errs, errors.New("RPC_HTTP_ENABLED and RPC_WS_ENABLED are both false: nothing to serve"))
	}
	if !c.Submit.ReadOnly && c.Consensus.OperatorID == "" {
		errs = append(errs, errors.New("OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN are needed to submit transactions; READ_ONLY=true does without"))
	}
	if c.Submit.SkipLookUps && c.Lock.GapHold > 0 {
		errs = append(errs, errors.New("NONCE_GAP_HOLD_MS needs to know the sender's nonce, which DISABLE_MN_PRECHECKS_ON_TX_SENDING=true forbids to look up"))
	}
	if c.Limit.CallStore == limit.StoreRedis && !c.Redis.Enabled {
		errs = append(errs, errors.New("IP_RATE_LIMIT_STORE=REDIS needs REDIS_ENABLED=true"))
	}
	for name, port := range map[string]int{"SERVER_PORT": c.Server.Port, "WEB_SOCKET_PORT": c.Server.WebSocketPort} {
		if port < 0 || port > 65535 {
			errs = append(errs, fmt.Errorf("%s: %d is not a port", name, port))
		}
	}
	return errors.Join(errs...)
}
