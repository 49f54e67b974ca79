package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
	"lockstep/internal/metric"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror/fetch"
)

// Client reads from one mirror node or several. It is safe for concurrent use. Apart from Run it owns no
// goroutine that outlives a read.
type Client struct {
	config  Config
	log     *slog.Logger
	fetch   *fetch.Fetcher
	never   map[string]bool // results of transactions that never ran
	flights fetch.Flights

	store      Store
	chainKey   atomic.Pointer[string] // see chain
	metrics    metric.Set
	unreadable prometheus.Counter

	noPush atomic.Bool // the mirror node has turned out to be unable to push

	newest     atomic.Pointer[Block] // see newer
	head       fresh[*Block]
	fees       fresh[*Fees]
	prices     *lru.Cache[int64, hourPrice]
	sequential sequential

	blocks  *cache[string, *Block]               // by number and by hash
	results *cache[common.Hash, *ContractResult] // complete ones, by transaction hash
	logs    *cache[uint64, []*Log]               // all logs of a block, by its number
	lists   *cache[uint64, []*ContractResult]    // all results of a block, by its number
	aliases *cache[hedera.ID, common.Address]    // the EVM address of an entity
	payers  *cache[hedera.Timestamp, hedera.ID]  // who paid for what reached consensus then
	nonces  *cache[common.Address, heard]        // see NotBefore
}

// Options are what a Client needs besides its settings.
type Options struct {
	Log *slog.Logger
	// Origin tells on whose behalf a request is made; nil for nobody's.
	Origin func(context.Context) Origin
	// Store is shared with other relays; nil is one that keeps nothing.
	Store Store
	// WentBack is called when a development network has gone back to an earlier state: all knowledge of later
	// blocks is wrong, and the client has forgotten it. It must not read from the client. Nil: nothing is called.
	WentBack func(block uint64)
	// Transport replaces the pooled transport that New makes; for tests.
	Transport http.RoundTripper
}

// Origin is what the mirror node is told of the request behind a read.
type Origin = fetch.Origin

// aliasBytes is the rough size of an entry of the alias cache.
const aliasBytes = 64

