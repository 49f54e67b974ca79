package watchers

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// owners reads which process owns each shard. It is complete when each has one of the wanted processes.
func owners(t *testing.T, db *ledger.DB, names []string) (map[string]string, bool) {
	t.Helper()
	list, used := map[string]string{}, map[string]bool{}
	complete := true
	rows := must.Get(ledgertest.Pairs[string, string](t, db, "SELECT c.unit, COALESCE(l.owner, '') FROM cursors c LEFT JOIN leases l ON l.name = c.unit WHERE c.unit LIKE 'shard:%'"))(t)
	for unit, owner := range rows {
		name, _, _ := strings.Cut(owner, "/")
		list[unit], used[name] = name, true
	}
	for name := range used {
		complete = complete && strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
	}
	return list, complete && len(used) == len(names)
}

// looks are how often each process has looked at the division of the shards: it writes a row after a look.
type looks map[string]*look

type look struct {
	last  int64
	times int
}

// all tells whether every process has looked since this was empty, and has found nothing to do.
func (l looks) all(t *testing.T, db *ledger.DB, names []string) bool {
	t.Helper()
	for name, at := range must.Get(ledgertest.Pairs[string, int64](t, db, "SELECT instance_id, last_heartbeat FROM nodes"))(t) {
		switch of := l[name]; {
		case of == nil:
			l[name] = &look{last: at}
		case of.last != at:
			of.last = at
			of.times++
		}
	}
	for _, name := range names {
		if l[name] == nil || l[name].times < 2 { // the first row may be of an earlier look
			return false
		}
	}
	return true
}

// TestFleetGrowsAndShrinks has 2, 3, then up to 10 and then 9 processes follow contracts under load. Each process more or less moves at most
// one and a half times its own share of the shards; nothing is missed, stored twice or handed on out of order.
func TestFleetGrowsAndShrinks(t *testing.T) {
	const children = 300
	chain := watchtest.New(t, children+1)
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	f := &fleet{t: t, members: map[string]*harness.Process{}, settings: []string{"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events")}}
	names := strings.Fields("a b c d e f g h i j")
	family(chain, children)
	db := ledgertest.At(t, database, watch.Schema)
	var before map[string]string
	for _, count := range []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 9} {
		processes := max(count, len(f.members)) // before or after, whichever is more
		for _, name := range names[:count] {
			if f.members[name] == nil {
				f.start(name)
			}
		}
		for _, name := range names[count:] {
			if f.members[name] != nil {
				f.members[name].Stop()
				delete(f.members, name)
			}
		}
		var now, last map[string]string
		looked, polls := looks{}, 0
		watchtest.Until(t, fmt.Sprintf("%d processes share the work", count), func() (bool, error) {
			if polls++; polls%5 == 1 {
				for range 5 {
					chain.Emit(watchtest.Emitter(1+rand.IntN(children)), approved, watchtest.Word(common.Address{1}))
				}
				chain.Commit()
			}
			var complete bool
			now, complete = owners(t, db, names[:count])
			if !maps.Equal(now, last) {
				last, looked = now, looks{}
			}
			// The first time, all children have to be known.
			return looked.all(t, db, names[:count]) && complete && len(now) > children/2, errors.New("not yet")
		})
		if before != nil {
			moved := 0
			for unit, owner := range now {
				if before[unit] != "" && before[unit] != owner {
					moved++
				}
			}
			t.Logf("%d processes: %d of %d shards have moved", count, moved, len(now))
			if share := 1.5 / float64(processes); float64(moved) > share*float64(len(now)) {
				t.Errorf("%d processes: %d of %d shards have moved, more than %.0f %%", count, moved, len(now), 100*share)
			}
		}
		before = now
	}
	want := scan(t, chain)
	stored(t, db, want)
	handedOn(t, redis, want)
}

// TestFixedPartitions divides the shards by hand. A partition that nobody has is warned of, and its contracts wait for it.
func TestFixedPartitions(t *testing.T) {
	const children = 30
	chain := watchtest.New(t, children+1)
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	f := &fleet{t: t, members: map[string]*harness.Process{}}
	start := func(name string, partition int) {
		f.settings = []string{
			"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events"), "TOTAL_PARTITIONS=2", fmt.Sprintf("PARTITION_NUMBER=%d", partition),
		}
		f.start(name)
	}
	family(chain, children)
	for n := 1; n <= children; n++ {
		chain.Emit(watchtest.Emitter(n), approved, watchtest.Word(common.Address{1}))
	}
	chain.Commit()
	start("a", 0)
	harness.Until(t, patience, "the partition that nobody has is warned of", func() bool {
		return f.members["a"].Log.Has("no living process has these partitions")
	})
	start("b", 1)
	db := ledgertest.At(t, database)
	want := scan(t, chain)
	stored(t, db, want)
	handedOn(t, redis, want)
	var list map[string]string
	watchtest.Until(t, "both have shards", func() (complete bool, err error) {
		list, complete = owners(t, db, []string{"a", "b"})
		return complete, fmt.Errorf("owners %v", list)
	})
	for unit, owner := range list {
		var n int
		if _, err := fmt.Sscanf(unit, fmt.Sprintf("shard:%d:%%d", watchtest.ChainID), &n); err != nil || owner != []string{"a", "b"}[n%2] {
			t.Errorf("%s has %s, %v", owner, unit, err)
		}
	}
}
