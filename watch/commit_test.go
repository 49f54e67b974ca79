package watch

import (
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
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
	var counted dto.Metric
	if err := w.metrics.reorgs.Write(&counted); err != nil || counted.GetCounter().GetValue() != 0 {
		t.Errorf("%v reorganisations are counted, none was taken into account (%v)", counted.GetCounter().GetValue(), err)
	}
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
