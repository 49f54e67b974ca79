package watch

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch/decode"
)

// TestOutboxIsPrunedBehindTheSlowestSink leaves what any sink has not taken, what is young, what has no cursor yet, and what is another's.
func TestOutboxIsPrunedBehindTheSlowestSink(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		approved, err := decode.Parse("Approved(address)")
		if err != nil {
			t.Fatal(err)
		}
		plan := Plan{
			Chains:  []Chain{{ID: 7, URLs: []secret.String{"http://127.0.0.1:1"}}},
			Watches: []Watch{{Name: "w", Chain: 7, Addresses: []common.Address{{1}}, Events: []*decode.Signature{approved}, Sinks: []string{"fast", "slow"}}},
		}
		var s *Service
		with := func(sinks ...string) {
			t.Helper()
			plan.Watches[0].Sinks = sinks
			s, err = New(Config{Plan: plan, Instance: "a", Retention: time.Hour}, Deps{DB: db, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Sinks: func(string) (Sink, error) { return nil, nil }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.sources[7].Close() })
			s.fleet.reign = "a/1"
		}
		with("fast", "slow")
		must.Do(t, s.prepare(t.Context()))
		write := func(query ledger.SQL, args ...any) {
			t.Helper()
			err := db.Write(t.Context(), func(tx *ledger.Tx) error {
				_, err := tx.Exec(t.Context(), query, args...)
				return err
			})
			if err != nil {
				t.Fatal(query, err)
			}
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
