package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

const testPlans = `[
	{"id": "p1", "name": "exchange", "subscriptionTier": "PRIVILEGED", "evmAddresses": ["0x00000000000000000000000000000000000000aA"]},
	{"id": "p2", "name": "dapp", "subscriptionTier": "EXTENDED", "ipAddresses": ["192.0.2.7", "2001:db8::7"]},
	{"id": "p3", "name": "ours", "subscriptionTier": "OPERATOR", "evmAddresses": ["0x00000000000000000000000000000000000000bb"]}
]`

var (
	planned   = common.HexToAddress("0xaa")
	operators = common.HexToAddress("0xbb")
	stranger  = common.HexToAddress("0xcc")
)

func testConfig() Config {
	return Config{
		Total: 10_000, Basic: 100, Extended: 200, Privileged: 300, PerIP: 500,
		Window: envx.Millis(24 * time.Hour), Plans: testPlans, RedisTimeout: envx.Millis(patience),
	}
}

type feeFunc func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error)

func newBudget(t *testing.T, cfg Config, fee feeFunc) *Budget {
	t.Helper()
	if fee == nil {
		fee = func(context.Context, hedera.TransactionID) (hedera.Tinybar, bool, error) { return 0, true, nil }
	}
	return must.Get(New(cfg, Deps{Fee: fee, Log: slog.New(slog.DiscardHandler)}))(t)
}

func (b *Budget) ask(sender common.Address, ip string, amount hedera.Tinybar) (*Reservation, bool) {
	return b.Reserve(context.Background(), Spending{Sender: sender, IP: ip, Amount: amount, Method: "m"})
}

func TestWhoseBudget(t *testing.T) {
	b := newBudget(t, testConfig(), nil)
	total := book{name: "total", limit: 10_000}
	exchange, dapp := book{name: "plan:p1", limit: 300}, book{name: "plan:p2", limit: 200}
	alone := book{name: "address:0x00000000000000000000000000000000000000cc", limit: 100, common: "address:others"}
	from := func(ip string) book { return book{name: "ip:" + ip, limit: 500, common: "ip:others"} }
	for _, test := range []struct {
		sender common.Address
		ip     string
		want   []book
	}{
		{planned, "", []book{total, exchange}},
		{planned, "192.0.2.7", []book{total, exchange}}, // the sender's plan comes first
		{stranger, "192.0.2.7", []book{total, dapp}},
		{stranger, "::ffff:192.0.2.7", []book{total, dapp}},
		{stranger, "2001:db8::7", []book{total, dapp}},
		{stranger, "2001:db8::7%eth0", []book{total, dapp}},
		{operators, "192.0.2.1", []book{total, {name: "plan:p3", limit: 10_000}}},
		{stranger, "", []book{total, alone}},
		{stranger, "192.0.2.8", []book{total, alone, from("192.0.2.8")}},
		{stranger, "2001:db8:1:2:3::4", []book{total, alone, from("2001:db8:1:2::/64")}},
		{stranger, "2001:db8:1:2:ffff::", []book{total, alone, from("2001:db8:1:2::/64")}},
		{stranger, "nonsense", []book{total, alone, from("others")}},
	} {
		got := b.books(Spending{Sender: test.sender, IP: test.ip})
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v at %q: %v, want %v", test.sender, test.ip, got, test.want)
		}
	}
	cfg := testConfig()
	cfg.PerIP = 0
	if got := newBudget(t, cfg, nil).books(Spending{Sender: stranger, IP: "192.0.2.8"}); len(got) != 2 {
		t.Errorf("without a limit per address: %v", got)
	}
}

// The peers' weakness: whoever makes up a sender has a plan for it, so there is no limit
// but the total. Here the client's address has one.
func TestFreshSendersShareTheirAddress(t *testing.T) {
	b := newBudget(t, testConfig(), nil)
	spend := func(ip func(i int) string) (spent int) {
		for i := range 100 {
			if _, ok := b.ask(common.BigToAddress(big.NewInt(int64(1000+i))), ip(i), 50); ok {
				spent += 50
			}
		}
		return spent
	}
	if spent := spend(func(int) string { return "192.0.2.9" }); spent != 500 {
		t.Errorf("one address spent %d with fresh senders, want its 500", spent)
	}
	if spent := spend(func(i int) string { return fmt.Sprintf("2001:db8:5:6::%x", i) }); spent != 500 {
		t.Errorf("one IPv6 network spent %d, want its 500", spent)
	}
}

