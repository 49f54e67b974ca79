package limit

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
)

// Budget decides what may be spent. Its methods are safe for concurrent use.
type Budget struct {
	cfg     Config
	plans   *plans
	ledger  *ledger
	fees    func(hedera.TransactionID, func(hedera.Tinybar, bool))
	log     *slog.Logger
	metrics *metrics

	askRate func(context.Context) (cents, hbars int64, err error) // nil: nobody knows
	rate    atomic.Pointer[rate]                                  // that was told last; nil: none
}

// Deps are what a Budget works with.
type Deps struct {
	Redis redis.UniversalClient // nil: each process has a budget of its own
	// Scope tells the budgets of several networks apart that share one Redis.
	Scope string
	// Fees finds out what a transaction cost its payer, and tells it once, or that nobody can say. It does not wait.
	Fees func(id hedera.TransactionID, told func(fee hedera.Tinybar, known bool))
	// Rate asks what ℏ are worth: hbars of them are worth cents. nil, or 0: 12 cents for
	// one, as long as nothing else is known.
	Rate func(ctx context.Context) (cents, hbars int64, err error)
	Log  *slog.Logger
}

// New makes a budget and reads the plans. With HBAR_RATE_LIMIT_TINYBAR=0 it reads
// nothing and limits nothing.
func New(cfg Config, deps Deps) (*Budget, error) {
	b := &Budget{cfg: cfg, plans: &plans{}, fees: deps.Fees, askRate: deps.Rate, log: deps.Log}
	b.metrics = newMetrics(b)
	b.ledger = newLedger(deps.Redis, deps.Scope, uuid.NewString(), cfg.RedisTimeout.Duration(), deps.Log, b.metrics.redisFailures.Inc)
	if !b.On() {
		return b, nil
	}
	var err error
	b.plans, err = loadPlans(cfg.Plans)
	return b, err
}

// On tells whether anything is limited.
func (b *Budget) On() bool { return b != nil && b.cfg.Total > 0 }

// Run tells Redis what was settled, until ctx ends. Reservations that are open then keep their estimates.
func (b *Budget) Run(ctx context.Context) error {
	if b.On() {
		b.ledger.run(ctx)
	}
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
// it does not become known, and for no transactions, the reserved amount counts as spent.
func (r *Reservation) Settle(ids ...hedera.TransactionID) {
	if !r.end() {
		return
	}
	s := &settlement{budget: r.budget, grant: r.grant, left: len(ids)}
	for _, id := range ids {
		r.budget.fees(id, func(fee hedera.Tinybar, known bool) { s.add(id, fee, known) })
	}
}

func (r *Reservation) end() bool { return r != nil && r.ended.CompareAndSwap(false, true) }

// settlement is a reservation of whose transactions some have costs that are not known yet.
type settlement struct {
	budget *Budget
	grant  grant

	mu      sync.Mutex // guards all below
	left    int
	spent   int64
	unknown bool // the cost of one stays unknown
}

// add counts a transaction. With the last one the reservation is settled.
func (s *settlement) add(id hedera.TransactionID, fee hedera.Tinybar, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	s.spent += int64(min(max(fee, 0), greatest/4))
	s.unknown = s.unknown || !known
	if !known {
		s.budget.log.Warn("the cost of a transaction stayed unknown; the estimate counts as spent", "transaction", id.String())
	}
	if s.left > 0 {
		return
	}
	if s.unknown {
		s.spent = max(s.spent, s.grant.amount)
	}
	s.budget.ledger.settle(s.grant, s.spent)
}
