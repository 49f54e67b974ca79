package watchers

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/redistest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

const (
	deployed = "Deployed(address,uint256)"
	approved = "Approved(address)"
)

// chaosTime is how long the trouble goes on, and how often there is some: a short while in every run, as long as LOCKSTEP_CHAOS_TIME says
// in `make chaos-watch`.
func chaosTime(t *testing.T) (length, period time.Duration) {
	text := os.Getenv("LOCKSTEP_CHAOS_TIME")
	if text == "" {
		return 25 * time.Second, 0
	}
	d := must.Get(time.ParseDuration(text))(t)
	return d, 20 * time.Second
}

// fleet is some processes on one database.
type fleet struct {
	t        *testing.T
	db       *ledger.DB
	settings []string
	members  map[string]*harness.Process
}

func (f *fleet) start(name string) {
	f.t.Helper()
	f.members[name] = harness.Command{
		Name: name, Rough: true, Shown: 2000, Args: []string{"watch"}, Settings: append(f.settings, "INSTANCE_ID="+name, "WATCH_ADDRESS=off", "PRETTY_LOGS_ENABLED=false"),
	}.Start(f.t)
}

// withinLease is how soon the units of a process that was killed have to run elsewhere: its leases live ten seconds.
const withinLease = 15 * time.Second

// trouble is one process that is gone for a while, and what it had.
type trouble struct {
	what   string
	victim string
	since  time.Time
	units  map[string]int64 // first block that was not read then
	repair func()
}

// ownedBy returns the units whose cursors name a process, and their next blocks.
func (f *fleet) ownedBy(name string) map[string]int64 {
	f.t.Helper()
	return must.Get(ledgertest.Pairs[string, int64](f.t, f.db, "SELECT unit, next_block FROM cursors WHERE owner LIKE $1", name+"/%"))(f.t)
}

// elsewhere tells whether all units of a trouble belong to others by now and have gone on from where they were.
func (f *fleet) elsewhere(tr *trouble) bool {
	f.t.Helper()
	now := must.Get(ledgertest.Pairs[string, int64](f.t, f.db, "SELECT unit, next_block FROM cursors WHERE owner <> '' AND owner NOT LIKE $1", tr.victim+"/%"))(f.t)
	for unit, before := range tr.units {
		if now[unit] <= before {
			return false
		}
	}
	return true
}

// leader is the process that owns the factory, "" for none.
func (f *fleet) leader() string {
	f.t.Helper()
	owner := must.Get(ledgertest.One[string](f.t, f.db, "SELECT owner FROM cursors WHERE unit = 'factory:escrows'"))(f.t)
	name, _, _ := strings.Cut(owner, "/")
	return name
}

// cause makes the n-th trouble: the factory's owner or an owner of shards is killed, or stopped until its leases have ended.
func (f *fleet) cause(n int, names []string) *trouble {
	leader := f.leader()
	tr := &trouble{victim: leader}
	if n%2 == 1 || leader == "" {
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == leader })
		tr.victim = others[rand.IntN(len(others))]
	}
	tr.units = f.ownedBy(tr.victim)
	victim := f.members[tr.victim]
	if n%4 < 2 {
		tr.what = "killed"
		victim.Kill()
		tr.repair = func() { f.start(tr.victim) }
	} else {
		tr.what = "stopped"
		victim.Freeze()
		tr.repair = victim.Thaw
	}
	tr.since = time.Now()
	if tr.victim == leader {
		tr.what += ", the factory's owner"
	}
	return tr
}

// roll gives all processes, one after the other, a file without the watch, and then the one that they had. Blocks go on meanwhile.
func (f *fleet) roll(file string, names []string, block func()) {
	f.t.Helper()
	before := must.Get(os.ReadFile(file))(f.t)
	began := time.Now()
	without, _, _ := strings.Cut(string(before), "  - name: escrows\n")
	for _, text := range []string{without, string(before)} {
		must.Do(f.t, os.WriteFile(file, []byte(text), 0o600))
		for _, name := range names {
			f.members[name].Kill()
			f.start(name)
			block()
		}
		out := text == without
		watchtest.Until(f.t, "the fleet follows the file", func() (bool, error) {
			block()
			is, err := ledgertest.One[int](f.t, f.db, "SELECT out FROM watches WHERE name = 'escrows'")
			return err == nil && out == (is == 1), err
		})
	}
	watchtest.Until(f.t, "the factory has an owner again", func() (bool, error) { block(); return f.leader() != "", nil })
	f.t.Logf("the watch was taken out and put back, process by process, within %v", time.Since(began).Round(time.Millisecond))
}

// kinds are the ways in which endpoints lie in bad hours.
var kinds = []string{"empty", "null", "doubled", "of another block", "late", "no block"}

