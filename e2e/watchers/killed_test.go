package watchers

import (
	"errors"
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

// TestKilledInTheMiddle kills a process between two transactions of one range of blocks, and between a sink's confirmation and the note of
// it. The database holds both up by construction: the first half of the range is stored and some of it is handed on when the process dies.
// Its successor misses nothing, stores nothing twice, and repeats only the messages that were on their way.
func TestKilledInTheMiddle(t *testing.T) {
	const children, each, blocks = 3, 3000, 3
	chain := watchtest.New(t, children+1)
	family(chain, children) // 1
	for n := 1; n <= blocks; n++ {
		for child := 1; child <= children; child++ {
			chain.EmitMany(watchtest.Emitter(child), each/children, approved, watchtest.Word(common.Address{byte(n)}))
		}
		chain.Commit() // 2 to 4: one transaction stores 5,000 events and those of their last block
	}
	for range 20 {
		chain.Commit() // so that the blocks above are one range, which nothing can replace
	}
	redis := redistest.Start(t)
	database := pgtest.Start(t).Database()
	db := ledgertest.At(t, database, watch.Schema)
	run := func(statement ledger.SQL) {
		t.Helper()
		must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.Exec(t.Context(), statement)
			return err
		}))
	}
	run("CREATE TABLE hold (one INTEGER)")
	run("INSERT INTO hold VALUES (1)")
	run("CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN WHILE EXISTS (SELECT 1 FROM hold) LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN NEW; END'")
	run("CREATE TRIGGER held BEFORE INSERT ON chain_events FOR EACH ROW WHEN (NEW.block_number > " + ledger.Number(blocks) + ") EXECUTE FUNCTION held()")
	run("CREATE TRIGGER held BEFORE INSERT ON sink_cursors FOR EACH ROW WHEN (NEW.position > " + ledger.Number(children) + ") EXECUTE FUNCTION held()")
	count := func(query ledger.SQL) int64 { return must.Get(ledgertest.One[int64](t, db, query))(t) }
	f := &fleet{t: t, db: db, members: map[string]*harness.Process{}, settings: []string{"DATABASE_URL=" + database, "WATCH_FILE=" + plan(t, chain.URL, "redis://"+redis.Addr()+"/events")}}
	f.start("a")
	for _, table := range []string{"chain_events", "sink_cursors"} {
		watchtest.Until(t, "a row of "+table+" is held up", func() (bool, error) {
			n := count("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE 'INSERT INTO " + ledger.SQL(table) + "%'")
			return n > 0, errors.New("not yet")
		})
	}
	f.members["a"].Kill()
	want := scan(t, chain)
	if n := count("SELECT COUNT(*) FROM chain_events"); n != children+(blocks-1)*each {
		t.Errorf("%d events were stored when the process died, half of the range is %d", n, children+(blocks-1)*each)
	}
	before := deliveries(t, redis)
	if len(before) <= children || len(before) > children+repeatable {
		t.Errorf("%d messages were handed on when the process died", len(before))
	}
	run("DELETE FROM hold")
	f.start("b")
	stored(t, db, want)
	handedOn(t, redis, want)
	after := deliveries(t, redis)
	again := 0
	for message, times := range before {
		switch {
		case after[message] == times:
		case strings.HasPrefix(message, "Deployed "):
			t.Errorf("%s came again, although it was noted", message)
		default:
			again++
		}
	}
	if again == 0 {
		t.Error("no message came again, although none of those on their way was noted")
	}
}

// deliveries counts how often each message stands in the stream.
func deliveries(t *testing.T, redis *redistest.Server) map[string]int {
	t.Helper()
	times := map[string]int{}
	for _, e := range must.Get(messages(t, redis, "events"))(t) {
		times[e.Event+" "+e.Delivery]++
	}
	return times
}
