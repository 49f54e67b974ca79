package txmgr

import (
	"fmt"
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
