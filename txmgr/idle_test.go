package txmgr

import (
	"maps"
	"math/big"
	"strings"
	"testing"
)

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
