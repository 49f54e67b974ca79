package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func TestSchedule(t *testing.T) {
	one, two := []string{"http://a"}, []string{"http://a", "http://b"}
	tests := map[string]struct {
		cfg  Config
		want []request
	}{
		"one sender": {
			cfg: Config{Target: Target{URLs: one}, Senders: 1, Count: 3, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, []int{0}},
				{0, 0, time.Millisecond, []int{1}},
				{0, 0, 2 * time.Millisecond, []int{2}},
			},
		},
		"two senders are staggered, two URLs alternate": {
			cfg: Config{Target: Target{URLs: two}, Senders: 2, Count: 2, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, []int{0}},
				{1, 1, time.Millisecond / 2, []int{2}},
				{0, 1, time.Millisecond, []int{1}},
				{1, 0, 3 * time.Millisecond / 2, []int{3}},
			},
		},
		"sticky": {
			cfg:  Config{Target: Target{URLs: two}, Senders: 2, Count: 2, Sticky: true},
			want: []request{{0, 0, 0, []int{0}}, {1, 1, 0, []int{2}}, {0, 0, 0, []int{1}}, {1, 1, 0, []int{3}}},
		},
		"batches": {
			cfg:  Config{Target: Target{URLs: one}, Senders: 1, Count: 5, Batch: 2},
			want: []request{{0, 0, 0, []int{0, 1}}, {0, 0, 0, []int{2, 3}}, {0, 0, 0, []int{4}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := schedule(test.cfg.withDefaults())
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("schedule (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShuffle(t *testing.T) {
	cfg := Config{Senders: 2, Count: 25, ShuffleWindow: 10, Target: Target{URLs: []string{"http://a"}}}.withDefaults()
	a, b := sendingOrder(cfg, 0), sendingOrder(cfg, 1)
	if diff := cmp.Diff(a, sendingOrder(cfg, 0)); diff != "" {
		t.Errorf("not reproducible:\n%s", diff)
	}
	if slices.IsSorted(a) {
		t.Error("not shuffled")
	}
	for i := range b {
		b[i] -= cfg.Count
	}
	if cmp.Equal(a, b) {
		t.Error("two senders have the same order")
	}
	for from := 0; from < len(a); from += 10 {
		window := slices.Sorted(slices.Values(a[from:min(from+10, len(a))]))
		for i, tx := range window {
			if tx != from+i {
				t.Fatalf("window at %d holds %v", from, window)
			}
		}
	}
	cfg.Seed = "another"
	if cmp.Equal(a, sendingOrder(cfg, 0)) {
		t.Error("the seed does not matter")
	}
}

func TestDeriveSenders(t *testing.T) {
	key := must.Get(crypto.GenerateKey())(t)
	other := must.Get(crypto.GenerateKey())(t)
	base := deriveSenders(key, "seed", 0, 0, 3)
	if base[0].addr != deriveSenders(key, "seed", 0, 0, 1)[0].addr {
		t.Error("not reproducible")
	}
	seen := map[string]bool{}
	for _, set := range [][]*sender{
		base, deriveSenders(nil, "seed", 0, 0, 3), deriveSenders(other, "seed", 0, 0, 3),
		deriveSenders(key, "seed2", 0, 0, 3), deriveSenders(key, "seed", 1, 0, 3), deriveSenders(key, "seed", 0, 1, 3),
	} {
		for _, s := range set {
			if seen[s.addr.Hex()] {
				t.Errorf("address %s twice", s.addr)
			}
			seen[s.addr.Hex()] = true
		}
	}
}

func TestInspect(t *testing.T) {
	// Two senders with nonces 5…8 and 0…3.
	txs := make([]transfer, 8)
	for i := range txs {
		txs[i] = transfer{sender: i / 4, nonce: uint64(i % 4)}
		if i < 4 {
			txs[i].nonce += 5
		}
	}
	ok := func(list ...int) (order []sighting) {
		for _, i := range list {
			order = append(order, sighting{tx: i})
		}
		return order
	}
	wrong := func(i int) sighting { return sighting{tx: i, wrongNonce: true} }
	tests := map[string]struct {
		order []sighting
		want  findings
	}{
		"nothing":              {nil, findings{}},
		"in order, mixed":      {ok(0, 4, 1, 5, 6, 2, 3, 7), findings{}},
		"a gap is in order":    {ok(0, 3), findings{}},
		"swapped":              {ok(0, 2, 1, 3), findings{outOfOrder: 1}},
		"reversed":             {ok(3, 2, 1, 0), findings{outOfOrder: 3}},
		"late first":           {ok(1, 2, 3, 0), findings{outOfOrder: 1}},
		"twice":                {ok(0, 1, 1, 2, 1), findings{duplicates: 2}},
		"repeat is not order":  {ok(0, 1, 2, 0), findings{duplicates: 1}},
		"other sender no harm": {ok(7, 0, 1), findings{}},
		"refused, then again": {
			append([]sighting{wrong(1)}, ok(0, 1)...),
			findings{outOfOrder: 1, duplicates: 1, wrongSeen: 1, wrongNonce: map[int]bool{1: true}},
		},
		"done, then refused again": {
			append(ok(0, 1), wrong(1)),
			findings{duplicates: 1, wrongSeen: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want.wrongNonce == nil {
				test.want.wrongNonce = map[int]bool{}
			}
			got := inspect(txs, test.order)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(findings{})); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
