package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/hedera"
)

// Client reads from one mirror node or several. It is safe for concurrent use. But for
// Run it owns no goroutine that outlives a read.
type Client struct {
	config     Config
	log        *slog.Logger
	origin     func(context.Context) Origin
	http       *http.Client
	upstreams  []*upstream // at least one; in the order of preference
	tide       tide
	budget     budget
	retryCodes map[int]bool
	never      map[string]bool
	flights    flights
	waiting    atomic.Int32 // requests, for mirror nodes that throttle
	metrics    metrics
	buffers    sync.Pool // of *bytes.Buffer

	store    Store                  // nil: none
	chainKey atomic.Pointer[string] // see chain

	noPush atomic.Bool // the mirror node has turned out to be unable to push

	head fresh[*Block]
	fees fresh[*Fees]

	prices prices
	walk   walk

	blocks  *cache[string, *Block]               // by number and by hash
	results *cache[common.Hash, *ContractResult] // complete ones, by transaction hash
	logs    *cache[uint64, []*Log]               // all logs of a block, by its number
	lists   *cache[uint64, []*ContractResult]    // all results of a block, by its number
	aliases *cache[hedera.ID, common.Address]    // the EVM address of an entity
}

// Options are what a Client is given besides its settings.
type Options struct {
	Log *slog.Logger
	// Origin tells on whose behalf a request is made; nil for nobody's.
	Origin func(context.Context) Origin
	// Store is shared with other relays; nil for none.
	Store Store
	// Transport replaces the pooled transport that New makes; for tests.
	Transport http.RoundTripper
}

// Origin is what the mirror node is told of the request behind a read.
type Origin struct {
	RequestID string // sent as requestId
	ClientIP  string // sent as Forwarded
}

// aliasBytes is the rough size of an entry of the alias cache.
const aliasBytes = 64

// New makes a client. It opens no connection.
func New(config Config, options Options) (*Client, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	upstreams, err := config.upstreams()
	if err != nil {
		return nil, err
	}
	codes, err := config.retryCodes()
	if err != nil {
		return nil, fmt.Errorf("retry codes: %w", err)
	}
	c := &Client{
		config: config, log: options.Log, origin: options.Origin, store: options.Store,
		http:      httpClient(&config, options.Transport),
		upstreams: upstreams, budget: budget{share: config.RetryBudget},
		retryCodes: codes, never: make(map[string]bool), metrics: newMetrics(),
		blocks:  newCache[string, *Block](config.CacheEntries, config.CacheBytes/8),
		results: newCache[common.Hash, *ContractResult](config.CacheEntries, config.CacheBytes/4),
		lists:   newCache[uint64, []*ContractResult](config.CacheEntries, config.CacheBytes/4),
		logs:    newCache[uint64, []*Log](config.CacheEntries, config.CacheBytes/4),
		aliases: newCache[hedera.ID, common.Address](config.CacheEntries*10, config.CacheBytes/8),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.flights.log = c.log
	if len(config.NeverExecuted) == 0 {
		config.NeverExecuted = hedera.NeverExecuted()
	}
	for _, status := range config.NeverExecuted {
		c.never[status] = true
	}
	c.head = fresh[*Block]{interval: config.Freshness.Duration(), flights: &c.flights, key: "head"}
	c.fees = fresh[*Fees]{interval: config.Freshness.Duration(), flights: &c.flights, key: "fees"}
	return c, nil
}

// Invalidate makes every read that starts from now on ask anew for what can
// change. It is to be called when a write is known to have taken effect.
func (c *Client) Invalidate() {
	c.flights.invalidate()
	c.head.forget()
}

// Forget drops everything that is kept, also what cannot change on a real network:
// a development network can be reset.
func (c *Client) Forget() {
	c.Invalidate()
	c.chainKey.Store(nil)
	c.fees.forget()
	c.prices.forget()
	c.blocks.purge()
	c.results.purge()
	c.lists.purge()
	c.logs.purge()
	c.aliases.purge()
}

// Collectors returns the client's metrics, for registration.
func (c *Client) Collectors() []prometheus.Collector { return c.metrics.collectors(c) }

// get reads path from the REST interface and decodes the answer. Identical reads
// share one request and its result, which must not be changed. A 404 is
// ErrNotFound.
func get[T any](ctx context.Context, c *Client, label, path string, read func(*reader, *T)) (*T, error) {
	return shared(ctx, c, path, request{label: label, path: path}, read)
}

// shared is get for any request. The key tells apart what is read and how.
func shared[T any](ctx context.Context, c *Client, key string, q request, read func(*reader, *T)) (*T, error) {
	value, err := c.flights.do(ctx, key, func(ctx context.Context) (any, error) { return ask(ctx, c, q, read) })
	if err != nil {
		return nil, err
	}
	return value.(*T), nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
