package txmgr

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
)

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
