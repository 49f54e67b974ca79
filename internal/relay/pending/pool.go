package pending

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/metric"
)

// Pool knows the transactions on their way. It is safe for concurrent use.
type Pool struct {
	off      bool // made by Disabled
	metrics  *metrics
	announce func(raw []byte)
	remote   *remote // nil: this process is alone
	early    bool
	quick    atomic.Bool // the latest verdict came within lag

	mu    sync.Mutex
	table *table // guarded by mu
}

// Deps are what a Pool works with.
type Deps struct {
	Redis redis.UniversalClient // nil: this process is alone
	Log   *slog.Logger
	// Bodies says that somebody may ask for pending transactions and not only for their
	// nonces, so that Redis has to keep them whole.
	Bodies bool
	// AnsweredEarly says that clients are answered before there is a verdict, and may ask
	// another relay at once.
	AnsweredEarly bool
	// Announce is told of every transaction that a consensus node accepted. It must not
	// wait. Nil: nobody listens.
	Announce func(raw []byte)
}

// Transaction is one that is on its way, or was a moment ago.
type Transaction struct {
	From   common.Address
	Fields *types.Transaction // nil: it is known, and its content is not
}

// New makes a Pool. It starts nothing.
func New(cfg Config, deps Deps) *Pool {
	p := &Pool{announce: deps.Announce, early: deps.AnsweredEarly, table: newTable(cfg)}
	p.metrics = newMetrics(p)
	if p.announce == nil {
		p.announce = func([]byte) {}
	}
	if deps.Redis != nil {
		p.remote = newRemote(cfg, deps, p.metrics)
	}
	return p
}

// Disabled makes a Pool that keeps nothing and knows nothing. It still announces what a consensus
// node accepted.
func Disabled(announce func(raw []byte)) *Pool {
	p := New(Config{}, Deps{Log: slog.New(slog.DiscardHandler), Announce: announce})
	p.off = true
	return p
}

// Enabled reports whether the pool keeps transactions.
func (p *Pool) Enabled() bool { return !p.off }

// Run keeps Redis informed until ctx ends. Its error is nil.
func (p *Pool) Run(ctx context.Context) error {
	if p.remote == nil {
		return nil
	}
	newFlusher(p.remote).run(ctx, p.renew)
	return nil
}

// Add says that a transaction is in line. It never blocks. Done follows, once.
func (p *Pool) Add(tx *eth.Tx) {
	if p.off {
		return
	}
	p.mu.Lock()
	e := p.table.add(tx, time.Now())
	first := e != nil && e.attempts == 1 && !e.spent
	p.mu.Unlock()
	switch {
	case e == nil:
		p.metrics.full.Inc()
		return
	case first && p.remote != nil:
		p.remote.add(tx, p.delay())
	}
	p.metrics.added.Inc()
}

// delay is how long an arrival may wait before others are told of it: where verdicts come
// quickly, the verdict will be told with it. Nobody has been told of the transaction by then.
func (p *Pool) delay() time.Duration {
	if p.quick.Load() && !p.early {
		return lag
	}
	return 0
}

// Accepted says that a consensus node has the transaction. It never blocks.
func (p *Pool) Accepted(tx *eth.Tx) { p.announce(tx.Raw()) }

// Done says that a transaction has its verdict. spent: the network executed it, so
// that the sender's next nonce is past it. perhaps: that is not known. It never blocks.
func (p *Pool) Done(tx *eth.Tx, spent, perhaps bool) {
	if p.off {
		return
	}
	p.mu.Lock()
	e := p.table.done(tx, spent, perhaps, time.Now())
	p.mu.Unlock()
	p.metrics.removed.Inc()
	if spent && e.fitted {
		p.quick.Store(e.took < lag)
	}
	if p.remote != nil && (e.over || e.spent) {
		p.remote.end(tx, e)
	}
}

// Latest returns a sender's next nonce without what is pending. confirmed is what the
// mirror node says.
func (p *Pool) Latest(ctx context.Context, address common.Address, confirmed uint64) uint64 {
	if p.remote != nil {
		confirmed = max(confirmed, p.remote.proven(ctx, address))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(confirmed, p.table.proven(address, time.Now()))
}

// Proven returns a sender's next nonce as far as this process has seen the network prove it, or
// 0. It waits for nothing.
func (p *Pool) Proven(address common.Address) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.proven(address, time.Now())
}

// maxFollowed bounds how many transactions are looked for between a sender's next nonce and
// a transaction.
const maxFollowed = 4096

