package rpc

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
)

// Profile says which kind of server clients see.
type Profile string

const (
	// ProfileHiero answers as the TypeScript relay does, so that it can be replaced without touching
	// a client: messages begin with "[Request ID: …] ", a failed single call has an HTTP error status, a call
	// without id is an error.
	ProfileHiero Profile = "hiero"
	// ProfileEthereum answers as Ethereum nodes do: bare messages, HTTP 200 for every
	// well-formed call, no answer to a call without id, and no text of unforeseen
	// errors.
	ProfileEthereum Profile = "ethereum"
)

// UnmarshalText reads a profile's name and refuses unknown ones.
func (p *Profile) UnmarshalText(text []byte) error {
	switch v := Profile(text); v {
	case ProfileHiero, ProfileEthereum:
		*p = v
		return nil
	}
	return fmt.Errorf("unknown profile %q: want %s or %s", text, ProfileHiero, ProfileEthereum)
}

// Config holds the settings of the JSON-RPC servers.
type Config struct {
	// Behaviour of the server: hiero (as hiero-json-rpc-relay: prefixed messages, HTTP
	// error statuses) or ethereum (as Ethereum nodes: bare messages, HTTP 200).
	Profile Profile `env:"RELAY_PROFILE" envDefault:"hiero"`
	// A call without an id gets the id "0" instead of an error.
	RequestIDOptional bool `env:"REQUEST_ID_IS_OPTIONAL" envDefault:"false"`
	// HTTP status of a well-formed single call that failed, in place of 400; 200 suits
	// clients that read the body only after a good status. Profile hiero only.
	ValidCallStatus int `env:"ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE" envDefault:"400"`
	clientip.Config

	// Log a line of level info for each HTTP request and WebSocket message; false logs them at level debug.
	LogRequests bool `env:"LOG_REQUESTS" envDefault:"false"`
	// What log lines tell of the client's address: full, network (the first 24 bits of IPv4, 48 of IPv6) or none.
	LogClient string `env:"LOG_CLIENT_ADDRESS" envDefault:"full"`

	HTTP      HTTPConfig
	Batch     BatchConfig
	WebSocket WebSocketConfig
	RateLimit RateLimitConfig
	Keys      KeysConfig
}

// HTTPConfig holds the settings of the HTTP server.
type HTTPConfig struct {
	// Namespaces served over HTTP: what stands before the first underscore of a method.
	APIs envx.Strings `env:"RPC_HTTP_API" envDefault:"eth,debug,net,web3,txpool,trace,admin"`
	// Largest request body in megabytes (1048576 bytes), after decompression.
	InputSizeLimit int `env:"INPUT_SIZE_LIMIT" envDefault:"1" min:"1" max:"1024"`
	// Maximum number of connections in all, on the ports of HTTP and WebSocket. Further ones are answered
	// with status 503 and closed.
	ConnectionLimit int `env:"HTTP_CONNECTION_LIMIT" envDefault:"16384" min:"1"`
	// Maximum number of connections from one address (of IPv6: from one /64). An address may also not have more than
	// are left free of HTTP_CONNECTION_LIMIT, so that a few addresses leave room for others. Trusted proxies are not counted.
	ConnectionLimitPerIP int `env:"HTTP_CONNECTION_LIMIT_PER_IP" envDefault:"1024" min:"1"`
	// Time for one request: for its body to arrive, and again for its calls to finish;
	// calls that take longer answer "Request timeout". Milliseconds. WebSocket
	// messages have the same time.
	RequestTimeout envx.Millis `env:"SERVER_REQUEST_TIMEOUT_MS" envDefault:"60000" min:"1ms"`
	// How long a connection is kept between two requests, on the port of WebSocket, too. Before the first request
	// it has SERVER_HEADERS_TIMEOUT_MS. Milliseconds.
	KeepAliveTimeout envx.Millis `env:"SERVER_KEEPALIVE_TIMEOUT_MS" envDefault:"650000" min:"1ms"`
	// Time for the headers of a request to arrive; never more than the request
	// time-out. Milliseconds.
	HeadersTimeout envx.Millis `env:"SERVER_HEADERS_TIMEOUT_MS" envDefault:"660000" min:"1ms"`
	// How long requests in progress may take to finish when the server stops.
	// Milliseconds. WebSocket connections have the same time.
	DrainTimeout envx.Millis `env:"SERVER_DRAIN_TIMEOUT_MS" envDefault:"20000" min:"0"`
}

// BatchConfig holds the settings of batches.
type BatchConfig struct {
	// Allow batches over HTTP.
	Enabled bool `env:"BATCH_REQUESTS_ENABLED" envDefault:"true"`
	// Maximum number of items of a HTTP batch.
	MaxSize int `env:"BATCH_REQUESTS_MAX_SIZE" envDefault:"100" min:"1"`
	// Maximum number of items of one batch that run at the same time, besides the two-phase ones,
	// which all take their place in line at once.
	Concurrency int `env:"BATCH_REQUESTS_CONCURRENCY" envDefault:"100" min:"1"`
}