// lies counts the lies of a liar by their kinds.
type lies [6]atomic.Int64

// liar passes calls on to a node, and lies about one question for logs in so many: with nothing, with null, with each log twice, with logs of
// another block, or late; and now and then it has no block that is asked for.
func liar(t *testing.T, node string, odds int, told *lies) string {
	return watchtest.Proxy(t, node, func(c *watchtest.Call) {
		c.Ask()
		if c.Error != nil || rand.IntN(odds) > 0 {
			return
		}
		if strings.HasPrefix(c.Method, "eth_getBlockBy") {
			c.Say(nil)
			told[5].Add(1)
		}
		var logs []map[string]any
		if c.Method != "eth_getLogs" || json.Unmarshal(c.Result, &logs) != nil || len(logs) == 0 {
			return
		}
		kind := rand.IntN(5)
		told[kind].Add(1)
		switch kind {
		case 0:
			logs = []map[string]any{}
		case 1:
			logs = nil
		case 2:
			logs = append(logs, logs...)
		case 3:
			for _, l := range logs {
				l["blockHash"] = common.Hash{1}
			}
		default:
			select {
			case <-c.Context.Done():
			case <-time.After(3 * time.Second):
			}
		}
		c.Say(logs)
	})
}

// TestKilledWatchers has three processes follow the contracts of a factory while one after the other is killed or stopped until others have its
// units, gets another file, or has half-open connections, and one of their endpoints lies. Every event is stored once and handed on in its
// contract's order.
func TestKilledWatchers(t *testing.T) {
	const children, first = 1000, 60
	chain := watchtest.New(t, children+1)
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	db := ledgertest.At(t, database, watch.Schema)
	line := watchtest.NewLine(t, chain.WS)
	var told lies
	file := plan(t, liar(t, chain.URL, 20, &told), "redis://"+redis.Addr()+"/events")
	text := must.Get(os.ReadFile(file))(t)
	more := strings.Replace(string(text), "]\n    finality", fmt.Sprintf(", %q]\n    finality", "ws://"+line.Addr), 1) // the liar is asked first; and a watch that stays when the other is taken out
	more = strings.Replace(more, "watches:\n", fmt.Sprintf("watches:\n  - {name: other, chain: %d, addresses: [\"0x00000000000000000000000000000000000000ee\"], events: [Approved(address)]}\n", watchtest.ChainID), 1)
	must.Do(t, os.WriteFile(file, []byte(more), 0o600))
	f := &fleet{t: t, db: db, members: map[string]*harness.Process{}, settings: []string{"DATABASE_URL=" + database, "WATCH_FILE=" + file}}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		f.start(name)
	}
	known, made := 0, 0
	block := func() {
		grow := 1 // the factory goes on making contracts
		if known == 0 {
			grow = first
		}
		for range min(grow, children-known) {
			known++
			chain.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(known)), watchtest.Number(int64(known)))
		}
		for range 5 {
			chain.Emit(watchtest.Emitter(1+rand.IntN(known)), approved, watchtest.Word(common.Address{1}))
		}
		chain.Commit()
		made++
	}
	block()
	watchtest.Until(t, "each process has units", func() (bool, error) {
		_, complete := owners(t, db, names)
		return complete, errors.New("not yet")
	})
	length, period := chaosTime(t)
	end := time.Now().Add(length)
	blocks := time.NewTicker(200 * time.Millisecond)
	defer blocks.Stop()
	var now *trouble
	var worst time.Duration
	next, troubles, hung := time.Now(), 0, 0
	for now != nil || time.Now().Before(end) {
		<-blocks.C
		block()
		switch {
		case now != nil && f.elsewhere(now):
			took := time.Since(now.since)
			t.Logf("block %d: %s was %s; its %d units ran elsewhere after %v, %.1f times the life of a lease", made, now.victim, now.what, len(now.units), took.Round(10*time.Millisecond), took.Seconds()/10)
			worst = max(worst, took)
			now.repair()
			now, next = nil, now.since.Add(period)
		case now != nil && time.Since(now.since) > patience:
			t.Fatalf("%s was %s; its %d units do not run elsewhere", now.victim, now.what, len(now.units))
		case now == nil && time.Now().After(next) && troubles%5 == 4:
			f.roll(file, names, block)
			hung += line.Hang()
			troubles++
			next = time.Now().Add(period)
		case now == nil && time.Now().After(next):
			now = f.cause(troubles, names)
			troubles++
		}
	}
	t.Logf("%d troubles; units ran elsewhere after %v at the latest; %d connections hung", troubles, worst.Round(10*time.Millisecond), hung)
	if hung == 0 && troubles >= 5 {
		t.Error("no connection hung")
	}
	for kind := range told {
		n := told[kind].Load()
		t.Logf("lies, %s: %d", kinds[kind], n)
		if n == 0 && period > 0 {
			t.Errorf("no lie was %s", kinds[kind])
		}
	}
	if os.Getenv("LOCKSTEP_CHAOS_TIME") != "" && worst > withinLease {
		t.Errorf("units of a process that was gone ran elsewhere after %v, the limit is %v", worst, withinLease)
	}
	want := scan(t, chain)
	t.Logf("%d events of %d contracts", len(want), known)
	stored(t, db, want)
	repeated := handedOn(t, redis, want)
	t.Logf("%d messages came twice", repeated)
	// The victim leaves some behind, and each of the others may when it gives units back to it.
	if limit := (1 + troubles) * len(names) * repeatable; repeated > limit {
		t.Errorf("%d messages came twice, the limit is %d", repeated, limit)
	}
}