// Follows tells whether all that comes before a transaction, from the sender's next nonce on,
// is on its way, and nothing else with its nonce. A pool that is off objects to nothing.
func (p *Pool) Follows(ctx context.Context, tx *eth.Tx, next uint64) bool {
	if p.off {
		return true
	}
	if tx.Nonce() < next || tx.Nonce()-next > maxFollowed {
		return false
	}
	var others knowledge
	if p.remote != nil {
		others = p.remote.sender(ctx, tx.From())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next = max(next, p.table.proven(tx.From(), time.Now()), others.next)
	for nonce := next; nonce < tx.Nonce(); nonce++ {
		if !p.table.has(tx.From(), nonce) && len(others.pending[nonce]) == 0 {
			return false
		}
	}
	same := func(hash common.Hash) bool { return hash != tx.Hash() }
	return !slices.ContainsFunc(others.pending[tx.Nonce()], same) && p.table.attempts(tx.From(), tx.Nonce()) <= 1
}

// Alone tells whether no other attempt at a transaction's nonce is on its way in this process. A
// pool that is off knows of none.
func (p *Pool) Alone(tx *eth.Tx) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.attempts(tx.From(), tx.Nonce()) <= 1
}

// Next returns a sender's next nonce with what is pending. confirmed is what the mirror
// node says.
func (p *Pool) Next(ctx context.Context, address common.Address, confirmed uint64) uint64 {
	var others knowledge
	if p.remote != nil {
		others = p.remote.sender(ctx, address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce := max(confirmed, p.table.proven(address, time.Now()), others.next)
	for p.table.has(address, nonce) || len(others.pending[nonce]) > 0 {
		nonce++
	}
	return nonce
}

// Find returns a transaction that this fleet has on its way or had a moment ago, if
// it was executed or may be; else false.
func (p *Pool) Find(ctx context.Context, hash common.Hash) (Transaction, bool) {
	p.mu.Lock()
	p.table.expire(time.Now())
	e := p.table.hashes[hash]
	p.mu.Unlock()
	switch {
	case e != nil:
		return Transaction{e.tx.From(), e.tx.Fields()}, true
	case p.remote != nil:
		return p.remote.find(ctx, hash)
	default:
		return Transaction{}, false
	}
}

// maxListed bounds the answers that list transactions.
const maxListed = 10_000

// Pending returns the transactions on their way, of one sender or, without one, of all,
// by sender and nonce. It lists a maximum of 10,000.
func (p *Pool) Pending(ctx context.Context, of *common.Address) []Transaction {
	found := p.own(of)
	if p.remote != nil && len(found) < maxListed {
		found = append(found, p.remote.list(ctx, of, maxListed-len(found))...)
	}
	slices.SortFunc(found, func(a, b Transaction) int {
		return cmp.Or(bytes.Compare(a.From[:], b.From[:]), cmp.Compare(a.Fields.Nonce(), b.Fields.Nonce()))
	})
	return found
}

// own lists what this process has on its way.
func (p *Pool) own(of *common.Address) []Transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Transaction
	for _, e := range p.table.hashes {
		if len(found) == maxListed {
			break
		}
		if e.attempts > 0 && (of == nil || e.tx.From() == *of) {
			found = append(found, Transaction{e.tx.From(), e.tx.Fields()})
		}
	}
	return found
}

// Count returns how many transactions are on their way.
func (p *Pool) Count(ctx context.Context) int {
	n := p.ownCount()
	if p.remote != nil {
		n = max(n, p.remote.count(ctx))
	}
	return n
}

func (p *Pool) ownCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.pending
}

// renew returns what this process has on its way and has not told Redis of for a
// while.
func (p *Pool) renew() []*eth.Tx {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.renew(time.Now())
}

// Collectors returns the metrics for registration; none if the pool is off.
func (p *Pool) Collectors() []prometheus.Collector {
	if p.off {
		return nil
	}
	return p.metrics.Collectors()
}

// Forget drops what this process knows of transactions that are over, and what they proved: a
// development network can go back to before them. What is on its way stays.
func (p *Pool) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.forgetOver(time.Now())
}

func (t *table) forgetOver(now time.Time) {
	for at := t.ended.Front(); at != nil; at = t.ended.Front() {
		t.ended.Remove(at)
		t.drop(at.Value.(*entry))
	}
	for at := t.proofs.Front(); at != nil; at = t.proofs.Front() {
		t.forget(at.Value.(*sender), now)
	}
}

