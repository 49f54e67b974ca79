package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lockstep/internal/envx"
	"lockstep/internal/secret"
)

// Config is how the mirror node is reached.
type Config struct {
	// Where the mirror node is, without /api/v1; or several of them, separated by commas, the preferred one first. https is assumed when no scheme is given.
	URL secret.URL `env:"MIRROR_NODE_URL"`
	// Where contract calls and replays are answered, if not at MIRROR_NODE_URL; with several mirror nodes one for all of them, or one for each in the same order.
	Web3URL secret.URL `env:"MIRROR_NODE_URL_WEB3"`
	// Value of the Authorization header of every request.
	AuthHeader secret.String `env:"MIRROR_NODE_AUTH_HEADER"`
	// Value of the x-api-key header of every request.
	APIKey secret.String `env:"MIRROR_NODE_URL_HEADER_X_API_KEY"`
	// Value of the Is-Modularized header of every request, true or false; empty leaves it out.
	Modularized string `env:"USE_MIRROR_NODE_MODULARIZED_SERVICES"`

	// Time that one request may take, its body included.
	Timeout envx.Millis `env:"MIRROR_NODE_TIMEOUT" envDefault:"10000" min:"1ms"`
	// How often a request is repeated after no answer, or after a status of MIRROR_NODE_RETRY_CODES.
	Retries int `env:"MIRROR_NODE_RETRIES" envDefault:"0" min:"0"`
	// Repetitions, changes to another mirror node and hedges in proportion to all requests, so that they do not make an outage worse. 0 allows none.
	RetryBudget float64 `env:"MIRROR_NODE_RETRY_BUDGET" envDefault:"0.2" min:"0" max:"10"`
	// HTTP statuses after which a request is repeated.
	RetryCodes envx.Strings `env:"MIRROR_NODE_RETRY_CODES"`
	// Wait before a repetition, multiplied by its number and with jitter; also the longest wait between two looks at an immature record.
	RetryDelay envx.Millis `env:"MIRROR_NODE_RETRY_DELAY" envDefault:"2000" min:"0"`

	// Shortest time without an answer after which a request is made again, of another mirror node where there is one; the first answer counts. It is made again when it takes longer than 95 % of the recent answers of that mirror node to such requests. 0 switches it off.
	HedgeDelay envx.Millis `env:"MIRROR_NODE_HEDGE_DELAY" envDefault:"0" min:"0"`
	// Longest such time. If it is not longer than MIRROR_NODE_HEDGE_DELAY, that delay always applies.
	HedgeDelayMax envx.Millis `env:"MIRROR_NODE_HEDGE_DELAY_MAX" envDefault:"1000" min:"0"`

	// Failures in a row after which the relay pauses its requests to a mirror node (MIRROR_NODE_BREAKER_PAUSE). 0 switches this off.
	BreakerFailures int `env:"MIRROR_NODE_BREAKER_FAILURES" envDefault:"5" min:"0"`
	// Length of the first pause. Each try that fails doubles it, up to sixteen times this length.
	BreakerPause envx.Millis `env:"MIRROR_NODE_BREAKER_PAUSE" envDefault:"1000" min:"1ms"`
	// How often each of several mirror nodes, or a single one that does not answer, is asked for its newest block.
	HealthInterval envx.Millis `env:"MIRROR_NODE_HEALTH_INTERVAL" envDefault:"1000" min:"1ms"`
	// How many blocks a mirror node may be behind another before it is not used.
	MaxLag uint64 `env:"MIRROR_NODE_MAX_LAG_BLOCKS" envDefault:"5"`
	// How long a request waits for a mirror node that lags behind earlier answers of another one, when that one is gone.
	CatchUp envx.Millis `env:"MIRROR_NODE_CATCH_UP" envDefault:"4000" min:"0"`
	// How long a block that no mirror node shows any more stays the newest; after that the network is taken to have been reset.
	HeadHold envx.Millis `env:"MIRROR_NODE_HEAD_HOLD" envDefault:"30000" min:"0"`

	// Whether connections are kept for further requests.
	KeepAlive bool `env:"MIRROR_NODE_HTTP_KEEP_ALIVE" envDefault:"true"`
	// Interval of TCP keep-alive probes.
	KeepAliveInterval envx.Millis `env:"MIRROR_NODE_HTTP_KEEP_ALIVE_MSECS" envDefault:"1000" min:"1ms"`
	// Maximum number of requests to one host at the same time. Over HTTP/1.1 each has a connection. A tenth is kept for the submission of transactions, however many reads wait. Of the rest, the reads of one client leave a quarter to other clients.
	MaxSockets int `env:"MIRROR_NODE_HTTP_MAX_SOCKETS" envDefault:"300" min:"1"`
	// Maximum number of idle connections overall.
	MaxTotalSockets int `env:"MIRROR_NODE_HTTP_MAX_TOTAL_SOCKETS" envDefault:"300" min:"1"`
	// Time after which an idle connection is closed.
	SocketTimeout envx.Millis `env:"MIRROR_NODE_HTTP_SOCKET_TIMEOUT" envDefault:"60000" min:"1ms"`
	// Maximum number of redirects that are followed; all of them on the same host.
	MaxRedirects int `env:"MIRROR_NODE_MAX_REDIRECTS" envDefault:"5" min:"0"`
	// Longest answer that is read, in bytes.
	MaxBody int64 `env:"MIRROR_NODE_MAX_BODY_BYTES" envDefault:"33554432" min:"1"`
	// Maximum bytes of all answers that are being read, beyond 128 KiB of each. A request beyond it fails; the client can send it again.
	MaxBodies int64 `env:"MIRROR_NODE_MAX_BYTES_IN_FLIGHT" envDefault:"67108864" min:"1"`
}

// Check returns everything that is wrong with the settings besides their bounds.
func (c *Config) Check() error {
	var errs []error
	if c.MaxSockets > 0 { // each upstream makes room for so many
		if _, err := c.upstreams(); err != nil {
			errs = append(errs, err)
		}
	}
	switch c.Modularized {
	case "", "true", "false":
	default:
		errs = append(errs, errors.New("USE_MIRROR_NODE_MODULARIZED_SERVICES: want true or false"))
	}
	if _, err := c.retryCodes(); err != nil {
		errs = append(errs, fmt.Errorf("MIRROR_NODE_RETRY_CODES: %w", err))
	}
	return errors.Join(errs...)
}

func (c *Config) retryCodes() (map[int]bool, error) {
	codes := make(map[int]bool, len(c.RetryCodes))
	for _, text := range c.RetryCodes {
		code, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not an HTTP status", text)
		}
		codes[code] = true
	}
	return codes, nil
}

// APIPrefix is where the REST interface begins.
const APIPrefix = "/api/v1/"

// baseURL completes a configured address to scheme://host[/prefix], without a
// slash at the end.
func baseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL") // the parse error would quote it with its password
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("scheme %q: want http or https", u.Scheme)
	}
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want scheme://host[:port][/path]")
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api/v1"), "/")
	return u, nil
}
