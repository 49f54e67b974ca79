package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"lockstep/txmgr"
	"lockstep/txmgr/service"
)

// When one of an order's intents fails, those behind it that have no nonce yet are cancelled,
// or go on if they say so; a window of one lets none of them have one early. One that nobody could send in time ends without a nonce as well.
func TestFailedPredecessorsAndTime(t *testing.T) {
	w := start(t, func(c *service.Config) { c.Manager.InFlight = 1 })
	send := func(what string, body string) []string {
		t.Helper()
		a := w.post("/v1/transactions/batch", body)
		if a.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", what, a.status, a.body)
		}
		var list struct{ Transactions []struct{ ID string } }
		a.into(t, &list)
		var ids []string
		for _, tx := range list.Transactions {
			ids = append(ids, tx.ID)
		}
		return ids
	}
	const fails = `{"chain":1337,"data":"0x60006000fd","gas":100000,"simulate":"off","orderKey":%q}`
	next := fmt.Sprintf(`{"chain":1337,"to":%q,"value":1,"orderKey":%%q,"onFailure":%%q}`, receiver)
	for _, way := range []struct {
		onFailure string
		want      txmgr.Status
	}{{"stop", txmgr.StatusCancelled}, {"continue", txmgr.StatusConfirmed}} {
		ids := send(way.onFailure, "["+fmt.Sprintf(fails, way.onFailure)+","+fmt.Sprintf(next, way.onFailure, way.onFailure)+"]")
		first := w.get("/v1/transactions/" + ids[0] + "?wait=confirmed&timeout=50s").transaction(t)
		second := w.get("/v1/transactions/" + ids[1] + "?wait=confirmed&timeout=50s").transaction(t)
		if first.Status != txmgr.StatusReverted || second.Status != way.want || (len(second.Attempts) == 0) != (way.want == txmgr.StatusCancelled) {
			t.Errorf("%s: the first is %s, the second %s with %d attempts", way.onFailure, first.Status, second.Status, len(second.Attempts))
		}
	}
	if a := w.post("/v1/signers/1337/"+signerName+"/pause", ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var a answer
	var body, key string
	w.until("it is accepted within its time", func() bool {
		until := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
		body, key = fmt.Sprintf(`{"chain":1337,"to":%q,"validUntil":%q}`, receiver, until), "until "+until
		a = w.post("/v1/transactions", body, "Idempotency-Key", key)
		return a.status != http.StatusUnprocessableEntity
	})
	late := a.transaction(t)
	late = w.get("/v1/transactions/" + late.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if late.Status != txmgr.StatusExpired || len(late.Attempts) != 0 {
		t.Errorf("past its time it is %s with %d attempts", late.Status, len(late.Attempts))
	}
	// A caller whose answer was lost, and who repeats the call past the time, hears what became of it.
	if again := w.post("/v1/transactions", body, "Idempotency-Key", key); again.status/100 != 2 || again.transaction(t).ID != late.ID {
		t.Errorf("the repeated call past its time: %d %s", again.status, again.body)
	}
	if list := w.chain.executed(t, signer); len(list) != 3 {
		t.Errorf("%d transactions are on the chain", len(list))
	}
}