// messages reads a stream.
func messages(t *testing.T, redis *redistest.Server, stream string) (events []watch.Event, err error) {
	entries, err := redis.Client().XRange(t.Context(), stream, "-", "+").Result()
	for _, entry := range entries {
		var e watch.Event
		err = errors.Join(err, json.Unmarshal([]byte(entry.Values["event"].(string)), &e))
		events = append(events, e)
	}
	return events, err
}

// family has the factory make contracts, in one block.
func family(chain *watchtest.Chain, children int) {
	for n := 1; n <= children; n++ {
		chain.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(n)), watchtest.Number(int64(n)))
	}
	chain.Commit()
}

// handedOn waits until the stream has all events, and checks that those of each contract are in order and that there are no others. It
// returns how many messages came twice.
func handedOn(t *testing.T, redis *redistest.Server, want map[string]bool) (repeated int) {
	t.Helper()
	var events []watch.Event
	different := 0
	watchtest.Until(t, "all events are handed on", func() (_ bool, err error) {
		events, err = messages(t, redis, "events")
		different = inOrder(t, events)
		return different >= len(want), errors.Join(fmt.Errorf("%d of %d", different, len(want)), err)
	})
	if different != len(want) {
		t.Errorf("%d events were handed on, the chain has %d", different, len(want))
	}
	return len(events) - different
}

// inOrder counts the different events, and fails unless those of each contract came in their order.
func inOrder(t *testing.T, events []watch.Event) int {
	t.Helper()
	seen, seqs := map[string]bool{}, map[string]int64{}
	for _, e := range events {
		if seen[e.Delivery] {
			continue
		}
		seen[e.Delivery] = true
		if seqs[e.Address]++; e.Seq != seqs[e.Address] {
			t.Fatalf("%s: message %d where %d is next", e.Address, e.Seq, seqs[e.Address])
		}
	}
	return len(seen)
}

// repeatable is how many messages a process may have handed on without a note of it: who has their units next hands them on again.
const repeatable = 32

// stored waits until the ledger has the wanted events, and checks that it has each of them once, in its block, and no others.
func stored(t *testing.T, db *ledger.DB, want map[string]bool) {
	t.Helper()
	var rows map[string]int
	watchtest.Until(t, "all events are stored", func() (_ bool, err error) {
		rows, err = ledgertest.Pairs[string, int](t, db, "SELECT tx_hash || ':' || log_index || ':' || block_hash, COUNT(*) FROM chain_events WHERE removed = 0 GROUP BY 1")
		return len(rows) >= len(want), errors.Join(fmt.Errorf("%d of %d", len(rows), len(want)), err)
	})
	for id := range want {
		if rows[id] != 1 {
			t.Errorf("event %s stands %d times", id, rows[id])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d events are stored, the chain has %d", len(rows), len(want))
	}
}

// scan reads all events of the factory and its children from the chain, from first to last.
func scan(t *testing.T, chain *watchtest.Chain) map[string]bool {
	t.Helper()
	logs := must.Get(chain.Client().FilterLogs(t.Context(), ethereum.FilterQuery{
		FromBlock: new(big.Int), Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte(deployed)), crypto.Keccak256Hash([]byte(approved))}},
	}))(t)
	ids := map[string]bool{}
	for _, l := range logs {
		ids[fmt.Sprintf("%s:%d:%s", l.TxHash.Hex(), l.Index, l.BlockHash.Hex())] = true
	}
	return ids
}

func plan(t *testing.T, url, sink string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "watch.yaml")
	text := fmt.Sprintf(`
chains:
  - id: %d
    urls: [%q]
    finality: 16
watches:
  - name: escrows
    chain: %d
    factory:
      address: "%s"
      event: Deployed(address indexed escrow, uint256 amount)
      child: escrow
    events: [Approved(address)]
    sinks: [%q]
`, watchtest.ChainID, url, watchtest.ChainID, watchtest.Emitter(0).Hex(), sink)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
