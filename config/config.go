package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/joho/godotenv"

	"lockstep/consensus"
	"lockstep/ethapi"
	"lockstep/internal/envx"
	"lockstep/internal/relay/cache"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/pending"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/secret"
	"lockstep/lock"
	"lockstep/mirror"
	"lockstep/precheck"
	"lockstep/rpc"
	"lockstep/submit"
)

// Config is every setting of the relay.
type Config struct {
	Server    Server
	RPC       rpc.Config
	API       ethapi.Config
	Precheck  precheck.Config
	Submit    submit.Config
	Pool      pending.Config
	Trace     lifecycle.Config
	Lock      lock.Config
	Limit     limit.Config
	Capacity  capacity.Config
	Redis     Redis
	Consensus consensus.Config
	Mirror    mirror.Config
	Cache     cache.Config
	Tracing   telemetry.Config
	Log       Log

	// Idle are the settings of the TypeScript relay that were given and have no effect here.
	Idle []string
	// Misspelt are names that were given, mean nothing, and are near a setting's.
	Misspelt []Misspelt
	// Doubts are settings that could be meant so, and hardly ever are: each is a sentence.
	Doubts []string
}

// Server says what is served where.
type Server struct {
	// Chain id that transactions must be signed for, decimal or 0x-hexadecimal.
	ChainID envx.ChainID `env:"CHAIN_ID" envDefault:"0x12a"`
	// Serve JSON-RPC over HTTP.
	HTTP bool `env:"RPC_HTTP_ENABLED" envDefault:"true"`
	// Serve JSON-RPC over WebSocket: on WEB_SOCKET_PORT, and on the HTTP port for requests to upgrade. false closes WebSocket on both.
	WebSocket bool `env:"RPC_WS_ENABLED" envDefault:"false"`
	// Address to listen on, for HTTP and WebSocket; empty for all.
	Host string `env:"SERVER_HOST"`
	// HTTP port; 0 picks a free one.
	Port int `env:"SERVER_PORT" envDefault:"7546"`
	// WebSocket port; 0 picks a free one.
	WebSocketPort int `env:"WEB_SOCKET_PORT" envDefault:"8546"`
	// Port of /health/liveness, /health/readiness and /metrics of a process that serves WebSocket alone (RPC_HTTP_ENABLED=false); otherwise they are on the HTTP port and this one stays closed. 0 picks a free one.
	StatusPort int `env:"WEB_SOCKET_HTTP_PORT" envDefault:"8547"`
	// How long a process that is asked to stop says that it is not ready, and still serves, before it closes its ports. It must be longer than a load balancer needs to notice. A second signal ends the process at once. Milliseconds.
	DrainDelay envx.Millis `env:"SHUTDOWN_DRAIN_DELAY_MS" envDefault:"3000" min:"0" max:"10m"`
	// Without which of these the relay is not ready: mirror (no mirror node answers), nodes (no consensus node can be reached; those that can and take nothing make it DEGRADED, since another relay would find the same), redis, lock_redis (the Redis of LOCK_REDIS_URL, while ordering is on), chain (CHAIN_ID is not that of the network), operator (OPERATOR_ID_MAIN is no account of the network, or OPERATOR_KEY_MAIN not its key). One that is not listed only makes readiness say DEGRADED, with the reason. A relay that is stopping is never ready.
	ReadinessFails envx.Strings `env:"READINESS_FAILS_WITHOUT" envDefault:"mirror,nodes"`
	// How long a stopping process waits for accepted transactions to get their verdict.
	DrainTimeout envx.Millis `env:"SHUTDOWN_DRAIN_TIMEOUT_MS" envDefault:"30000" min:"0"`
	// Hide the settings (/config and admin_config) and the other methods of the admin namespace.
	DisableAdmin bool `env:"DISABLE_ADMIN_NAMESPACE" envDefault:"false"`
	// URL of a transaction manager, to which relay_sendTransaction, relay_getStatus and relay_cancel go; empty: there are no such methods. RPC_HTTP_API or RPC_WS_API must list relay, too. Callers bring their own key (apiKey).
	ManagerURL string `env:"TXM_URL"`
	// Accounts that a transaction manager sends from: their raw transactions are refused here with a hint, since they would take its nonces.
	ManagedSigners envx.Strings `env:"TXM_MANAGED_SIGNERS"`
	// Ask the mirror node what each transaction cost, for the metrics rpc_relay_consensusnode_response and rpc_relay_consensusnode_gasfee: two further requests for each transaction that reached consensus, or in a burst two for about 100 of them.
	CostMetrics bool `env:"COST_METRICS_ENABLED" envDefault:"true"`
	// Address (host:port) of the console: lanes, switches, profiles, and the page /ui/ that shows them. Empty for none. Keep it on loopback.
	AdminAddress string `env:"ADMIN_ADDRESS"`
	// Bearer token that the console wants, and that its page asks for. Without one the console refuses to listen anywhere but on loopback.
	AdminToken secret.String `env:"ADMIN_TOKEN"`
	// File with the console's bearer token.
	AdminTokenFile secret.String `env:"ADMIN_TOKEN_FILE,file"`
	// Without ADMIN_TOKEN, draw a token at each start and print it with the console's address. With false whoever reaches the console gets in, and so does a stranger behind a proxy in front of it.
	AdminLoopbackToken bool `env:"ADMIN_LOOPBACK_TOKEN" envDefault:"true"`
}