// Config holds the settings of the transaction pool.
type Config struct {
	// Remember the transactions on their way: for pending nonces, for answers that are not stale right after a transaction, and for txpool_*.
	Enabled bool `env:"ENABLE_TX_POOL" envDefault:"true"`
	// Offer the methods txpool_content, txpool_contentFrom, txpool_inspect and txpool_status. The same on every relay of a fleet.
	API bool `env:"TXPOOL_API_ENABLED" envDefault:"false"`
	// Maximum number of transactions that this process remembers. Those that do not fit are submitted all the same. Unset, it is at least MAX_TRANSACTIONS_IN_PROGRESS.
	MaxEntries int `env:"TXPOOL_MAX_ENTRIES" envDefault:"65536" min:"1"`
	// Maximum number of bytes of transactions that this process remembers.
	MaxBytes int `env:"TXPOOL_MAX_BYTES" envDefault:"134217728" min:"1"`
	// Maximum bytes of transactions that the relays of a fleet keep in Redis together, for txpool_content and for eth_getTransactionByHash. Those that do not fit are known by their nonces. Nothing is added while less than a quarter of the memory of Redis is left.
	RedisMaxBytes int64 `env:"TXPOOL_REDIS_MAX_BYTES" envDefault:"67108864" min:"1"`
	// How long Redis keeps a pending transaction of a relay that does not say any more that it is pending.
	EntryTTL envx.Millis `env:"TXPOOL_ENTRY_TTL_MS" envDefault:"30000" min:"1s" max:"24h"`
	// How long the proof of an executed transaction counts while the mirror node does not show it.
	ExecutedTTL envx.Millis `env:"TXPOOL_EXECUTED_TTL_MS" envDefault:"120000" min:"1s" max:"24h"`
	// Deadline of every Redis call of the pool. No transaction waits for one.
	RedisTimeout envx.Millis `env:"TXPOOL_REDIS_TIMEOUT_MS" envDefault:"250" min:"1ms" max:"24h"`
	// Maximum bytes of transactions that this relay keeps in Redis because clients got their hashes before a node had them (USE_ASYNC_TX_PROCESSING), so that another relay can go on with them. Those that do not fit are lost if this relay is killed. Their number is bounded by TXPOOL_MAX_ENTRIES, their lifetime by NONCE_PROMISE_MS.
	PromisesMaxBytes int `env:"PROMISES_MAX_BYTES" envDefault:"67108864" min:"1"`
	// How long a relay may send no heartbeat before another one goes on with the transactions whose hashes its clients got.
	PromisesDeadAfter envx.Millis `env:"PROMISES_DEAD_AFTER_MS" envDefault:"5000" min:"500ms" max:"24h"`
}

// renewal is how often Redis is told that a transaction is still on its way.
func (c Config) renewal() time.Duration { return c.EntryTTL.Duration() / 3 }

// life is the maximum time for which something is kept in Redis, unless it is renewed.
func (c Config) life() time.Duration { return max(c.EntryTTL.Duration(), c.ExecutedTTL.Duration()) }

// Validate returns everything that is wrong with the settings.
func (c Config) Validate() error { return envx.Check(c) }

// metrics belongs to one Pool. The names without "lockstep" are relied upon by
// dashboards of the TypeScript relay.
type metrics struct {
	metric.Set
	added, removed, full prometheus.Counter
	errors               *prometheus.CounterVec
}

// The operations of rpc_relay_txpool_storage_errors_total.
const (
	opAdd    = "add"
	opRemove = "remove"
	opGet    = "get"
)

func newMetrics(p *Pool) *metrics {
	m := &metrics{}
	operations := m.Counters("rpc_relay_txpool_operations_total", "Transactions that were added to the pool and removed from it.", "operation")
	m.added, m.removed = operations.WithLabelValues(opAdd), operations.WithLabelValues(opRemove)
	m.full = m.Counter("lockstep_txpool_full_total", "Transactions that were submitted without a place in the pool, which was full.")
	m.errors = m.Counters("rpc_relay_txpool_storage_errors_total", "Calls of the pool to Redis that failed.", "operation", "backend")
	m.Asked("rpc_relay_txpool_pending_count", "Transactions of this process that are on their way; add the processes of a fleet.", func() float64 { return float64(p.ownCount()) })
	m.Asked("rpc_relay_txpool_active_addresses", "Senders with transactions of this process that are on their way; a sender that uses several relays counts at each of them.", func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return float64(p.table.active())
	})
	return m
}

func (m *metrics) failed(operation string) { m.errors.WithLabelValues(operation, "redis").Inc() }
