package limit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

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

func newBudget(t *testing.T, cfg Config) *Budget {
	t.Helper()
	return must.Get(New(cfg, Deps{Log: slog.New(slog.DiscardHandler)}))(t)
}

func (b *Budget) ask(sender common.Address, ip string, amount hedera.Tinybar) (*Reservation, bool) {
	return b.Reserve(context.Background(), Spending{Sender: sender, IP: ip, Amount: amount, Method: "m"})
}

func TestWhoseBudget(t *testing.T) {
	b := newBudget(t, testConfig())
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
	if got := newBudget(t, cfg).books(Spending{Sender: stranger, IP: "192.0.2.8"}); len(got) != 2 {
		t.Errorf("without a limit per address: %v", got)
	}
}

func TestTiers(t *testing.T) {
	b := newBudget(t, testConfig())
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
	samples := must.Measure(t, b.Collectors()...)
	for name, want := range map[string]float64{
		"rpc_relay_hbar_rate_limit": 4, "rpc_relay_hbar_rate_total_limit": 10_000, "rpc_relay_hbar_rate_remaining": 0,
		"unique_spending_plans_counter_basic": 1, "average_spending_plan_amount_spent_gauge_basic": 100,
		"unique_spending_plans_counter_extended": 1, "average_spending_plan_amount_spent_gauge_extended": 200,
		"unique_spending_plans_counter_privileged": 1, "average_spending_plan_amount_spent_gauge_privileged": 300,
		"unique_spending_plans_counter_operator": 1, "average_spending_plan_amount_spent_gauge_operator": 10_000,
	} {
		if got := samples.Of(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
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

func (b *Budget) left(t *testing.T) float64 {
	return must.Measure(t, b.Collectors()...)["rpc_relay_hbar_rate_remaining"]
}

// What a reservation comes to once the last of its costs is told, and not before.
func TestSettlement(t *testing.T) {
	first, second := hedera.TransactionID{Payer: hedera.Entity(2)}, hedera.TransactionID{Payer: hedera.Entity(3)}
	for name, test := range map[string]struct {
		fees map[hedera.TransactionID]hedera.Tinybar // that become known
		end  func(*Reservation)
		want float64 // spent, of 60 reserved
	}{
		"released":            {end: (*Reservation).Release, want: 0},
		"of no transaction":   {end: func(r *Reservation) { r.Settle() }, want: 60},
		"both":                {end: func(r *Reservation) { r.Release(); r.Settle(first) }, want: 0},
		"less than expected":  {fees: map[hedera.TransactionID]hedera.Tinybar{first: 7}, end: func(r *Reservation) { r.Settle(first) }, want: 7},
		"more than expected":  {fees: map[hedera.TransactionID]hedera.Tinybar{first: 80}, end: func(r *Reservation) { r.Settle(first) }, want: 80},
		"fee stays unknown":   {end: func(r *Reservation) { r.Settle(first) }, want: 60},
		"one of two is known": {fees: map[hedera.TransactionID]hedera.Tinybar{second: 90}, end: func(r *Reservation) { r.Settle(first, second) }, want: 90},
		"two are known":       {fees: map[hedera.TransactionID]hedera.Tinybar{first: 5, second: 6}, end: func(r *Reservation) { r.Settle(first, second) }, want: 11},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudget(t, testConfig())
			var later []func()
			b.fees = func(id hedera.TransactionID, told func(hedera.Tinybar, bool)) {
				fee, known := test.fees[id]
				later = append(later, func() { told(fee, known) })
			}
			r, ok := b.ask(stranger, "", 60)
			if !ok {
				t.Fatal("refused")
			}
			test.end(r)
			for _, tell := range later {
				if left := b.left(t); left != 10_000-60 {
					t.Errorf("%v is left before all is known", left)
				}
				tell()
			}
			if left := b.left(t); left != 10_000-test.want {
				t.Errorf("%v is left, want %v", left, 10_000-test.want)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"HBAR_RATE_LIMIT_DURATION": func(c *Config) { c.Window = 0 },
		"IP_RATE_LIMIT_STORE":      func(c *Config) { c.CallStore = "redis" },
	} {
		c := testConfig()
		must.Do(t, c.Validate())
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	off := Config{RedisTimeout: envx.Millis(time.Second)}
	if err := off.Validate(); err != nil {
		t.Errorf("switched off: %v", err)
	}
}
