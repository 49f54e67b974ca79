package limit

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

// shortOfMemory lets a Redis have more than three quarters of its memory in use.
func shortOfMemory(t *testing.T, server *redistest.Server) {
	t.Helper()
	client := server.Client()
	// Beside much that stays, what comes and goes is little.
	must.Do(t, client.Set(t.Context(), "ballast", make([]byte, 8<<20), 0).Err())
	var used int64
	for _, line := range client.InfoMap(t.Context(), "memory").Val() {
		must.Get(fmt.Sscan(line["used_memory"], &used))(t)
	}
	must.Do(t, client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(used*8/7)).Err())
	if short, err := redis.NewScript(redisx.SpareLua+"return short() and 1 or 0").Run(t.Context(), client, nil).Bool(); err != nil || !short {
		t.Fatalf("Redis is not short of memory: %v", err)
	}
}

// While Redis is short of memory no sender gets risks there that had none. That is no free pass: each relay counts
// the sender for itself. Who has risks there goes on with them.
func TestWrongNoncesWhileRedisIsShortOfMemory(t *testing.T) {
	const budget = 3
	server := redistest.Start(t)
	relays := []*WrongNonces{wrongNonces(budget, server.Client()), wrongNonces(budget, server.Client())}
	known, unknown := common.Address{1}, common.Address{2}
	if _, ok := relays[0].Take(t.Context(), known, 0); !ok {
		t.Fatal("no risk")
	}
	shortOfMemory(t, server)
	given := map[common.Address][2]int{}
	for _, sender := range []common.Address{known, unknown} {
		var n [2]int
		for i, relay := range relays {
			for range 2 * budget {
				if _, ok := relay.Take(t.Context(), sender, 0); ok {
					n[i]++
				}
			}
		}
		given[sender] = n
	}
	want := map[common.Address][2]int{known: {budget - 1, 0}, unknown: {budget, budget}}
	if diff := cmp.Diff(want, given); diff != "" {
		t.Errorf("risks by sender and relay (-want +got):\n%s", diff)
	}
	if n := server.Client().Exists(t.Context(), wrongNonceKey(unknown)).Val(); n != 0 {
		t.Error("a new sender takes memory")
	}
}

// While Redis is short of memory nobody opens a book: who has none spends from the one in common, within its limit.
func TestBooksWhileRedisIsShortOfMemory(t *testing.T) {
	server := redistest.Start(t)
	r := far(redistest.Dial(t, server.URL()), "0x12a")
	w := today()
	total := fixed("total", 1000)
	reserve(t, r, w, 5, total, opened("old", 100))
	shortOfMemory(t, server)
	for i, test := range []struct {
		book    string
		amount  int64
		refused int
		sums    map[string]int64
	}{
		{"old", 5, granted, map[string]int64{"total": 10, "old": 10}},
		{"new", 60, granted, map[string]int64{"total": 70, "others": 60}},
		{"newer", 60, 1, map[string]int64{"total": 70, "others": 60}},
	} {
		_, a := reserve(t, r, w, test.amount, total, opened(test.book, 100))
		got := map[string]int64{}
		for _, s := range a.sums {
			got[s.book] = s.spent
		}
		if a.refused != test.refused || !cmp.Equal(got, test.sums) {
			t.Errorf("%d: refused %d, sums %v; want %d, %v", i, a.refused, got, test.refused, test.sums)
		}
	}
}
