package watchers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/redistest"
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
