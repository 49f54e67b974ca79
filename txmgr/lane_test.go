package txmgr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// limited is a chain whose provider refuses whatever it is asked.
type limited struct {
	Chain
	asked int
	well  bool
}

func (c *limited) Trouble() string {
	if c.well {
		return ""
	}
	return "endpoint 1: 429 Too Many Requests"
}

// Four owners that wait for a provider which limits them ask no more than once a second together, and one line of the log says so.
func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		chain, turns := &limited{}, &pace{}
		log := slog.New(slog.NewTextHandler(&text, nil))
		began := time.Now()
		var owners []*worker
		for range 4 {
			owners = append(owners, &worker{c: chain, pace: turns, log: log})
		}
		const lasts = 5 * time.Minute
		for time.Since(began) < lasts {
			for _, w := range owners {
				if w.pace.turn(time.Now()) == 0 {
					chain.asked++
					w.report(context.Background(), errors.New("429"))
				}
			}
			time.Sleep(250 * time.Millisecond) //nolint:forbidigo // fake time
		}
		if most := int(lasts/time.Second) + len(owners); chain.asked > most {
			t.Errorf("%d questions in %v", chain.asked, lasts)
		}
		if lines := strings.Count(text.String(), "\n"); lines != 1 {
			t.Errorf("%d lines:\n%s", lines, text.String())
		}
		chain.well = true
		for _, w := range owners {
			w.report(context.Background(), nil)
			if pause := w.pace.turn(time.Now()); pause != 0 {
				t.Errorf("waits %v although the chain answers", pause)
			}
		}
		if !strings.Contains(text.String(), "the chain answers its owners again") {
			t.Error(text.String())
		}
	})
}