// Redis says where the shared state of a fleet of relays is.
type Redis struct {
	// Use Redis: per-sender locks then hold across all relays on it, so do the limits on spending and on calls, and what cannot change is read once for all.
	Enabled bool `env:"REDIS_ENABLED" envDefault:"false"`
	// Redis server: redis://[user:password@]host[:port][/db] for one, redis+sentinel://host,host/master, redis+cluster://host,host; with rediss for redis the same over TLS (rediss://, rediss+sentinel://, rediss+cluster://); unix:///path/of/socket for one on this machine.
	URL secret.String `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379"`
	// File with the Redis URL.
	URLFile secret.String `env:"REDIS_URL_FILE,file"`
	// Redis server for the locks alone, in the same forms, so that nothing else can fill it or slow it down. Empty: REDIS_URL. The same on every relay of a fleet.
	LockURL secret.String `env:"LOCK_REDIS_URL"`
	// File with the URL of the locks' Redis.
	LockURLFile secret.String `env:"LOCK_REDIS_URL_FILE,file"`
}

// Log says what is logged and how.
type Log struct {
	// Lowest level that is logged: trace, debug, info, warn, error or fatal.
	Level string `env:"LOG_LEVEL" envDefault:"info" reload:"true"`
	// Log lines for people instead of JSON.
	Pretty bool `env:"PRETTY_LOGS_ENABLED" envDefault:"true"`
	// Names and forms of the fields of JSON lines: lockstep (level as a word, time and durations as text, request_id) or hiero (as the TypeScript relay has them: level as a number, time and durations in milliseconds, requestId, pid, hostname, name). JSON lines need PRETTY_LOGS_ENABLED=false.
	Fields string `env:"LOG_JSON_FIELDS" envDefault:"lockstep"`
}

// Levels beyond those of slog, for the established names.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelFatal = slog.LevelError + 4
)

// Least returns the level below which nothing is logged, and false for a name that is none.
func (l Log) Least() (slog.Level, bool) {
	level, known := map[string]slog.Level{
		"trace": LevelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "fatal": LevelFatal,
	}[strings.ToLower(l.Level)]
	return level, known
}

// Load reads the settings from environ, a list of NAME=value. Its error joins all
// mistakes, of form and of sense; the settings are then those that could be read, and the
// defaults of the others.
func Load(environ []string) (Config, error) {
	values := valuesOf(environ)
	c := Config{Idle: idleIn(values), Misspelt: misspeltIn(values)}
	wrong := env.ParseWithOptions(&c, env.Options{Environment: values})
	if wrong != nil { // once more without those, so that the rest can be checked
		var names []string
		names, wrong = malformed[Config](values, wrong)
		for _, name := range names {
			delete(values, name)
		}
		c = Config{Idle: c.Idle, Misspelt: c.Misspelt}
		if err := env.ParseWithOptions(&c, env.Options{Environment: values}); err != nil {
			return c, wrong
		}
	}
	c.follow(values)
	c.Doubts = c.doubts()
	c.Server.AdminToken = cmp.Or(c.Server.AdminToken, secret.String(strings.TrimSpace(c.Server.AdminTokenFile.Reveal())))
	c.Redis.URL = secret.String(secret.OfFile(c.Redis.URLFile, c.Redis.URL.Reveal()))
	c.Redis.LockURL = secret.String(secret.OfFile(c.Redis.LockURLFile, c.Redis.LockURL.Reveal()))
	return c, errors.Join(wrong, c.Validate())
}

