package limit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
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

// What the network charges the payer of an Ethereum transaction besides gas, in gas: a
// node fee of 100,000 tinycents and nine times as much for the network (HIP-1261), while
// a unit of gas is 852 tinycents. Measured in gas it follows the exchange rate.
const envelopeGas = 1_200

// usualGasPrice stands for a gas price that is not known: 71 tinybars and some.
const usualGasPrice hedera.Tinybar = 100

// EthereumCost is the maximum that an Ethereum transaction is expected to cost its payer:
// the network's charge for the envelope, which is refunded for what succeeds, and the
// gas that the payer gives, if it gives any. A gas price of 0 is one that is not known.
//
// The network may charge more, but rarely: up to 21,000 gas for a transaction that it was
// too busy to execute. That is charged to the budget when it is known.
func EthereumCost(gasPrice, offered hedera.Tinybar, gasLimit uint64, allowance hedera.Tinybar) hedera.Tinybar {
	if gasPrice <= 0 {
		gasPrice = usualGasPrice
	}
	gasPrice = min(gasPrice, hedera.Hbar) // far above any network's
	cost := envelopeGas * gasPrice
	if missing := gasPrice - max(offered, 0); allowance > 0 && missing > 0 {
		gas := hedera.Tinybar(min(gasLimit, 1<<32))
		cost += min(allowance, gas*missing)
	}
	return min(cost, greatest/4)
}

// fileCost is what it costs to put call data of some length, in hexadecimal digits, into
// a file by appends of chunk digits each. One ℏ is worth cents per hbars.
func fileCost(digits, chunk int, cents, hbars int64) hedera.Tinybar {
	const (
		create     = 50.184 // US cents
		appendFull = 50.141
		appendBase = -6.201
		perDigit   = 0.011
	)
	if digits <= 0 || chunk <= 0 || cents <= 0 || hbars <= 0 {
		return 0
	}
	price := create + appendFull*float64(digits/chunk-1) + appendBase + perDigit*float64(digits%chunk)
	return hedera.Tinybar(math.Round(max(price, 0) * float64(hbars) / float64(cents) * float64(hedera.Hbar)))
}

// rate is what ℏ are worth: hbars of them are worth cents.
type rate struct{ cents, hbars int64 }

// firstRate is used until there is another: what the network began with.
var firstRate = rate{cents: 12, hbars: 1}

// FileCost is what it is expected to cost to put call data of some length, in hexadecimal
// digits, into a file in pieces of chunk digits. It asks for the exchange rate, and takes an old one if none can be had.
func (b *Budget) FileCost(ctx context.Context, digits, chunk int) hedera.Tinybar {
	known := b.rate.Load()
	known = cmp.Or(known, &firstRate)
	if b.askRate != nil {
		if cents, hbars, err := b.askRate(ctx); err == nil && cents > 0 && hbars > 0 {
			known = &rate{cents, hbars}
			b.rate.Store(known)
		}
	}
	return fileCost(digits, chunk, known.cents, known.hbars)
}

// tier is a class of plans with one limit.
type tier string

const (
	tierBasic      tier = "BASIC"
	tierExtended   tier = "EXTENDED"
	tierPrivileged tier = "PRIVILEGED"
	tierOperator   tier = "OPERATOR" // bounded by the total alone
)

// limit is what a plan of a tier may spend per window.
func (c *Config) limit(t tier) hedera.Tinybar {
	switch t {
	case tierExtended:
		return c.Extended
	case tierPrivileged:
		return c.Privileged
	case tierOperator:
		return c.Total
	default:
		return c.Basic
	}
}

// plan is one entry of the plans file.
type plan struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Tier      tier     `json:"subscriptionTier"`
	Addresses []string `json:"evmAddresses"`
	IPs       []string `json:"ipAddresses"`
}

// plans are the entries of the plans file by who may use them.
type plans struct {
	byAddress map[common.Address]*plan
	byIP      map[netip.Addr]*plan
	tiers     map[string]tier // of every plan, by id
}

// find returns the plan of a sender, else that of its address, else nil.
func (p *plans) find(sender common.Address, ip netip.Addr) *plan {
	if found := p.byAddress[sender]; found != nil {
		return found
	}
	return p.byIP[ip]
}

