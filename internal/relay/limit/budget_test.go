package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

func TestEthereumCost(t *testing.T) {
	for _, test := range []struct {
		price, offered hedera.Tinybar
		gas            uint64
		allowance      hedera.Tinybar
		want           hedera.Tinybar
	}{
		{71, 71, 21_000, 0, 85_200},
		{71, 100, 21_000, 10 * hedera.Hbar, 85_200},         // the sender pays for all gas
		{71, 0, 21_000, 10 * hedera.Hbar, 85_200 + 1491000}, // the payer does
		{71, 70, 21_000, 10 * hedera.Hbar, 85_200 + 21_000},
		{71, 0, 15_000_000, hedera.Hbar, 85_200 + hedera.Hbar}, // up to the allowance
		{71, 0, 15_000_000, 0, 85_200},                         // the network refuses it
		{0, 0, 21_000, 0, 120_000},                             // the price is not known
		{1 << 62, 0, 1 << 63, 1 << 62, greatest / 4},
	} {
		if got := EthereumCost(test.price, test.offered, test.gas, test.allowance); got != test.want {
			t.Errorf("EthereumCost(%d, %d, %d, %d) = %d, want %d", test.price, test.offered, test.gas, test.allowance, got, test.want)
		}
	}
}

func TestFileCost(t *testing.T) {
	for _, test := range []struct {
		digits, chunk int
		cents, hbars  int64
		want          hedera.Tinybar
	}{
		// 50.184 + 50.141·1 − 6.201 + 0.011·0 = 94.124 cents, at 12 cents per ℏ
		{10_240, 5_120, 12, 1, 784_366_667},
		{10_240, 5_120, 24, 2, 784_366_667},
		// 50.184 + 50.141·2 − 6.201 + 0.011·640 = 151.305 cents
		{16_000, 5_120, 12, 1, 1_260_875_000},
		{10, 5_120, 12, 1, 0}, // the formula would go below nothing
		{0, 5_120, 12, 1, 0},
		{10, 0, 12, 1, 0},
		{10_240, 5_120, 0, 1, 0},
		{10_240, 5_120, 12, 0, 0},
	} {
		if got := fileCost(test.digits, test.chunk, test.cents, test.hbars); got != test.want {
			t.Errorf("fileCost(%d, %d, %d, %d) = %d, want %d", test.digits, test.chunk, test.cents, test.hbars, got, test.want)
		}
	}
}

// An old exchange rate is better than none.
func TestRates(t *testing.T) {
	b := newBudget(t, testConfig())
	var cents int64
	var failure error
	b.askRate = func(context.Context) (int64, int64, error) { return cents, 1, failure }
	for i, step := range []struct {
		cents   int64
		failure error
		want    int64 // cents
	}{{24, errors.New("down"), 12}, {24, nil, 24}, {0, nil, 24}, {6, nil, 6}, {5, errors.New("down"), 6}} {
		cents, failure = step.cents, step.failure
		if got := b.FileCost(t.Context(), 10_240, 5_120); got != fileCost(10_240, 5_120, step.want, 1) {
			t.Errorf("step %d: a file costs %d", i, got)
		}
	}
}

func TestPlansThatAreWrong(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":          `[{`,
		"no list":           `[1]`,
		"null":              `[null]`,
		"no id":             `[{"name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"id is a number":    `[{"id":1,"name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"id of two lines":   `[{"id":"a\nb","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"no name":           `[{"id":"a","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"no tier":           `[{"id":"a","name":"n","ipAddresses":["192.0.2.1"]}]`,
		"unknown tier":      `[{"id":"a","name":"n","subscriptionTier":"GOLD","ipAddresses":["192.0.2.1"]}]`,
		"nobody":            `[{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":[],"ipAddresses":[]}]`,
		"not an address":    `[{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":["0x12"]}]`,
		"not an IP address": `[{"id":"a","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.0/24"]}]`,
		"the same id twice": `[{"id":"a","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]},{"id":"a","name":"m","subscriptionTier":"BASIC","ipAddresses":["192.0.2.2"]}]`,
	} {
		_, err := loadPlans(text)
		if err == nil || !strings.Contains(err.Error(), "Failed to load pre-configured spending plans: ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(Config{Total: 1, Plans: text}, Deps{}); err == nil {
			t.Errorf("%s: a budget was made of it", name)
		}
	}
}

// A file of plans is read from the working directory, and not from those above it.
func TestPlansFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "plans-of-a-test.json"
	if p, err := loadPlans(name); err != nil || len(p.tiers) != 0 {
		t.Errorf("no file: %v, %v", p, err)
	}
	path := filepath.Join(t.TempDir(), name)
	for _, path := range []string{path, name} {
		must.Do(t, os.WriteFile(path, []byte("\n "+testPlans), 0o600))
	}
	for _, setting := range []string{name, path, testPlans, " " + testPlans} {
		p, err := loadPlans(setting)
		if err != nil || len(p.tiers) != 3 || len(p.byAddress) != 2 || len(p.byIP) != 2 || p.byAddress[planned].ID != "p1" {
			t.Errorf("%.20q: %v, %v", setting, p, err)
		}
	}
	if p, err := loadPlans(""); err != nil || len(p.tiers) != 0 {
		t.Errorf("an empty setting: %v, %v", p, err)
	}
	must.Do(t, os.WriteFile(name, nil, 0o600))
	if _, err := loadPlans(name); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := loadPlans(filepath.Dir(path)); err == nil {
		t.Error("a directory was read")
	}
	must.Do(t, os.Mkdir("below", 0o700))
	t.Chdir("below")
	if p, err := loadPlans(name); err != nil || len(p.tiers) != 0 {
		t.Errorf("the file of the folder above: %v, %v", p, err)
	}
}

// Who is in two plans has the later one.
func TestLastPlanWins(t *testing.T) {
	p, err := loadPlans(`[
		{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":["0x00000000000000000000000000000000000000aa"]},
		{"id":"b","name":"n","subscriptionTier":"EXTENDED","evmAddresses":["0x00000000000000000000000000000000000000AA"]}
	]`)
	if err != nil || p.byAddress[planned].ID != "b" {
		t.Errorf("%v, %v", p, err)
	}
}
