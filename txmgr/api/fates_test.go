package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
)

// ended waits until a transaction has a fate for good.
func (w *world) ended(id string) (tx api.Transaction) {
	w.t.Helper()
	w.until("transaction "+id+" has a fate", func() bool {
		tx = w.get("/v1/transactions/" + id).transaction(w.t)
		return tx.Final
	})
	return tx
}

// What was not signed is cancelled and replaced at once, and no trace of it is on the chain. In the place of what is in the
// pool another transaction with its nonce is mined. What was mined stays.
func TestCancelAndReplace(t *testing.T) {
	w := start(t, nil)
	path := "/v1/transactions/"
	lane := "/v1/signers/1337/" + signerName
	if a := w.post(lane+"/drain", ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	cancelled := w.post("/v1/transactions", pay(1)).transaction(t)
	if tx := w.post(path+cancelled.ID+"/cancel", "").transaction(t); tx.Status != txmgr.StatusCancelled {
		t.Errorf("a cancelled intent that was not signed is %s", tx.Status)
	}
	replaced := w.post("/v1/transactions", pay(2)).transaction(t)
	first := w.post(path+replaced.ID+"/replace", pay(3)).transaction(t)
	if first.Replaces != replaced.ID {
		t.Errorf("the replacement says that it replaces %q", first.Replaces)
	}
	w.chain.pooled.Store(true)
	if a := w.post(lane+"/resume", ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	sent := func(id string) {
		t.Helper()
		w.until("it is in the pool", func() bool { return w.get(path+id).transaction(t).Status == txmgr.StatusBroadcast })
	}
	sent(first.ID)
	w.chain.mine()
	for id, want := range map[string]txmgr.Status{cancelled.ID: txmgr.StatusCancelled, replaced.ID: txmgr.StatusReplaced} {
		if tx := w.ended(id); tx.Status != want || len(tx.Attempts) != 0 {
			t.Errorf("what was not signed is %s with %d attempts, want %s", tx.Status, len(tx.Attempts), want)
		}
	}

	second := w.post("/v1/transactions", pay(4)).transaction(t)
	sent(second.ID)
	if tx := w.post(path+second.ID+"/cancel", "").transaction(t); !tx.Cancelling {
		t.Errorf("a cancelled intent in the pool is %s", tx.Status)
	}
	w.until("the cancel is in the pool", func() bool {
		list := w.get(path + second.ID).transaction(t).Attempts
		return len(list) == 2 && list[1].Purpose == txmgr.PurposeCancel && list[1].State == txmgr.AttemptSent
	})
	w.chain.mine()
	if tx := w.ended(second.ID); tx.Status != txmgr.StatusCancelled {
		t.Errorf("what was cancelled in the pool is %s", tx.Status)
	}

	third := w.post("/v1/transactions", pay(5)).transaction(t)
	sent(third.ID)
	fourth := w.post(path+third.ID+"/replace", pay(6)).transaction(t)
	sent(fourth.ID)
	w.chain.mine()
	for id, want := range map[string]txmgr.Status{first.ID: txmgr.StatusConfirmed, third.ID: txmgr.StatusReplaced, fourth.ID: txmgr.StatusConfirmed} {
		if tx := w.ended(id); tx.Status != want {
			t.Errorf("%s is %s, want %s", id, tx.Status, want)
		}
	}
	for what, body := range map[string]string{"/cancel": "", "/replace": pay(7)} {
		if a := w.post(path+fourth.ID+what, body); a.status != http.StatusConflict || a.code(t) != "TOO_LATE" {
			t.Errorf("%s of what is mined: %d %s", what, a.status, a.body)
		}
	}
	var values []int64
	for _, tx := range w.chain.executed(t, signer) {
		values = append(values, tx.Value().Int64())
	}
	if got := fmt.Sprint(values); got != "[3 0 6]" {
		t.Errorf("the chain has executed %s, want the first, a cancel and the last", got)
	}
	for status, want := range map[txmgr.Status]float64{txmgr.StatusAccepted: 6, txmgr.StatusCancelled: 2, txmgr.StatusReplaced: 2, txmgr.StatusConfirmed: 2} {
		w.until(fmt.Sprintf("%v are counted as %s", want, status), func() bool {
			return w.scrape()[fmt.Sprintf(`txm_intents_total{chain="1337",origin="api",status=%q}`, status)] == want
		})
	}
}

// A manager whose PostgreSQL server fails over signs nothing more, however rarely it looks at the chain: the new server may lack
// what the old one had committed.
func TestPromotedLedger(t *testing.T) {
	database := pgtest.Start(t)
	w := start(t, sharing(database.Database(), "one", func(c *service.Config) { c.Manager.Reconcile = envx.Millis(time.Hour) }))
	w.ended(w.post("/v1/transactions", pay(1)).transaction(t).ID)
	database.Promote()
	w.until("an intent is accepted", func() bool { return w.post("/v1/transactions", pay(2), "Idempotency-Key", "two").status/100 == 2 })
	w.until("the signer is halted", func() bool {
		var list struct{ Signers []api.Signer }
		w.get("/v1/signers").into(t, &list)
		return len(list.Signers) > 0 && strings.Contains(list.Signers[0].Halted, "restored")
	})
	if list := w.chain.executed(t, signer); len(list) != 1 {
		t.Errorf("%d transactions are on the chain", len(list))
	}
}

// A manager is ready while its ledger and one of its chains answer, however silent another chain is.
func TestReadiness(t *testing.T) {
	database := pgtest.Start(t)
	w := start(t, func(c *service.Config) {
		sharing(database.Database(), "one", nil)(c)
		c.Chains.Chains = `{"1337":{"driver":"sim"},"1338":{"driver":"silent"}}`
	})
	ready := func() int { return w.get("/health/readiness").status }
	is := func(want int, when string) {
		t.Helper()
		if got := ready(); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	for range 3 { // the chains are asked in any order
		is(http.StatusOK, "all is well but one chain")
	}
	w.chain.away.Store(true)
	is(http.StatusServiceUnavailable, "no chain answers")
	if got := w.get("/health/readiness").body; !strings.Contains(got, `{"upstream":"chain 1337","cause":"it does not answer"}`) {
		t.Errorf("no chain answers, and a probe is told %s", got)
	}
	w.chain.away.Store(false)
	is(http.StatusOK, "the chain is back")
	database.Kill()
	is(http.StatusServiceUnavailable, "the ledger is away")
	if got := w.get("/health/readiness").body; got != `{"status":"not ready","reasons":[{"upstream":"ledger","cause":"it does not answer"}]}` {
		t.Errorf("the ledger is away, and a probe is told %s", got)
	}
	if got := w.get("/health/liveness").status; got != http.StatusOK {
		t.Errorf("without its ledger the process counts as dead: %d", got)
	}
	database.Restart()
	w.until("it is ready again", func() bool { return ready() == http.StatusOK })
}