// loadPlans reads plans from JSON text or from a file. Its errors name the setting.
func loadPlans(setting string) (*plans, error) {
	text := []byte(strings.TrimSpace(setting))
	if len(text) > 0 && text[0] != '[' {
		var err error
		if text, err = readPlans(setting); err != nil {
			return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: %w", err)
		}
	}
	p := &plans{byAddress: map[common.Address]*plan{}, byIP: map[netip.Addr]*plan{}, tiers: map[string]tier{}}
	if len(text) == 0 {
		return p, nil
	}
	var list []*plan
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: Failed to load pre-configured spending plans: %w", err)
	}
	for i, entry := range list {
		if err := p.add(entry); err != nil {
			return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: Failed to load pre-configured spending plans: entry %d: %w", i, err)
		}
	}
	return p, nil
}

// readPlans reads a file; a relative name is one in the working directory. None is no text
// and no error.
func readPlans(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read plans: %w", err)
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	}
	return text, nil
}

// add takes an entry. Who is in several plans has the last one.
func (p *plans) add(entry *plan) error {
	switch {
	case entry == nil:
		return errors.New("want an object")
	case entry.ID == "" || strings.ContainsFunc(entry.ID, unicode.IsControl):
		return errors.New("want an id of printable text")
	case entry.Name == "":
		return errors.New("want a name")
	case p.tiers[entry.ID] != "":
		return fmt.Errorf("the id %q is there twice", entry.ID)
	case len(entry.Addresses) == 0 && len(entry.IPs) == 0:
		return errors.New("want evmAddresses or ipAddresses")
	}
	switch entry.Tier {
	case tierBasic, tierExtended, tierPrivileged, tierOperator:
	default:
		return fmt.Errorf("subscriptionTier %q: want BASIC, EXTENDED, PRIVILEGED or OPERATOR", entry.Tier)
	}
	p.tiers[entry.ID] = entry.Tier
	for _, text := range entry.Addresses {
		if !common.IsHexAddress(text) {
			return fmt.Errorf("%q is not an EVM address", text)
		}
		p.byAddress[common.HexToAddress(text)] = entry
	}
	for _, text := range entry.IPs {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%q is not an IP address", text)
		}
		p.byIP[ip.Unmap().WithZone("")] = entry
	}
	return nil
}

// metrics belongs to one Budget. The names are those of the TypeScript relay. Sums are as
// this process knows them: over Redis, as it last saw them.
type metrics struct {
	refused       *prometheus.CounterVec
	redisFailures prometheus.Counter
	sums          *sumCollector
}

func newMetrics(b *Budget) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_hbar_rate_limit", Help: "Calls refused because a budget had no room for what they would cost.",
		}, []string{"mode", "methodName"}),
		redisFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_limit_redis_errors_total", Help: "Redis calls of the budget that failed; each process then counts for itself for some time.",
		}),
		sums: &sumCollector{
			budget:    b,
			total:     prometheus.NewDesc("rpc_relay_hbar_rate_total_limit", "Tinybars that may be spent per window.", nil, nil),
			remaining: prometheus.NewDesc("rpc_relay_hbar_rate_remaining", "Tinybars that may still be spent in this window.", nil, nil),
			plans:     map[tier]*prometheus.Desc{}, average: map[tier]*prometheus.Desc{},
		},
	}
	for _, t := range tiers {
		name := strings.ToLower(string(t))
		m.sums.plans[t] = prometheus.NewDesc("unique_spending_plans_counter_"+name, "Plans of tier "+string(t)+" with spending in this window.", nil, nil)
		m.sums.average[t] = prometheus.NewDesc("average_spending_plan_amount_spent_gauge_"+name, "Tinybars spent in this window by plans of tier "+string(t)+", on average.", nil, nil)
	}
	return m
}

// Collectors returns the metrics for registration.
func (b *Budget) Collectors() []prometheus.Collector {
	return []prometheus.Collector{b.metrics.refused, b.metrics.redisFailures, b.metrics.sums}
}

var tiers = [...]tier{tierBasic, tierExtended, tierPrivileged, tierOperator}

// sumCollector reads all sums at once.
type sumCollector struct {
	budget           *Budget
	total, remaining *prometheus.Desc
	plans, average   map[tier]*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *sumCollector) Describe(out chan<- *prometheus.Desc) {
	out <- s.total
	out <- s.remaining
	for _, t := range tiers {
		out <- s.plans[t]
		out <- s.average[t]
	}
}

// Collect implements prometheus.Collector.
func (s *sumCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	plans, spent := s.budget.perTier()
	total := int64(s.budget.cfg.Total)
	gauge(s.total, total)
	gauge(s.remaining, max(total-spent[tierOperator], 0))
	for _, t := range tiers {
		gauge(s.plans[t], plans[t])
		gauge(s.average[t], spent[t]/max(plans[t], 1))
	}
}

