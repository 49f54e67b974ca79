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
			cfg: Config{URLs: one, Senders: 1, Count: 3, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, 0},
				{0, 0, time.Millisecond, 1},
				{0, 0, 2 * time.Millisecond, 2},
			},
		},
		"two senders are staggered, two URLs alternate": {
			cfg: Config{URLs: two, Senders: 2, Count: 2, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, 0},
				{1, 1, time.Millisecond / 2, 2},
				{0, 1, time.Millisecond, 1},
				{1, 0, 3 * time.Millisecond / 2, 3},
			},
		},
		"sticky": {
			cfg:  Config{URLs: two, Senders: 2, Count: 2, Sticky: true},
			want: []request{{0, 0, 0, 0}, {1, 1, 0, 2}, {0, 0, 0, 1}, {1, 1, 0, 3}},
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
	cfg := Config{Senders: 2, Count: 25, ShuffleWindow: 10}.withDefaults()
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
	base := deriveSenders(key, "seed", 3)
	if base[0].addr != deriveSenders(key, "seed", 1)[0].addr {
		t.Error("not reproducible")
	}
	seen := map[string]bool{}
	for _, set := range [][]*sender{base, deriveSenders(nil, "seed", 3), deriveSenders(other, "seed", 3), deriveSenders(key, "seed2", 3)} {
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
		want  Chain
	}{
		"nothing":              {nil, Chain{}},
		"in order, mixed":      {ok(0, 4, 1, 5, 6, 2, 3, 7), Chain{}},
		"a gap is in order":    {ok(0, 3), Chain{}},
		"swapped":              {ok(0, 2, 1, 3), Chain{OutOfOrder: 1}},
		"reversed":             {ok(3, 2, 1, 0), Chain{OutOfOrder: 3}},
		"late first":           {ok(1, 2, 3, 0), Chain{OutOfOrder: 1}},
		"twice":                {ok(0, 1, 1, 2, 1), Chain{Duplicated: 2}},
		"repeat is not order":  {ok(0, 1, 2, 0), Chain{Duplicated: 1}},
		"other sender no harm": {ok(7, 0, 1), Chain{}},
		"refused, then again": {
			append([]sighting{wrong(1)}, ok(0, 1)...),
			Chain{OutOfOrder: 1, Duplicated: 1, WrongNonceAtConsensus: 1, WrongNonce: 1},
		},
		"done, then refused again": {
			append(ok(0, 1), wrong(1)),
			Chain{Duplicated: 1, WrongNonceAtConsensus: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got Chain
			(&run{txs: txs}).inspect(&got, test.order)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