// New makes a client. It opens no connection.
func New(config Config, options Options) (*Client, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	c := &Client{
		config: config, log: options.Log, store: options.Store,
		never: make(map[string]bool), prices: newPrices(),
		blocks:  newCache[string, *Block](config.CacheEntries, config.CacheBytes/8),
		results: newCache[common.Hash, *ContractResult](config.CacheEntries, config.CacheBytes/4),
		lists:   newCache[uint64, []*ContractResult](config.CacheEntries, config.CacheBytes/4),
		logs:    newCache[uint64, []*Log](config.CacheEntries, config.CacheBytes/4),
		aliases: newCache[hedera.ID, common.Address](config.CacheEntries*10, config.CacheBytes/8),
		payers:  newCache[hedera.Timestamp, hedera.ID](config.CacheEntries*10, config.CacheBytes/8),
		nonces:  newCache[common.Address, heard](config.CacheEntries*10, config.CacheBytes/8),
	}
	c.unreadable = c.metrics.Counter("rpc_relay_mirror_unreadable_records_total", "Records of the shared cache that were ignored because they were damaged or of another version.")
	c.metrics.Asked("rpc_relay_cache", "Entries of all caches in this process.", func() (sum float64) {
		for _, k := range c.caches() {
			sum += float64(k.size())
		}
		return sum
	})
	c.log = cmp.Or(c.log, slog.New(slog.DiscardHandler))
	c.flights.Log = c.log
	deps := fetch.Deps{Log: c.log, Origin: options.Origin, Newest: decoding(c.blockList("").readPage), Forget: c.forgetChain, WentBack: options.WentBack, Transport: options.Transport}
	var err error
	if c.fetch, err = fetch.New(config.Config, deps); err != nil {
		return nil, err
	}
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

// Invalidate makes every read that starts from now on ask again for what can change. Call it when a write has
// certainly taken effect.
func (c *Client) Invalidate() {
	c.flights.Invalidate()
	c.head.forget()
}

// Forget drops everything that is kept, even what cannot change on a real network, because a development network
// can be reset.
func (c *Client) Forget() {
	c.Invalidate()
	c.chainKey.Store(nil)
	c.fees.forget()
	c.prices.Purge()
	c.blocks.purge()
	c.results.purge()
	c.lists.purge()
	c.logs.purge()
	c.aliases.purge()
	c.payers.purge()
	c.nonces.purge()
}

// forgetChain drops what is known of a chain that does not exist any more.
func (c *Client) forgetChain() {
	c.newest.Store(nil)
	c.Forget()
}

// ForSend says that what is read under a context is for the submission of a transaction: reads of clients do not keep
// it waiting.
func ForSend(ctx context.Context) context.Context { return fetch.ForSend(ctx) }

// Run looks after the mirror nodes until the context ends.
func (c *Client) Run(ctx context.Context) error { return c.fetch.Run(ctx) }

// UpstreamStatus is how a mirror node is doing.
type UpstreamStatus = fetch.UpstreamStatus

// Upstreams returns the state of each mirror node, in the order of MIRROR_NODE_URL.
func (c *Client) Upstreams() []UpstreamStatus { return c.fetch.Upstreams() }

// get reads path from the REST interface and decodes the answer. Identical reads
// share one request and its result, which must not be changed. A 404 is
// ErrNotFound.
func get[T any](ctx context.Context, c *Client, label, path string) (*T, error) {
	return shared[T](ctx, c, path, fetch.Request{Label: label, Path: path})
}

// errOther says that an answer is well formed, and not about what was asked for.
var errOther = errors.New("the answer is about something else")

// getOf is get for an answer that must be about something: what says nothing of it proves nothing, either.
func getOf[T any](ctx context.Context, c *Client, label, path string, about func(*T) bool) (*T, error) {
	return sharedWith(ctx, c, path, fetch.Request{Label: label, Path: path}, readOf(about))
}

// readOf reads an answer that must be about something.
func readOf[T any](about func(*T) bool) func([]byte, *T) error {
	return func(text []byte, v *T) error {
		err := unmarshal(text, v)
		if err == nil && !about(v) {
			err = errOther
		}
		return err
	}
}

// shared is get for any request. The key tells apart what is read and how.
func shared[T any](ctx context.Context, c *Client, key string, q fetch.Request) (*T, error) {
	return sharedWith(ctx, c, key, q, unmarshal[T])
}

// sharedWith is shared with another way to read an answer. Each request that gets the value
// counts as its holder.
func sharedWith[T any](ctx context.Context, c *Client, key string, q fetch.Request, read func([]byte, *T) error) (*T, error) {
	value, err := c.flights.Do(ctx, key, func(ctx context.Context) (any, error) { return ask(ctx, c, q, read) })
	if err != nil {
		return nil, err
	}
	got := value.(*decoded[T])
	if err := hold(ctx, int64(got.bytes)); err != nil {
		return nil, err
	}
	return &got.value, nil
}

func unmarshal[T any](text []byte, v *T) error { return json.Unmarshal(text, v, form) }

// hold counts the bytes of a value against the request that the context belongs to.
func hold(ctx context.Context, bytes int64) error {
	const small = 4 << 10 // not worth counting: a goroutine holds more
	if bytes < small {
		return nil
	}
	return capacity.FromContext(ctx).Take(int(bytes))
}

// ask makes a request and decodes the answer. Every attempt has its own value, since two may be under way at
// once.
func ask[T any](ctx context.Context, c *Client, q fetch.Request, read func([]byte, *T) error) (*decoded[T], error) {
	value, err := c.fetch.Do(ctx, q, decoding(read))
	if err != nil {
		return nil, err
	}
	return value.(*decoded[T]), nil
}

// decoded is a value from an answer, and about how many bytes it holds.
type decoded[T any] struct {
	value T
	bytes int
}

// decoding reads each answer into a new value.
func decoding[T any](read func([]byte, *T) error) fetch.Read {
	return func(body []byte) (any, uint64, error) {
		d := new(decoded[T])
		if err := read(body, &d.value); err != nil {
			return nil, 0, err
		}
		d.bytes = bytesOf(&d.value, len(body))
		return d, newestIn(&d.value), nil
	}
}

// newestIn is the highest block that a value names; 0 for none.
func newestIn(value any) uint64 {
	if v, ok := value.(interface{ newest() uint64 }); ok {
		return v.newest()
	}
	return 0
}

// bytesOf is about how many bytes a value holds that was read from that many bytes of text. Most hold less, since
// hex is twice as long as its bytes.
func bytesOf(value any, text int) int {
	if w, ok := value.(interface{ weight() int64 }); ok {
		if n := w.weight(); n > 0 {
			return int(n)
		}
	}
	return text
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// What can go wrong with any request; see package fetch.
var (
	ErrNotFound = fetch.ErrNotFound
	ErrTooLong  = fetch.ErrTooLong
)

// Statuses of an Error when there was no usable HTTP answer; see package fetch.
const (
	StatusTimeout    = fetch.StatusTimeout
	StatusUnreadable = fetch.StatusUnreadable
	StatusNoAnswer   = fetch.StatusNoAnswer
)

// Error is a failed request, and Message a further part of it.
type (
	Error   = fetch.Error
	Message = fetch.Message
)

// ErrImmature says that a record was still incomplete at the end of the wait.
var ErrImmature = errors.New("immature record")

// PagesError says that a list has more pages than may be read.
type PagesError struct {
	Limit int // pages that were read
}

func (e *PagesError) Error() string {
	return fmt.Sprintf("mirror node: more than %d pages", e.Limit)
}

// counted is what metrics read of a cache.
type counted interface {
	size() int
	calls() (gets, puts uint64)
}

// caches are the caches of what cannot change, by kind.
func (c *Client) caches() map[string]counted {
	return map[string]counted{"block": c.blocks, "result": c.results, "blockResults": c.lists, "blockLogs": c.logs, "alias": c.aliases}
}

// Collectors returns the client's metrics, for registration. Two have the names and labels that
// the TypeScript relay gives them.
func (c *Client) Collectors() []prometheus.Collector {
	all := append(c.fetch.Collectors(), c.metrics.Collectors()...)
	for kind, k := range c.caches() {
		calls := func(method string, value func() uint64) prometheus.Collector {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name:        "rpc_cache_service_methods_counter",
				Help:        "Calls of the caches, by the kind of the entries (callingMethod), where (cacheType: lru, redis) and what was done (method: get, set).",
				ConstLabels: prometheus.Labels{"callingMethod": kind, "cacheType": "lru", "method": method},
			}, func() float64 { return float64(value()) })
		}
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "rpc_relay_mirror_cache_entries",
			Help:        "Entries of the caches of what cannot change, by kind.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(k.size()) }),
			calls("get", func() uint64 { gets, _ := k.calls(); return gets }),
			calls("set", func() uint64 { _, puts := k.calls(); return puts }))
	}
	return all
}