func valuesOf(environ []string) map[string]string {
	values := make(map[string]string, len(environ))
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return values
}

// Validate checks what can be checked without a network, all at once.
func (c Config) Validate() error {
	errs := []error{
		c.RPC.Validate(), c.API.Validate(), c.Precheck.Validate(), c.Submit.Validate(), c.Pool.Validate(), c.Trace.Validate(),
		c.Lock.Check(), c.Limit.Validate(), c.Consensus.Validate(), c.Mirror.Check(), c.Cache.Validate(), c.Capacity.Validate(), c.Tracing.Validate(),
		c.Redis.check(), envx.Check(c.Server), c.Server.checkAdmin(),
	}
	if _, known := c.Log.Least(); !known {
		errs = append(errs, fmt.Errorf("LOG_LEVEL %q: want trace, debug, info, warn, error or fatal", c.Log.Level))
	}
	if c.Log.Fields != "lockstep" && c.Log.Fields != "hiero" {
		errs = append(errs, fmt.Errorf("LOG_JSON_FIELDS %q: want lockstep or hiero", c.Log.Fields))
	}
	if !c.Server.HTTP && !c.Server.WebSocket {
		errs = append(errs, errors.New("RPC_HTTP_ENABLED and RPC_WS_ENABLED are both false: nothing to serve"))
	}
	if !c.Submit.ReadOnly && c.Consensus.OperatorID == "" {
		errs = append(errs, errors.New("OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN are needed to submit transactions, such as OPERATOR_ID_MAIN=0.0.1234; a relay with READ_ONLY=true needs neither"))
	}
	if c.Limit.CallStore == limit.StoreRedis && !c.Redis.Enabled {
		errs = append(errs, errors.New("IP_RATE_LIMIT_STORE=REDIS needs REDIS_ENABLED=true"))
	}
	for _, a := range c.Server.ManagedSigners {
		if !common.IsHexAddress(a) {
			errs = append(errs, fmt.Errorf("TXM_MANAGED_SIGNERS: %q is not an address", a))
		}
	}
	for _, name := range c.Server.ReadinessFails {
		if !slices.Contains([]string{"mirror", "nodes", "redis", "lock_redis", "chain", "operator"}, name) {
			errs = append(errs, fmt.Errorf("READINESS_FAILS_WITHOUT: %q is none of mirror, nodes, redis, lock_redis, chain and operator", name))
		}
	}
	for name, port := range map[string]int{"SERVER_PORT": c.Server.Port, "WEB_SOCKET_PORT": c.Server.WebSocketPort, "WEB_SOCKET_HTTP_PORT": c.Server.StatusPort} {
		if port < 0 || port > 65535 {
			errs = append(errs, fmt.Errorf("%s: %d is not a port", name, port))
		}
	}
	return errors.Join(errs...)
}

// emptyValue is a line that gives no value and a comment, as in templates: the comment is
// not the value.
var emptyValue = regexp.MustCompile(`(?m)^([ \t]*(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_.]*[ \t]*=)[ \t]*#.*$`)

// closeComment is a comment right behind a value without quotes, as in "KEY=60000000000# 600 HBARs", a line of
// hiero-json-rpc-relay's own template. A # amid other characters stays part of the value.
var closeComment = regexp.MustCompile(`(?m)^([ \t]*(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_.]*[ \t]*=[ \t]*[^'"\x60#\s][^\n]*?)(#(?:[ \t].*)?)$`)

// EnvFile is the name in the environment of a file that is read in place of .env.
const EnvFile = "LOCKSTEP_ENV_FILE"