// perTier counts, by tier, the plans that have spent something and what they spent. A
// sender without a plan counts as one of tier BASIC; the total is the one plan of tier
// OPERATOR.
func (b *Budget) perTier() (plans, spent map[tier]int64) {
	plans, spent = map[tier]int64{}, map[tier]int64{}
	b.ledger.each(windowAt(time.Now(), b.cfg.Window.Duration()), func(name string, amount int64) {
		t := tierBasic
		switch id, planned := strings.CutPrefix(name, bookPlan); {
		case name == bookTotal:
			t = tierOperator
		case planned && b.plans.tiers[id] == tierOperator:
			return // part of the total
		case planned:
			t = b.plans.tiers[id]
		case !strings.HasPrefix(name, bookAddress):
			return
		}
		plans[t]++
		spent[t] += amount
	})
	return plans, spent
}

// Stores of the calls that addresses make.
const (
	StoreLocal = "LRU"
	StoreRedis = "REDIS"
)

// Config holds the settings of what the operator spends, and of where calls are counted.
type Config struct {
	// Maximum number of tinybars that all transactions together may cost the operator per window. 0 switches the limits on spending off.
	Total hedera.Tinybar `env:"HBAR_RATE_LIMIT_TINYBAR" envDefault:"0" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for a sender without a plan of its own, and for each plan of tier BASIC.
	Basic hedera.Tinybar `env:"HBAR_RATE_LIMIT_BASIC" envDefault:"300000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for each plan of tier EXTENDED.
	Extended hedera.Tinybar `env:"HBAR_RATE_LIMIT_EXTENDED" envDefault:"100000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for each plan of tier PRIVILEGED.
	Privileged hedera.Tinybar `env:"HBAR_RATE_LIMIT_PRIVILEGED" envDefault:"270000000" min:"0" max:"4503599627370496"`
	// Maximum number of tinybars per window for all senders without a plan that use one address (IPv6: one /64), because anybody
	// can create senders. 0 = only the total bounds them; choose that when all clients come through one proxy that does not
	// say who they are. Unset, it is at least ten times HBAR_RATE_LIMIT_BASIC.
	PerIP hedera.Tinybar `env:"HBAR_RATE_LIMIT_BASIC_PER_IP" envDefault:"3000000000" min:"0" max:"4503599627370496"`
	// Length of a window. Windows are counted from the Unix epoch, so that all instances have the same ones: one of a day begins at midnight UTC.
	Window envx.Millis `env:"HBAR_RATE_LIMIT_DURATION" envDefault:"86400000"`
	// Spending plans: JSON text, or the name of a file; a relative one is in the working directory. No such file = no plans.
	Plans string `env:"HBAR_SPENDING_PLANS_CONFIG" envDefault:"spendingPlansConfig.json"`
	// Maximum number of transactions of one sender that consensus may refuse in a minute for their nonce or for want of funds, in the whole fleet, since the operator pays for each. A transaction that is not known to be next takes one of these risks before it is sent and gives it back unless it is refused; one whose predecessors are all on their way waits for a risk, any other is refused at once. A file with call data (JUMBO_TX_ENABLED=false) takes one, too, and gives it back when its transaction was run. No honest burst is refused by it: consecutive nonces from the sender's next one on, each once, which the sender can pay, while nobody else sends for it; docs/internals/LANES.md says more. With DISABLE_MN_PRECHECKS_ON_TX_SENDING=true only files are bounded. 0 = no bound.
	WrongNonces int `env:"WRONG_NONCE_BUDGET" envDefault:"10" min:"0"`
	// Where the calls of each address are counted: LRU (in this process) or REDIS (for all instances on it). Empty = REDIS if that is enabled.
	CallStore string `env:"IP_RATE_LIMIT_STORE"`
	// Deadline of every Redis call of the limits. When it passes, each process counts for itself until Redis answers again.
	RedisTimeout envx.Millis `env:"LIMIT_REDIS_TIMEOUT_MS" envDefault:"200" min:"1ms" max:"1m"`
}

// greatest is the largest amount that scripts in Redis, whose numbers are floating
// point, add up exactly: 90 million ℏ.
const greatest = 1 << 53

// Validate reports every setting that cannot work, joined into one error.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if d := c.Window.Duration(); c.Total > 0 && (d < time.Second || d > 366*24*time.Hour) {
		errs = append(errs, fmt.Errorf("HBAR_RATE_LIMIT_DURATION is %v: want a second to a year", d))
	}
	if c.CallStore != "" && c.CallStore != StoreLocal && c.CallStore != StoreRedis {
		errs = append(errs, fmt.Errorf("IP_RATE_LIMIT_STORE is %q: want %s or %s", c.CallStore, StoreLocal, StoreRedis))
	}
	if _, err := loadPlans(c.Plans); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