// The peers' weakness: without a plan for the operator, the total is kept in the plan of the
// caller's IP address. Here it has a book of its own: who spends from an address with a plan,
// and has one himself, takes nothing from that address.
func TestTotalIsNobodysPlan(t *testing.T) {
	cfg := testConfig()
	cfg.Plans = `[
		{"id": "p1", "name": "exchange", "subscriptionTier": "PRIVILEGED", "evmAddresses": ["0x00000000000000000000000000000000000000aA"]},
		{"id": "p2", "name": "dapp", "subscriptionTier": "EXTENDED", "ipAddresses": ["192.0.2.7"]}
	]`
	cfg.Total = 350
	b := newBudget(t, cfg, nil)
	for _, step := range []struct {
		sender common.Address
		amount hedera.Tinybar
		ok     bool
	}{
		{planned, 150, true},
		{stranger, 200, true}, // all that the address has
		{stranger, 1, false},  // and no more
		{planned, 1, false},   // and the total counts both
		{operators, 1, false}, // for everybody
	} {
		if _, ok := b.ask(step.sender, "192.0.2.7", step.amount); ok != step.ok {
			t.Errorf("%s spends %d: %v, want %v", step.sender, step.amount, ok, step.ok)
		}
	}
}

func TestTiers(t *testing.T) {
	b := newBudget(t, testConfig(), nil)
	for _, test := range []struct {
		sender common.Address
		ip     string
		limit  hedera.Tinybar
	}{{stranger, "", 100}, {stranger, "192.0.2.7", 200}, {planned, "", 300}} {
		if _, ok := b.ask(test.sender, test.ip, test.limit); !ok {
			t.Errorf("%v at %q cannot spend its %d", test.sender, test.ip, test.limit)
		}
		if _, ok := b.ask(test.sender, test.ip, 0); ok {
			t.Errorf("%v at %q is not limited", test.sender, test.ip)
		}
	}
	if _, ok := b.ask(operators, "", 9400); !ok {
		t.Error("a plan of tier OPERATOR has less than the total")
	}
	if _, ok := b.ask(common.HexToAddress("0xdd"), "", 1); ok {
		t.Error("the total was exceeded")
	}
	samples := gather(t, b)
	for name, want := range map[string]float64{
		"rpc_relay_hbar_rate_limit": 4, "rpc_relay_hbar_rate_total_limit": 10_000, "rpc_relay_hbar_rate_remaining": 0,
		"unique_spending_plans_counter_basic": 1, "average_spending_plan_amount_spent_gauge_basic": 100,
		"unique_spending_plans_counter_extended": 1, "average_spending_plan_amount_spent_gauge_extended": 200,
		"unique_spending_plans_counter_privileged": 1, "average_spending_plan_amount_spent_gauge_privileged": 300,
		"unique_spending_plans_counter_operator": 1, "average_spending_plan_amount_spent_gauge_operator": 10_000,
	} {
		if got, ok := samples[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// gather reads the budget's metrics; those with labels are added up.
func gather(t *testing.T, b *Budget) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(b.Collectors()...)
	families := must.Get(registry.Gather())(t)
	samples := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			samples[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return samples
}

func TestOff(t *testing.T) {
	cfg := testConfig()
	cfg.Total, cfg.Plans = 0, "broken"
	b := must.Get(New(cfg, Deps{}))(t)
	var none *Budget
	for _, b := range []*Budget{b, none} {
		r, ok := b.ask(stranger, "192.0.2.1", 1<<50)
		if !ok || r != nil || b.On() {
			t.Errorf("a budget that is off answers %v, %v", r, ok)
		}
		r.Release()
		r.Settle()
		if err := b.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if cost := testing.AllocsPerRun(100, func() { b.ask(stranger, "192.0.2.1", 1) }); cost != 0 {
			t.Errorf("it allocates %v times", cost)
		}
	}
}

func (b *Budget) left(t *testing.T) float64 { return gather(t, b)["rpc_relay_hbar_rate_remaining"] }

// What a reservation comes to, and when.
func TestSettlement(t *testing.T) {
	first, second := hedera.TransactionID{Payer: hedera.Entity(2)}, hedera.TransactionID{Payer: hedera.Entity(3)}
	knownAfter := func(delay time.Duration, fee hedera.Tinybar) func(time.Duration) (hedera.Tinybar, bool) {
		return func(since time.Duration) (hedera.Tinybar, bool) { return fee, since >= delay }
	}
	for name, test := range map[string]struct {
		fees map[hedera.TransactionID]func(time.Duration) (hedera.Tinybar, bool)
		end  func(*Reservation)
		want float64 // spent, of 60 reserved
		in   time.Duration
	}{
		"released":             {end: (*Reservation).Release, want: 0, in: time.Millisecond},
		"of no transaction":    {end: func(r *Reservation) { r.Settle() }, want: 60, in: time.Millisecond},
		"both":                 {end: func(r *Reservation) { r.Release(); r.Settle() }, want: 0, in: time.Millisecond},
		"fee is known at once": {fees: map[hedera.TransactionID]func(time.Duration) (hedera.Tinybar, bool){first: knownAfter(0, 7)}, end: func(r *Reservation) { r.Settle(first) }, want: 7, in: 2 * time.Second},
		"fee is known later":   {fees: map[hedera.TransactionID]func(time.Duration) (hedera.Tinybar, bool){first: knownAfter(10*time.Second, 80)}, end: func(r *Reservation) { r.Settle(first) }, want: 80, in: 20 * time.Second},
		"fee stays unknown":    {end: func(r *Reservation) { r.Settle(first) }, want: 60, in: 2 * time.Minute},
		"one of two is known":  {fees: map[hedera.TransactionID]func(time.Duration) (hedera.Tinybar, bool){second: knownAfter(0, 90)}, end: func(r *Reservation) { r.Settle(first, second) }, want: 90, in: 2 * time.Minute},
		"two are known": {fees: map[hedera.TransactionID]func(time.Duration) (hedera.Tinybar, bool){
			first: knownAfter(0, 5), second: knownAfter(3*time.Second, 6),
		}, end: func(r *Reservation) { r.Settle(first, second) }, want: 11, in: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := newBudget(t, testConfig(), func(_ context.Context, id hedera.TransactionID) (hedera.Tinybar, bool, error) {
					fee := test.fees[id]
					if fee == nil {
						return 0, true, errors.New("the mirror node does not answer")
					}
					amount, known := fee(time.Since(start))
					return amount, known, nil
				})
				stop := must.Run(t, b.Run)
				r, ok := b.ask(stranger, "", 60)
				if !ok {
					t.Fatal("refused")
				}
				if left := b.left(t); left != 10_000-60 {
					t.Errorf("%v is left before anything is known", left)
				}
				test.end(r)
				time.Sleep(test.in) //nolint:forbidigo // the bubble's clock, which does not run by itself
				synctest.Wait()
				if left := b.left(t); left != 10_000-test.want {
					t.Errorf("%v is left, want %v", left, 10_000-test.want)
				}
				stop()
			})
		})
	}
}

