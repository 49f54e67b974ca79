package mirror

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lockstep/internal/envx"
	"lockstep/internal/secret"
)

// Config is how the mirror node is reached and how much may be read from it.
type Config struct {
	// Where the mirror node is, without /api/v1; or several of them, separated by commas, the preferred one first. https is assumed when no scheme is given.
	URL secret.URL `env:"MIRROR_NODE_URL"`
	// Where contract calls and replays are answered, when it is not the one above; with several mirror nodes one for all of them, or one for each in the same order.
	Web3URL secret.URL `env:"MIRROR_NODE_URL_WEB3"`
	// Value of the Authorization header of every request.
	AuthHeader secret.String `env:"MIRROR_NODE_AUTH_HEADER"`
	// Value of the x-api-key header of every request.
	APIKey secret.String `env:"MIRROR_NODE_URL_HEADER_X_API_KEY"`
	// Value of the Is-Modularized header of every request, true or false; empty leaves it out.
	Modularized string `env:"USE_MIRROR_NODE_MODULARIZED_SERVICES"`

	// Time that one request may take, its body included.
	Timeout envx.Millis `env:"MIRROR_NODE_TIMEOUT" envDefault:"10000"`
	// How often a request is repeated after no answer, or after a status of MIRROR_NODE_RETRY_CODES.
	Retries int `env:"MIRROR_NODE_RETRIES" envDefault:"0"`
	// Repetitions, changes to another mirror node and hedges in proportion to all requests; an outage is not made worse by more. 0 allows none.
	RetryBudget float64 `env:"MIRROR_NODE_RETRY_BUDGET" envDefault:"0.2"`
	// HTTP statuses after which a request is repeated.
	RetryCodes envx.Strings `env:"MIRROR_NODE_RETRY_CODES"`
	// Wait before a repetition, multiplied by its number and with jitter; also the longest wait between two looks at an immature record.
	RetryDelay envx.Millis `env:"MIRROR_NODE_RETRY_DELAY" envDefault:"2000"`
	// How often a record is looked at until it is complete.
	ImmatureAttempts int `env:"MIRROR_NODE_REQUEST_RETRY_COUNT" envDefault:"10"`

	// Shortest time without an answer after which a request is made again, of another mirror node where there is one; the first answer counts. It is made again when it takes longer than 95 % of the recent answers of that mirror node to such requests. 0 switches it off.
	HedgeDelay envx.Millis `env:"MIRROR_NODE_HEDGE_DELAY" envDefault:"0"`
	// Longest such time. Not more than the shortest: that is always the time.
	HedgeDelayMax envx.Millis `env:"MIRROR_NODE_HEDGE_DELAY_MAX" envDefault:"1000"`

	// Failures in a row after which a mirror node is left alone for a while; 0 leaves none alone.
	BreakerFailures int `env:"MIRROR_NODE_BREAKER_FAILURES" envDefault:"5"`
	// How long that is at first; each try that fails doubles it, up to sixteen times as long.
	BreakerPause envx.Millis `env:"MIRROR_NODE_BREAKER_PAUSE" envDefault:"1000"`
	// How often each of several mirror nodes, or a single one that does not answer, is asked for its newest block.
	HealthInterval envx.Millis `env:"MIRROR_NODE_HEALTH_INTERVAL" envDefault:"1000"`
	// How many blocks a mirror node may be behind another before it is not used.
	MaxLag uint64 `env:"MIRROR_NODE_MAX_LAG_BLOCKS" envDefault:"5"`
	// How long a request waits for a mirror node that is behind what another one has answered before, when that one is gone.
	CatchUp envx.Millis `env:"MIRROR_NODE_CATCH_UP" envDefault:"4000"`
	// How long a block that no mirror node shows any more stays the newest; after that the network is taken to have been reset.
	HeadHold envx.Millis `env:"MIRROR_NODE_HEAD_HOLD" envDefault:"30000"`

	// Whether connections are kept for further requests.
	KeepAlive bool `env:"MIRROR_NODE_HTTP_KEEP_ALIVE" envDefault:"true"`
	// Interval of TCP keep-alive probes.
	KeepAliveInterval envx.Millis `env:"MIRROR_NODE_HTTP_KEEP_ALIVE_MSECS" envDefault:"1000"`
	// Most connections to one host.
	MaxSockets int `env:"MIRROR_NODE_HTTP_MAX_SOCKETS" envDefault:"300"`
	// Most idle connections overall.
	MaxTotalSockets int `env:"MIRROR_NODE_HTTP_MAX_TOTAL_SOCKETS" envDefault:"300"`
	// Time after which an idle connection is closed.
	SocketTimeout envx.Millis `env:"MIRROR_NODE_HTTP_SOCKET_TIMEOUT" envDefault:"60000"`
	// Most redirects that are followed; all of them on the same host.
	MaxRedirects int `env:"MIRROR_NODE_MAX_REDIRECTS" envDefault:"5"`
	// Longest answer that is read, in bytes.
	MaxBody int64 `env:"MIRROR_NODE_MAX_BODY_BYTES" envDefault:"134217728"`

	// Items per page.
	PageSize int `env:"MIRROR_NODE_LIMIT_PARAM" envDefault:"100"`
	// Most pages of a list without a limit of its own.
	MaxPages int `env:"MIRROR_NODE_PAGINATION_MAX" envDefault:"20"`
	// Most pages of contract results.
	MaxResultPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_PG_MAX" envDefault:"25"`
	// Most pages of logs over a range of blocks.
	MaxLogPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_LOGS_PG_MAX" envDefault:"200"`
	// Most pages of logs of a single block.
	MaxBlockLogPages int `env:"MIRROR_NODE_CONTRACT_RESULTS_LOGS_BLOCK_RANGE_PG_MAX" envDefault:"500"`
	// Most pages of an account's transactions.
	MaxAccountPages int `env:"MIRROR_NODE_ACCOUNT_TXS_PG_MAX" envDefault:"100"`
	// Most pages of the blocks of a fee history.
	MaxBlockPages int `env:"FEE_HISTORY_BLOCK_PAGINATION_MAX" envDefault:"20"`
	// How many parts of one block are read at once.
	SliceConcurrency int `env:"MIRROR_NODE_TIMESTAMP_SLICING_CONCURRENCY" envDefault:"30"`
	// How many transactions of a block one part is meant to hold.
	SliceSize int `env:"MIRROR_NODE_TIMESTAMP_SLICING_MAX_LOGS_PER_SLICE" envDefault:"100"`

	// The mirror node reports new blocks by itself, which the development network's can. Others are polled.
	Push bool `env:"MIRROR_NODE_PUSH_ENABLED" envDefault:"false"`

	// How long the newest block and the fees are shared between requests; 0 shares only what is under way. Writes through this relay and newer blocks end it early.
	Freshness envx.Millis `env:"ETH_BLOCK_NUMBER_CACHE_TTL_MS" envDefault:"200"`
	// Most entries of each cache of what cannot change; 0 switches them off.
	CacheEntries int `env:"CACHE_MAX" envDefault:"1000"`
	// Most memory of the cache of blocks and contract results, in bytes.
	CacheBytes int64 `env:"MIRROR_NODE_CACHE_BYTES" envDefault:"33554432"`

	// Results that mean that a transaction was refused before it ran, so that its record never completes. Empty for the built-in list.
	NeverExecuted envx.Strings `env:"HEDERA_SPECIFIC_REVERT_STATUSES"`
}

