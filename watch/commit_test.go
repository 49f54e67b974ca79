package watch

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch/watchtest"
)

// TestTransactionsFollowTheTimeThatTheyTake: a quick database gets long ones, a slow one short ones.
func TestTransactionsFollowTheTimeThatTheyTake(t *testing.T) {
	for each, want := range map[time.Duration]int{ // for one event
		time.Microsecond: longestCommit, 50 * time.Microsecond: 10_000, 500 * time.Microsecond: 1000, 100 * time.Millisecond: shortestCommit,
	} {
		n := firstCommit
		for range 10 {
			n = pacedCommit(n, n, time.Duration(n)*each)
		}
		if n != want {
			t.Errorf("%v for an event: %d events, not %d", each, n, want)
		}
	}
	if n := pacedCommit(5000, 3, time.Second); n != 5000 {
		t.Errorf("a short transaction made it %d", n)
	}
}

// TestAReorganisationCountsOnce: what a unit could not take into account is tried again, and it is one reorganisation nevertheless.
func TestAReorganisationCountsOnce(t *testing.T) {
	db := ledgertest.Open(t, Schema)
	w := &worker{chain: Chain{ID: 1}, db: db, metrics: newMetrics(), units: map[string]*unit{headUnit(1): {name: headUnit(1), next: 5}}, owner: "a", reign: func() string { return "a" }}
	if err := w.rollBack(t.Context(), chainState{fork: 1}); !errors.Is(err, errDeposed) {
		t.Fatal(err) // nobody has a row for that unit
	}
	if n := must.Measure(t, w.metrics.reorgs).Of("watch_reorgs_total"); n != 0 {
		t.Errorf("%v reorganisations are counted, none was taken into account", n)
	}
}

// TestTwoEventsOfOnePlace: an event that was stored before is no news, and another contract's in its place is no event that was stored before.
func TestTwoEventsOfOnePlace(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		must.Do(t, db.Migrate(t.Context(), Schema))
		w := &worker{chain: Chain{ID: 1}}
		watch := &Watch{Name: "w", Chain: 1}
		store := func(by byte) (fresh int, err error) {
			c := &contract{watch: watch, text: addressText(common.Address{by})}
			err = db.Write(t.Context(), func(tx *ledger.Tx) error {
				list, err := w.insertEvents(t.Context(), tx, []*occurrence{{contract: c, event: "E", signature: "E()", args: "{}", blockNumber: 5, blockHash: "0xb", txHash: "0xa"}}, 1)
				fresh = len(list)
				return err
			})
			return fresh, err
		}
		for _, of := range []struct {
			by    byte
			fresh int
			err   error
		}{{1, 1, nil}, {1, 0, nil}, {2, 0, errPlace}} {
			if fresh, err := store(of.by); fresh != of.fresh || !errors.Is(err, of.err) {
				t.Errorf("contract %d: %d are new, %v", of.by, fresh, err)
			}
		}
	})
}

// TestNoNumberIsGivenTwice: what was read after a commit whose answer was lost can be older than that commit. Whoever goes on from it writes nothing.
func TestNoNumberIsGivenTwice(t *testing.T) {
	db := ledgertest.Open(t)
	must.Do(t, db.Migrate(t.Context(), Schema))
	w := &worker{chain: Chain{ID: 1}}
	c := &contract{watch: &Watch{Name: "w", Chain: 1}, address: common.Address{1}, text: addressText(common.Address{1}), merged: true}
	w.contracts = map[contractKey]*contract{c.key(): c}
	tell := func() error {
		return db.Write(t.Context(), func(tx *ledger.Tx) error {
			seqs := map[contractKey]int64{}
			nextSeq(seqs, c)
			return w.storeSeqs(t.Context(), tx, seqs, 1)
		})
	}
	must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
		return insertContracts(t.Context(), tx, []newContract{{watch: c.watch, address: c.address, kind: kindGiven}}, 1)
	}))
	must.Do(t, tell())
	if err := tell(); !errors.Is(err, errStale) { // it has not heard of the first
		t.Errorf("message 1 was written twice: %v", err)
	}
	if c.seq = 1; tell() != nil {
		t.Error("message 2 was not written")
	}
}

func TestProgressIsToldWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var p progress
		next := uint64(0)
		watches := func() map[string]uint64 { return map[string]uint64{"w": next, "ahead": 1290} }
		for range 12 { // 100 blocks a second, of 1,300
			p.count("w", 30)
			p.logNow(t.Context(), log, 5, next, 1299, watches)
			<-time.After(time.Second)
			next += 100
		}
		if got := strings.Count(out.String(), "catching up"); got != 2 || !strings.Contains(out.String(), "watch=w block=500 lag=800 blocksPerSecond=100 eventsPerSecond=30 eta=8s") {
			t.Errorf("%d lines: %s", got, &out)
		}
		p.logNow(t.Context(), log, 5, 1299, 1299, watches)
		if !strings.Contains(out.String(), "caught up") {
			t.Error(&out)
		}
		out.Reset()
		var s speeds
		for i := range 200 { // 10 blocks and 3 events a second, of which somebody asks
			is := stand{time.Now(), uint64(10 * i), int64(3 * i)}
			if blocks, events, left := is.speed(s.of("w", is), 100); i > 1 && (blocks != 10 || events != 3 || left != 10*time.Second) || i == 0 && blocks != 0 {
				t.Errorf("%d: %v blocks, %v events, %v", i, blocks, events, left)
			}
			<-time.After(time.Second)
		}
		if n := len(s.all["w"]); n > 61 {
			t.Errorf("%d stands are kept", n)
		}
		for range 20 { // one block after the other is nothing to tell
			p.logNow(t.Context(), log, 5, 1300, 1300, watches)
			<-time.After(time.Second)
		}
		if out.Len() > 0 {
			t.Error(&out)
		}
	})
}

// TestOutboxIsPrunedBehindTheSlowestSink leaves what any sink has not taken, what is young, what has no cursor yet, and what is another's.
func TestOutboxIsPrunedBehindTheSlowestSink(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		plan := approvals(t, "http://127.0.0.1:1")
		var s *Service
		with := func(sinks ...string) {
			t.Helper()
			plan.Watches[0].Sinks = sinks
			s = must.Get(New(Config{Plan: plan, Instance: "a", Retention: time.Hour}, Deps{DB: db, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Sinks: func(string) (Sink, error) { return nil, nil }}))(t)
			t.Cleanup(func() { s.chains[watchtest.ChainID].Close() })
			s.fleet.reign = "a/1"
		}
		with("fast", "slow")
		must.Do(t, s.prepare(t.Context()))
		write := func(query ledger.SQL, args ...any) {
			t.Helper()
			must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
				_, err := tx.Exec(t.Context(), query, args...)
				return err
			}))
		}
		write("DELETE FROM cursors")
		for unit, owner := range map[string]string{"ours": "a/1", "theirs": "b/1"} {
			write("INSERT INTO cursors (unit, chain, next_block, parent, fork, owner, parked, checked) VALUES ($1, 7, 0, '', 0, $2, 0, 0)", unit, owner)
		}
		var now int64
		must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) (err error) { now, err = tx.Now(t.Context()); return err }))
		old, young := now-2*time.Hour.Microseconds(), now
		emit := func(topic, unit string, at int64) {
			write("INSERT INTO outbox (topic, subject, kind, body, at) VALUES ($1, $2, 'w', '{}', $3)", topic, unit, at)
		}
		for _, at := range []int64{old, old, old, young} { // 1 to 4
			emit(topic, "ours", at)
		}
		emit(topic, "theirs", old) // 5
		emit("txm", "ours", old)   // 6
		must.Get(db.Sequence(t.Context()))(t)
		emit(topic, "ours", old) // 7, without a cursor
		left := func() []int64 { return ledgertest.List[int64](t, db, "SELECT id FROM outbox ORDER BY id") }
		after := func(what string, want ...int64) {
			t.Helper()
			must.Get(s.prune(t.Context()))(t)
			if got := left(); !slices.Equal(got, want) {
				t.Errorf("%s: %v are left, want %v", what, got, want)
			}
		}
		position := func(sink int, unit string, at int64) {
			write("INSERT INTO sink_cursors (sink, unit, position) VALUES ($1, $2, $3) ON CONFLICT (sink, unit) DO UPDATE SET position = excluded.position", s.publishers[sink].id, unit, at)
		}
		position(0, "ours", 7)
		after("a sink that has taken nothing", 1, 2, 3, 4, 5, 6, 7)
		position(1, "ours", 2)
		position(0, "theirs", 5)
		position(1, "theirs", 5)
		after("a slow sink", 3, 4, 5, 6, 7)
		position(1, "ours", 7)
		after("both sinks", 4, 5, 6, 7)
		emit(topic, "ours", old) // 8
		must.Get(db.Sequence(t.Context()))(t)
		with()
		after("no sinks", 4, 5, 6)
		write("UPDATE outbox SET at = $1", old)
		after("all of ours are old", 5, 6)
	})
}
