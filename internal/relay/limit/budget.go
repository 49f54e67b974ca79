package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/sleep"
)

// Looking for a fee: the mirror node shows it some seconds after consensus.
const (
	firstLook = time.Second
	looks     = 6 // each wait is twice the one before: a minute in all

	maxLookers  = 16_384 // reservations whose fees are looked for
	looksAtOnce = 16
	lookTimeout = 30 * time.Second
)

// Budget decides what may be spent. Its methods are safe for concurrent use.
type Budget struct {
	cfg     Config
	plans   *plans
	ledger  *ledger
	fee     func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error)
	log     *slog.Logger
	metrics *metrics
	rates   rates

	begun   chan struct{}   // closed by Run
	running context.Context // of Run, once it has begun
	places  chan struct{}   // has a token for each look that is being made
	lookers atomic.Int64
}

// Deps are what a Budget works with.
type Deps struct {
	Redis redis.UniversalClient // nil: each process has a budget of its own
	// Scope tells the budgets of several networks apart that share one Redis.
	Scope string
	// Fee asks what a transaction cost its payer. known is false while nobody can say.
	Fee func(ctx context.Context, id hedera.TransactionID) (fee hedera.Tinybar, known bool, err error)
	// Rate asks what ℏ are worth: hbars of them are worth cents. nil, or 0: 12 cents for
	// one, as long as nothing else is known.
	Rate func(ctx context.Context) (cents, hbars int64, err error)
	Log  *slog.Logger
}

// New makes a budget and reads the plans. With HBAR_RATE_LIMIT_TINYBAR=0 it reads
// nothing and limits nothing.
func New(cfg Config, deps Deps) (*Budget, error) {
	b := &Budget{cfg: cfg, plans: &plans{}, fee: deps.Fee, log: deps.Log, begun: make(chan struct{}), places: make(chan struct{}, looksAtOnce)}
	b.metrics = newMetrics(b)
	b.rates.ask = deps.Rate
	b.ledger = newLedger(deps.Redis, deps.Scope, uuid.NewString(), cfg.RedisTimeout.Duration(), deps.Log, b.metrics.redisFailures.Inc)
	if !b.On() {
		return b, nil
	}
	var err error
	if b.plans, err = loadPlans(cfg.Plans); err != nil {
		return nil, err
	}
	if deps.Fee == nil || deps.Log == nil {
		return nil, errors.New("a budget needs to know fees and where to log")
	}
	return b, nil
}

// On tells whether anything is limited.
func (b *Budget) On() bool { return b != nil && b.cfg.Total > 0 }

// Run settles what was reserved, in the background, until ctx ends. Reservations that
// are open then keep their estimates.
func (b *Budget) Run(ctx context.Context) error {
	if !b.On() {
		return nil
	}
	b.running = ctx
	close(b.begun)
	b.ledger.run(ctx)
	return nil
}

// Spending is what somebody asks the operator to pay for.
type Spending struct {
	Sender common.Address
	IP     string         // of the client; empty when nobody's
	Amount hedera.Tinybar // the maximum that is expected
	Method string         // JSON-RPC method, for metrics
}

// Reserve sets an amount aside in the budgets that it counts against, in all or in none.
// Not ok means that one of them has no room; nothing is held then. With the limits off the
// reservation is nil, which all its methods take.
//
// It takes one call of Redis, or none, and never fails for Redis' sake.
func (b *Budget) Reserve(ctx context.Context, s Spending) (r *Reservation, ok bool) {
	if !b.On() {
		return nil, true
	}
	g, a := b.ledger.reserve(ctx, windowAt(time.Now(), b.cfg.Window.Duration()), min(max(int64(s.Amount), 0), greatest/4), b.books(s))
	if a.refused != granted {
		b.metrics.refused.WithLabelValues("TRANSACTION", s.Method).Inc()
		return nil, false
	}
	return &Reservation{budget: b, grant: g}, true
}