// Check returns everything that is wrong with the settings.
func (c *Config) Check() error {
	var errs []error
	if _, err := c.upstreams(); err != nil {
		errs = append(errs, err)
	}
	switch c.Modularized {
	case "", "true", "false":
	default:
		errs = append(errs, errors.New("USE_MIRROR_NODE_MODULARIZED_SERVICES: want true or false"))
	}
	if _, err := c.retryCodes(); err != nil {
		errs = append(errs, fmt.Errorf("MIRROR_NODE_RETRY_CODES: %w", err))
	}
	positive := []struct {
		name  string
		value int64
	}{
		{"MIRROR_NODE_TIMEOUT", int64(c.Timeout)},
		{"MIRROR_NODE_HEALTH_INTERVAL", int64(c.HealthInterval)},
		{"MIRROR_NODE_BREAKER_PAUSE", int64(c.BreakerPause)},
		{"MIRROR_NODE_REQUEST_RETRY_COUNT", int64(c.ImmatureAttempts)},
		{"MIRROR_NODE_HTTP_MAX_SOCKETS", int64(c.MaxSockets)},
		{"MIRROR_NODE_MAX_BODY_BYTES", c.MaxBody},
		{"MIRROR_NODE_LIMIT_PARAM", int64(c.PageSize)},
		{"MIRROR_NODE_PAGINATION_MAX", int64(c.MaxPages)},
		{"MIRROR_NODE_CONTRACT_RESULTS_PG_MAX", int64(c.MaxResultPages)},
		{"MIRROR_NODE_CONTRACT_RESULTS_LOGS_PG_MAX", int64(c.MaxLogPages)},
		{"MIRROR_NODE_CONTRACT_RESULTS_LOGS_BLOCK_RANGE_PG_MAX", int64(c.MaxBlockLogPages)},
		{"MIRROR_NODE_ACCOUNT_TXS_PG_MAX", int64(c.MaxAccountPages)},
		{"FEE_HISTORY_BLOCK_PAGINATION_MAX", int64(c.MaxBlockPages)},
		{"MIRROR_NODE_TIMESTAMP_SLICING_CONCURRENCY", int64(c.SliceConcurrency)},
		{"MIRROR_NODE_TIMESTAMP_SLICING_MAX_LOGS_PER_SLICE", int64(c.SliceSize)},
	}
	for _, p := range positive {
		if p.value < 1 {
			errs = append(errs, fmt.Errorf("%s: must be at least 1, is %d", p.name, p.value))
		}
	}
	if c.Retries < 0 || c.RetryDelay < 0 || c.Freshness < 0 || c.CacheEntries < 0 || c.CacheBytes < 0 || c.MaxRedirects < 0 {
		errs = append(errs, errors.New("MIRROR_NODE_RETRIES, MIRROR_NODE_RETRY_DELAY, ETH_BLOCK_NUMBER_CACHE_TTL_MS, CACHE_MAX, MIRROR_NODE_CACHE_BYTES and MIRROR_NODE_MAX_REDIRECTS must not be negative"))
	}
	if c.BreakerFailures < 0 || c.HedgeDelay < 0 || c.HedgeDelayMax < 0 || c.CatchUp < 0 || c.HeadHold < 0 {
		errs = append(errs, errors.New("MIRROR_NODE_BREAKER_FAILURES, MIRROR_NODE_HEDGE_DELAY, MIRROR_NODE_HEDGE_DELAY_MAX, MIRROR_NODE_CATCH_UP and MIRROR_NODE_HEAD_HOLD must not be negative"))
	}
	if !(c.RetryBudget >= 0 && c.RetryBudget <= 10) {
		errs = append(errs, errors.New("MIRROR_NODE_RETRY_BUDGET: want 0 to 10"))
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

const apiPrefix = "/api/v1/"

// baseURL completes a configured address to scheme://host[/prefix], without a
// slash at the end.
func baseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("not a URL") // the parse error would quote it, with any password in it
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