// WebSocketConfig holds the settings of the WebSocket server.
type WebSocketConfig struct {
	// Namespaces served over WebSocket.
	APIs envx.Strings `env:"RPC_WS_API" envDefault:"eth,debug,net,web3,txpool,trace,admin"`
	// Allow batches over WebSocket.
	BatchEnabled bool `env:"WS_BATCH_REQUESTS_ENABLED" envDefault:"true"`
	// Maximum number of items of a WebSocket batch.
	BatchMaxSize int `env:"WS_BATCH_REQUESTS_MAX_SIZE" envDefault:"20" min:"1"`
	// Maximum number of connections in all.
	ConnectionLimit int `env:"WS_CONNECTION_LIMIT" envDefault:"10" min:"1"`
	// Maximum number of connections from one address.
	ConnectionLimitPerIP int `env:"WS_CONNECTION_LIMIT_PER_IP" envDefault:"10" min:"1"`
	// Largest message in megabytes (1048576 bytes); -1 for no limit.
	InputSizeLimit int `env:"WS_INPUT_SIZE_LIMIT" envDefault:"1"`
	// A connection on which nothing but pings went either way for so long is closed.
	// Milliseconds.
	InactivityTTL envx.Millis `env:"WS_MAX_INACTIVITY_TTL" envDefault:"300000" min:"1ms"`
	// Interval of keep-alive frames; 0 for none. Milliseconds.
	PingInterval envx.Millis `env:"WS_PING_INTERVAL" envDefault:"100000" min:"0"`
	// Maximum number of messages of one connection in progress at the same time; the next ones wait
	// in the network.
	MaxInFlight int `env:"WS_MAX_IN_FLIGHT" envDefault:"128" min:"1"`
	// How long a client may take to make room for an answer before it is
	// disconnected. Milliseconds.
	WriteTimeout envx.Millis `env:"WS_WRITE_TIMEOUT_MS" envDefault:"10000" min:"1ms"`
	// Megabytes of notifications that may wait for one client; one that is further
	// behind is disconnected with close code 1008. Clients with the same
	// subscriptions share this memory.
	NotifyLimit int `env:"WS_NOTIFICATION_BUFFER_LIMIT" envDefault:"16" min:"1" max:"1024"`
	// Origins of web pages that may connect, such as https://app.example.com; * for
	// all. Clients that are not browsers send no origin and always may.
	AllowedOrigins envx.Strings `env:"WS_ALLOWED_ORIGINS" envDefault:"*"`
}

// RateLimitConfig holds how often one address may call one method per window.
type RateLimitConfig struct {
	// Turns the limit off. It counts an IPv6 address together with the others of its /64.
	Disabled bool `env:"RATE_LIMIT_DISABLED" envDefault:"true"`
	// Length of the window. Milliseconds.
	Window envx.Millis `env:"LIMIT_DURATION" envDefault:"60000"`
	// Calls per window of the most expensive methods: simulations, submissions, traces; and of some constants, as in the TypeScript relay.
	Tier1 int `env:"TIER_1_RATE_LIMIT" envDefault:"100" reload:"true" min:"0"`
	// Calls per window of the other eth methods.
	Tier2 int `env:"TIER_2_RATE_LIMIT" envDefault:"800" reload:"true" min:"0"`
	// Calls per window of net and web3 methods, and of admin_config.
	Tier3 int `env:"TIER_3_RATE_LIMIT" envDefault:"1600" reload:"true" min:"0"`
	// Calls per window of all other methods.
	Default int `env:"DEFAULT_RATE_LIMIT" envDefault:"200" reload:"true" min:"0"`
	// Calls per window of single methods, in place of their tier's: eth_getLogs=50,debug_*=5. A name goes before a pattern, and a longer pattern before a shorter one; each method that a pattern fits has the limit for itself. 0 refuses every call. Callers with an API key have the limits of their key.
	Methods MethodLimits `env:"METHOD_RATE_LIMITS" reload:"true"`
}

const megabyte = 1 << 20

// ClientForLog is what log lines tell of a client's address; empty for nothing.
func (c *Config) ClientForLog(ip string) string {
	switch c.LogClient {
	case "none":
		return ""
	case "network":
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return ""
		}
		bits := 24
		if addr = addr.Unmap().WithZone(""); addr.Is6() {
			bits = 48
		}
		network, err := addr.Prefix(bits)
		if err != nil {
			return ""
		}
		return network.String()
	}
	return ip
}

// hasBody reports whether answers with the HTTP status can have a body.
func hasBody(status int) bool {
	switch status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return false
	}
	return status >= http.StatusOK && status < 600 && http.StatusText(status) != ""
}

// Validate reports every setting that makes no sense.
func (c *Config) Validate() error {
	errs := []error{envx.Check(*c), c.Config.Validate()}
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(c.Profile == ProfileHiero || c.Profile == ProfileEthereum, "RELAY_PROFILE must be hiero or ethereum.")
	need(c.LogClient == "" || c.LogClient == "full" || c.LogClient == "network" || c.LogClient == "none", "LOG_CLIENT_ADDRESS must be full, network or none.")
	need(hasBody(c.ValidCallStatus), "ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE must be a HTTP status code that has a body.")
	ws := &c.WebSocket
	need(ws.InputSizeLimit == -1 || ws.InputSizeLimit > 0 && ws.InputSizeLimit <= 1024,
		"WS_INPUT_SIZE_LIMIT must be -1 or a positive number.")
	for _, origin := range ws.AllowedOrigins {
		need(isOrigin(origin), "WS_ALLOWED_ORIGINS: %q is neither * nor scheme://host[:port].", origin)
	}
	need(!c.Keys.KeyRequired || c.Keys.APIKeys.Given(), "API_KEYS_REQUIRED=true needs API_KEYS_FILE.")
	need(c.RateLimit.Disabled || c.RateLimit.Window > 0, "LIMIT_DURATION must be positive.")
	return errors.Join(errs...)
}