// Environ returns the process environment, completed by the file that EnvFile names, or else by the .env file in
// dir, if there is one; those above it are somebody else's. What the environment sets, even to nothing, the file
// cannot change. file is the path of the file that was used, or "".
func Environ(environ []string, dir string) (all []string, file string, err error) {
	file = filepath.Join(dir, ".env")
	if named := valuesOf(environ)[EnvFile]; named != "" {
		if file = named; !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if _, err := os.Stat(file); err != nil {
			return nil, file, fmt.Errorf("%s: %w", EnvFile, err)
		}
	} else if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return environ, "", nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, file, err
	}
	values, err := godotenv.UnmarshalBytes(closeComment.ReplaceAll(emptyValue.ReplaceAll(raw, []byte("$1")), []byte("$1 $2")))
	if err != nil {
		return nil, file, fmt.Errorf("%s: %w", file, err)
	}
	set := make(map[string]bool, len(environ))
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		set[name] = true
	}
	all = append(all, environ...)
	for name, value := range values {
		if !set[name] {
			all = append(all, name+"="+value)
		}
	}
	return all, file, nil
}

// follow raises defaults of ours that would undercut what was set. Whoever allows each sender 90 ℏ does not expect an address to be stopped at 30.
func (c *Config) follow(values map[string]string) {
	unset := func(name string) bool { return values[name] == "" }
	if unset("HBAR_RATE_LIMIT_BASIC_PER_IP") && c.Limit.Basic < c.Limit.Basic*10 {
		c.Limit.PerIP = max(c.Limit.PerIP, c.Limit.Basic*10)
	}
	if unset("SIMULATION_GAS_CAP") {
		c.API.Simulation.Gas = max(c.API.Simulation.Gas, c.Precheck.MaxGasLimit)
	}
	if unset("TXPOOL_MAX_ENTRIES") {
		c.Pool.MaxEntries = max(c.Pool.MaxEntries, c.Submit.MaxInProgress)
	}
	if unset("LOCK_MAX_QUEUE_PER_SENDER") {
		c.Lock.MaxQueue = max(c.Lock.MaxQueue, c.RPC.Batch.MaxSize)
	}
}

// doubts are settings that could be meant so, and hardly ever are.
func (c *Config) doubts() (list []string) {
	doubt := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	chains := map[string]uint64{"mainnet": 295, "testnet": 296, "previewnet": 297}
	network, mirror := strings.ToLower(strings.TrimSpace(c.Consensus.Network)), publicMirror(c.Mirror.URL.Reveal())
	own := uint64(c.Server.ChainID)
	switch id, named := chains[network]; {
	case named && id != own:
		doubt("CHAIN_ID is %d, and HEDERA_NETWORK=%s has %d", own, network, id)
	case !named && chains[mirror] != 0 && chains[mirror] != own:
		doubt("CHAIN_ID is %d, and MIRROR_NODE_URL is that of %s, which has %d", own, mirror, chains[mirror])
	}
	if chains[network] != 0 && mirror != "" && mirror != network {
		doubt("HEDERA_NETWORK is %s, and MIRROR_NODE_URL is that of %s", network, mirror)
	}
	const shortest = 500 * time.Millisecond
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"SDK_REQUEST_TIMEOUT", c.Consensus.RequestTimeout.Duration()},
		{"SDK_GRPC_DEADLINE", c.Consensus.AttemptTimeout.Duration()},
		{"MIRROR_NODE_TIMEOUT", c.Mirror.Timeout.Duration()},
		{"SERVER_REQUEST_TIMEOUT_MS", c.RPC.HTTP.RequestTimeout.Duration()},
	} {
		if limit.value > 0 && limit.value < shortest {
			doubt("%s is %v, in which hardly anybody answers; a number without a unit counts milliseconds", limit.name, limit.value)
		}
	}
	return list
}

// publicMirror is the network of one of Hedera's public mirror nodes, or empty.
func publicMirror(address string) string {
	first, _, _ := strings.Cut(address, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return ""
	}
	name, found := strings.CutSuffix(strings.ToLower(u.Hostname()), ".mirrornode.hedera.com")
	if !found {
		return ""
	}
	return strings.TrimSuffix(name, "-public")
}

// WarnOfDoubts tells a log of settings that are hardly meant so.
func WarnOfDoubts(log *slog.Logger, doubts []string) {
	for _, d := range doubts {
		log.Warn("settings that hardly go together", "doubt", d)
	}
}