// Names of books. What follows the colon is the plan's id or who the book is for.
const (
	bookTotal   = "total"
	bookPlan    = "plan:"
	bookAddress = "address:"
	bookIP      = "ip:"
	others      = "others" // those for whom there was no book any more
)

// books are what a spending counts against: the total, and the plan of the sender or
// else of the client's address. Who has none has a book for the sender, which anybody can
// make up, and so one for the address, too.
func (b *Budget) books(s Spending) []book {
	books := append(make([]book, 0, 3), book{name: bookTotal, limit: int64(b.cfg.Total)})
	ip, err := netip.ParseAddr(s.IP)
	ip = ip.Unmap().WithZone("")
	if p := b.plans.find(s.Sender, ip); p != nil {
		return append(books, book{name: bookPlan + p.ID, limit: int64(b.cfg.limit(p.Tier))})
	}
	books = append(books, book{
		name: bookAddress + lowerHex(s.Sender), limit: int64(b.cfg.Basic), common: bookAddress + others,
	})
	if b.cfg.PerIP > 0 && s.IP != "" {
		name := others // text that is no address comes from no client of ours
		if err == nil {
			name = capacity.ClientOfAddr(ip)
		}
		books = append(books, book{name: bookIP + name, limit: int64(b.cfg.PerIP), common: bookIP + others})
	}
	return books
}

func lowerHex(a common.Address) string { return fmt.Sprintf("0x%x", a[:]) }

// Reservation is an amount that was set aside. It ends with one call of Release or
// Settle; further ones do nothing, and so do calls on nil. Neither blocks.
type Reservation struct {
	budget *Budget
	grant  grant
	ended  atomic.Bool
}

// Release gives the whole amount back: nothing was spent.
func (r *Reservation) Release() {
	if r.end() {
		r.budget.ledger.settle(r.grant, 0)
	}
}

// Settle replaces the amount by what the transactions cost, as soon as that is known. If
// it does not become known within a minute or so, and for no transactions, the reserved
// amount counts as spent; so it does when too many are looked for.
func (r *Reservation) Settle(ids ...hedera.TransactionID) {
	if !r.end() || len(ids) == 0 {
		return
	}
	if r.budget.lookers.Add(1) > maxLookers {
		r.budget.lookers.Add(-1)
		return
	}
	go func() {
		defer r.budget.lookers.Add(-1)
		r.budget.lookFor(r.grant, slices.Clone(ids))
	}()
}

func (r *Reservation) end() bool { return r != nil && r.ended.CompareAndSwap(false, true) }

// lookFor settles a reservation once all of its fees are known, or will not be.
func (b *Budget) lookFor(g grant, ids []hedera.TransactionID) {
	<-b.begun
	var spent int64
	for look := 0; len(ids) > 0 && look < looks; look++ {
		if !sleep.For(b.running, firstLook<<look) {
			return // the process stops
		}
		ids = slices.DeleteFunc(ids, func(id hedera.TransactionID) bool {
			fee, known := b.askFee(id)
			spent += int64(min(max(fee, 0), greatest/4))
			return known
		})
	}
	if len(ids) > 0 {
		b.log.Warn("the cost of a transaction stayed unknown; the estimate counts as spent", "transaction", ids[0].String())
		spent = max(spent, g.amount)
	}
	b.ledger.settle(g, spent)
}

// askFee asks once what a transaction cost, and whether that is known.
func (b *Budget) askFee(id hedera.TransactionID) (hedera.Tinybar, bool) {
	b.places <- struct{}{}
	defer func() { <-b.places }()
	ctx, cancel := context.WithTimeout(b.running, lookTimeout)
	defer cancel()
	fee, known, err := b.fee(ctx, id)
	if err != nil {
		b.log.Debug("asking for the fee of a transaction failed", "transaction", id.String(), "error", err)
	}
	if err != nil || !known {
		return 0, false
	}
	return fee, true
}