// Who waits for a cap is told whose cap that is.
func TestCapsAreNamed(t *testing.T) {
	gwei := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }
	for name, c := range map[string]struct {
		own, chain, hour *big.Int
		all              uint64
		replaces         bool
		want             string
	}{
		"its own":           {own: gwei(5), chain: gwei(9), want: "its own maxFeePerGas"},
		"the chain's":       {own: gwei(9), chain: gwei(5), want: "the highest price of the settings"},
		"that of all":       {all: 5e9, want: "the highest price of the settings"},
		"none":              {hour: gwei(5), want: "no cap is set"},
		"lower than none":   {own: gwei(4), hour: gwei(5), want: "its own maxFeePerGas"},
		"twice the market":  {replaces: true, hour: gwei(500), want: "twice the market"},
		"replaces, its own": {replaces: true, own: gwei(3), want: "its own maxFeePerGas"},
	} {
		m := &Manager{feeCaps: map[string]*big.Int{}, fees: map[string]*feeCache{"1": {market: Market{Cap: c.hour}}}, c: Config{MaxFeePerGas: c.all}}
		if c.chain != nil {
			m.feeCaps["1"] = c.chain
		}
		got := m.capped(&Intent{Request: Request{Chain: "1", MaxFee: c.own}}, gwei(10), c.replaces)
		if !strings.HasPrefix(got, "fee_cap: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func wei(n int64) *big.Int { return big.NewInt(n) }

func TestEighthMore(t *testing.T) {
	for old, want := range map[int64]int64{0: 1, 1: 2, 7: 8, 8: 9, 9: 11, 100: 113, 1_000_000_000: 1_125_000_000} {
		if got := eighthMore(wei(old)); got.Int64() != want {
			t.Errorf("%d: got %s, want %d", old, got, want)
		}
	}
}

func TestReplacementFees(t *testing.T) {
	for name, row := range map[string]struct {
		old, market Fees
		cap         *big.Int
		want        Fees
		ok          bool
	}{
		"a quiet market":              {Fees{wei(800), wei(80)}, Fees{wei(500), wei(10)}, nil, Fees{wei(900), wei(90)}, true},
		"the market is higher":        {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, nil, Fees{wei(2000), wei(100)}, true},
		"the cap is below the market": {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, wei(1000), Fees{wei(900), wei(90)}, true},
		"the cap is reached":          {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, wei(899), Fees{}, false},
		"legacy":                      {Fees{Max: wei(800)}, Fees{Max: wei(500)}, nil, Fees{Max: wei(900)}, true},
	} {
		got, ok := replacementFees(row.old, row.market, row.cap)
		if ok != row.ok || ok && (got.Max.Cmp(row.want.Max) != 0 || row.want.Tip != nil && got.Tip.Cmp(row.want.Tip) != 0) {
			t.Errorf("%s: got %v %v %t", name, got.Max, got.Tip, ok)
		}
	}
}

func TestFirstFees(t *testing.T) {
	market := Market{BaseFee: wei(100), Tips: map[string]Fees{SpeedStandard: {Max: wei(210), Tip: wei(10)}}}
	intent := func(cap, tip *big.Int) *Intent {
		return &Intent{Request: Request{Speed: SpeedStandard, MaxFee: cap, MaxTip: tip}}
	}
	if _, ok := firstFees(intent(wei(99), nil), market, nil); ok {
		t.Error("an intent whose cap is below the base fee is assigned")
	}
	if _, ok := firstFees(intent(nil, nil), market, wei(99)); ok {
		t.Error("the chain's cap does not bind")
	}
	if fees, ok := firstFees(intent(wei(150), wei(3)), market, nil); !ok || fees.Max.Int64() != 150 || fees.Tip.Int64() != 3 {
		t.Errorf("got %v %v %t", fees.Max, fees.Tip, ok)
	}
}

// TestIdle: an intent that no signer takes says why, unless the reason may pass by itself; what is told already is not told again, and what no
// longer holds is taken back.
func TestIdle(t *testing.T) {
	lane := func(name string, change func(*Lane)) *Lane {
		l := &Lane{Chain: "1", Signer: name, Ours: true, Enabled: true, Known: true, Pools: []string{"default"}, Owner: "one"}
		if change != nil {
			change(l)
		}
		return l
	}
	halted := lane("a", func(l *Lane) { l.Halted = "the chain was reset" })
	paused := lane("b", func(l *Lane) { l.Enabled, l.PausedReason = false, "rest" })
	works := lane("c", nil)
	other := lane("d", func(l *Lane) { l.Pools = []string{"vip"} })
	strange := lane("e", func(l *Lane) { l.Ours = false })
	for name, test := range map[string]struct {
		lanes   []*Lane
		kills   map[string]string
		pin     string
		waiting string // as it is told
		want    string // what is told now; "-" for nothing
	}{
		"halted":                      {lanes: []*Lane{halted, other, strange}, want: "halted: the chain was reset"},
		"all out":                     {lanes: []*Lane{paused, halted}, want: "halted: the chain was reset; paused: rest"},
		"one works":                   {lanes: []*Lane{halted, works}, want: "-"},
		"pinned to one that is out":   {lanes: []*Lane{halted, works}, pin: "a", want: "halted: the chain was reset"},
		"told already":                {lanes: []*Lane{halted}, waiting: "halted: the chain was reset", want: "-"},
		"works again":                 {lanes: []*Lane{works}, waiting: "halted: the chain was reset", want: ""},
		"another reason":              {lanes: []*Lane{paused}, waiting: "halted: the chain was reset", want: "paused: rest"},
		"words of others stay":        {lanes: []*Lane{works}, waiting: "fee_cap: the market is above what it may pay", want: "-"},
		"draining":                    {lanes: []*Lane{lane("a", func(l *Lane) { l.Draining = true })}, want: "draining: its signer gets no new intents"},
		"locked":                      {lanes: []*Lane{lane("a", func(l *Lane) { l.Locked = true })}, want: "locked: a caller has its signer alone"},
		"low balance":                 {lanes: []*Lane{lane("a", func(l *Lane) { l.MinBalance = big.NewInt(5) })}, want: "low_balance: its signer holds less than 5"},
		"killed":                      {lanes: []*Lane{works}, kills: map[string]string{ScopeAll: "x"}, want: "killed: the kill switch is on"},
		"its pool is killed":          {lanes: []*Lane{works}, kills: map[string]string{PoolScope("1", "default"): "x"}, want: "killed: the kill switch of its pool is on"},
		"errors that may pass":        {lanes: []*Lane{lane("a", func(l *Lane) { l.Streak, l.Pending = 100, 1 })}, want: "-"},
		"a chain that is not seen":    {lanes: []*Lane{lane("a", func(l *Lane) { l.Unseen = 1 << 60 })}, want: "-"},
		"nobody is there for the pin": {lanes: []*Lane{works}, pin: "z", want: "-"},
		"a long reason":               {lanes: []*Lane{lane("a", func(l *Lane) { l.Halted = strings.Repeat("é", 400) })}, want: "halted: " + strings.Repeat("é", 146)},
	} {
		t.Run(name, func(t *testing.T) {
			q := queued("", test.pin)
			q.ID, q.Waiting = "x", test.waiting
			got := map[string]string{}
			explain(got, []*Queued{q}, test.lanes, test.kills, Unit{})
			want := map[string]string{"x": test.want}
			if test.want == "-" {
				want = map[string]string{}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("told %q, want %q", got, want)
			}
			if why, told := got["x"]; told {
				q.Waiting = why
				again := map[string]string{}
				if explain(again, []*Queued{q}, test.lanes, test.kills, Unit{}); len(again) != 0 {
					t.Errorf("told again: %q", again)
				}
			}
		})
	}
	blockedOne := queued("", "")
	blockedOne.ID, blockedOne.Behind = "x", blocked
	got := map[string]string{"y": "fee_cap: …"}
	why := queued("", "")
	why.ID = "y"
	if explain(got, []*Queued{blockedOne, why}, []*Lane{halted}, nil, Unit{}); len(got) != 1 || got["y"] != "fee_cap: …" {
		t.Errorf("told %q", got)
	}
}

// TestNeverLeft: an intent may have another nonce only if nobody has bytes of it, those of an
// earlier attempt included.
func TestNeverLeft(t *testing.T) {
	refused, sent := &Attempt{State: AttemptRefused}, &Attempt{State: AttemptSent}
	for name, row := range map[string]struct {
		attempts []*Attempt
		want     bool
	}{
		"refused":                   {[]*Attempt{refused}, true},
		"refused twice":             {[]*Attempt{refused, refused}, true},
		"refused, after one of old": {[]*Attempt{{State: AttemptReplaced}, refused}, true},
		"taken before":              {[]*Attempt{sent, refused}, false},
		"perhaps taken before":      {[]*Attempt{{State: AttemptUnknown, Ambiguous: true}, refused}, false},
		"refused, once unclear":     {[]*Attempt{{State: AttemptRefused, Ambiguous: true}}, false},
		"signed":                    {[]*Attempt{{State: AttemptSigned}}, false},
	} {
		if got := neverLeft(&LineSlot{Attempts: row.attempts}); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFirstUse finds the first block after which a nonce is used, wherever it is.
func TestFirstUse(t *testing.T) {
	for head := range uint64(40) {
		for want := range head + 1 {
			got, err := FirstUse(head, func(block uint64) (bool, error) { return block >= want, nil })
			if err != nil || got != want {
				t.Errorf("used from block %d of %d on: %d, %v", want, head, got, err)
			}
		}
	}
}

func lanesOf(n, room int) []*candidate {
	var list []*candidate
	for i := range n {
		list = append(list, &candidate{Lane: &Lane{Chain: "1", Signer: fmt.Sprintf("signer-%d", i), Pools: []string{"default"}}, room: room})
	}
	return list
}

func queued(shard, pin string) *Queued {
	return &Queued{Intent: &Intent{Request: Request{Chain: "1", Pool: "default", ShardKey: shard, Pin: pin}}}
}

// shards deals one intent of each of 200 shard keys, and returns each key's signer.
func shards(lanes []*candidate) map[string]string {
	out := map[string]string{}
	for n := range 200 {
		key := fmt.Sprint("account-", n)
		for signer := range plan([]*Queued{queued(key, "")}, lanes, nil) {
			out[key] = signer
		}
	}
	return out
}

// TestShardKey: a shard key stays with its signer however busy that is, many keys are spread
// over all, and a signer more takes over its own share alone.
func TestShardKey(t *testing.T) {
	before, again, more := shards(lanesOf(4, 1000)), shards(lanesOf(4, 1000)), shards(lanesOf(5, 1000))
	share, moved := map[string]int{}, 0
	for key, signer := range before {
		share[signer]++
		if again[key] != signer {
			t.Errorf("%s is on %s and then on %s", key, signer, again[key])
		}
		if more[key] != signer {
			moved++
			if more[key] != "signer-4" {
				t.Errorf("%s moved from %s to %s, not to the new one", key, signer, more[key])
			}
		}
	}
	if len(before) != 200 || len(share) != 4 {
		t.Errorf("%d keys are spread over %v", len(before), share)
	}
	for signer, n := range share {
		if n < 20 {
			t.Errorf("%s has %d of 200 keys", signer, n)
		}
	}
	if moved < 10 || moved > 80 {
		t.Errorf("a fifth signer took over %d of 200 keys", moved)
	}
}

// TestShardKeyWaits: where its signer has no room, an intent waits for it; a pin names another.
func TestShardKeyWaits(t *testing.T) {
	lanes := lanesOf(4, 1)
	queue := []*Queued{queued("k", ""), queued("k", ""), queued("k", "signer-0"), queued("k", "signer-1"), queued("", ""), queued("", ""), queued("", "")}
	dealt := plan(queue, lanes, nil)
	home := ""
	for signer := range plan([]*Queued{queued("k", "")}, lanesOf(4, 1), nil) {
		home = signer
	}
	if len(dealt[home]) == 0 || dealt[home][0] != queue[0] {
		t.Fatalf("%s has %v", home, dealt[home])
	}
	for signer, list := range dealt {
		if len(list) != 1 || list[0] == queue[1] {
			t.Errorf("%s has %d intents", signer, len(list))
		}
		if pin := list[0].Pin; pin != "" && pin != signer {
			t.Errorf("%s has what is pinned to %s", signer, pin)
		}
	}
	if len(dealt) != 4 {
		t.Errorf("%d of 4 signers have one: what has no shard key goes to any", len(dealt))
	}
}

// TestWindow: the setting for all chains does not reach a chain that refuses what is behind a lost
// transaction; there the chain's own one alone counts.
func TestWindow(t *testing.T) {
	for _, row := range []struct {
		traits  Traits
		setting int
		lane    Lane
		want    int
	}{
		{Traits{InFlight: 16}, 0, Lane{}, 16},
		{Traits{InFlight: 16}, 64, Lane{}, 64},
		{Traits{InFlight: 16}, 64, Lane{Delegated: true}, 1},
		{Traits{Order: OrderRising, InFlight: 100}, 64, Lane{}, 64},
		{Traits{Order: OrderStrict, InFlight: 1}, 64, Lane{}, 1},
		{Traits{Order: OrderStrict, InFlight: 8}, 0, Lane{}, 8},
		{Traits{Order: OrderStrict, InFlight: 8}, 0, Lane{Delegated: true}, 1},
	} {
		if got := window(&row.lane, row.traits, row.setting); got != row.want {
			t.Errorf("with %+v and the setting %d the window is %d, want %d", row.traits, row.setting, got, row.want)
		}
	}
}

// TestPassedOver: a signer that gets no intents says why, whatever the reason is.
func TestPassedOver(t *testing.T) {
	config := Defaults()
	disabled := config
	disabled.Enabled = false
	for want, row := range map[string]struct {
		config Config
		change func(*Lane)
		kills  map[string]string
	}{
		"":                       {config, func(*Lane) {}, nil},
		"paused: tired":          {config, func(l *Lane) { l.Enabled, l.PausedReason = false, "tired" }, nil},
		"draining":               {config, func(l *Lane) { l.Draining = true }, nil},
		"halted: restored":       {config, func(l *Lane) { l.Halted = "restored" }, nil},
		"its nonce is not known": {config, func(l *Lane) { l.Known = false }, nil},
		"locked":                 {config, func(l *Lane) { l.Locked = true }, nil},
		"stale":                  {config, func(l *Lane) { l.Unseen = config.staleAfter() + 1 }, nil},
		"errors in a row: no":    {config, func(l *Lane) { l.Streak, l.Pending, l.LastError = config.ErrorStreak, 1, "no" }, nil},
		"low_balance: its signer holds less than 8": {config, func(l *Lane) { l.Balance, l.MinBalance = big.NewInt(7), big.NewInt(8) }, nil},
		"killed: the kill switch is on":             {config, func(*Lane) {}, map[string]string{ScopeAll: "x"}},
		"RELAYER_ENABLED is false":                  {disabled, func(*Lane) {}, nil},
		"no process owns it":                        {config, func(l *Lane) { l.Owner = "" }, nil},
	} {
		lane := &Lane{Chain: "1", Signer: "signer", Ours: true, Enabled: true, Known: true, Owner: "one"}
		row.change(lane)
		m := &Manager{c: row.config}
		if got := m.PassedOver(lane, row.kills); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("a signer that is passed over because %q says %q", want, got)
		}
		lane.Ours = false
		if got := m.PassedOver(lane, row.kills); got != "" {
			t.Errorf("an account whose callers sign says %q", got)
		}
	}
}

// TestLeastPending: what any signer may serve is dealt evenly, and what has an order key stays behind its predecessor.
func TestLeastPending(t *testing.T) {
	lanes := lanesOf(4, 10)
	var queue []*Queued
	for range 40 {
		queue = append(queue, queued("", ""))
	}
	for signer, list := range plan(queue, lanes, nil) {
		if len(list) != 10 {
			t.Errorf("%s has %d of 40 intents", signer, len(list))
		}
	}
	for _, q := range queue[:5] {
		q.OrderKey = "trader"
	}
	if dealt := plan(queue[:5], lanesOf(4, 10), nil); len(dealt) != 1 {
		t.Errorf("an order key is on %d signers at once", len(dealt))
	}
}