// A process that stops charges the estimates of what it could not find out, and gives
// back what was not sent.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, testConfig(), func(ctx context.Context, _ hedera.TransactionID) (hedera.Tinybar, bool, error) {
			<-ctx.Done()
			return 0, false, ctx.Err()
		})
		stop := must.Run(t, b.Run)
		for range 3 {
			r, _ := b.ask(stranger, "", 10)
			r.Settle(hedera.TransactionID{Payer: hedera.Entity(2)})
		}
		time.Sleep(firstLook + time.Millisecond) //nolint:forbidigo // the bubble's clock
		late, _ := b.ask(stranger, "", 10)
		late.Settle(hedera.TransactionID{Payer: hedera.Entity(2)})
		unsent, _ := b.ask(stranger, "", 10)
		unsent.Release()
		stop()
		if left := b.left(t); left != 10_000-40 {
			t.Errorf("%v is left", left)
		}
	})
}

// When more is to be settled than there is room for, estimates count as spent at once.
func TestSettlementsAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Total, cfg.Basic = 1_000_000, 1_000_000
	b := newBudget(t, cfg, nil) // does not run
	for range maxLookers + 1 {
		r, _ := b.ask(stranger, "", 1)
		r.Settle(hedera.TransactionID{Payer: hedera.Entity(2)})
	}
	unsent, _ := b.ask(stranger, "", 100)
	unsent.Release()
	if left := b.left(t); left != 1_000_000-maxLookers-1 {
		t.Errorf("%v is left", left)
	}
	if n := b.lookers.Load(); n != maxLookers {
		t.Errorf("%d settlements wait", n)
	}
	must.Run(t, b.Run)()
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"HBAR_RATE_LIMIT_DURATION": func(c *Config) { c.Window = 0 },
		"IP_RATE_LIMIT_STORE":      func(c *Config) { c.CallStore = "redis" },
	} {
		c := testConfig()
		must.Do(t, c.Validate())
		change(&c)
		if err := c.Validate(); err == nil || !containsWord(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	off := Config{RedisTimeout: envx.Millis(time.Second)}
	if err := off.Validate(); err != nil {
		t.Errorf("switched off: %v", err)
	}
}
