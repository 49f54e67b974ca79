package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lockstep/txmgr/api"
)

func pay(value any) string {
	text, _ := json.Marshal(value)
	return fmt.Sprintf(`{"chain":1337,"to":%q,"value":%s}`, receiver, text)
}

// 50 posts with one key at once are one transaction and 50 equal answers; another body under
// the key is refused, also after a restart.
func TestOneKeyIsOneTransaction(t *testing.T) {
	w := start(t, nil)
	var all sync.WaitGroup
	answers := make([]answer, 50)
	for i := range answers {
		all.Go(func() {
			answers[i] = w.post("/v1/transactions?wait=confirmed&timeout=50s", pay("1000"), "Idempotency-Key", "order-1")
		})
	}
	all.Wait()
	first := answers[0].transaction(t)
	if first.Receipt == nil || !first.Receipt.Success || first.Status != "confirmed" || first.Signer != signerName {
		t.Fatalf("answer %s", answers[0].body)
	}
	for i, a := range answers {
		if a.status != http.StatusOK || a.body != answers[0].body {
			t.Errorf("answer %d: %d %s\nthe first: %s", i, a.status, a.body, answers[0].body)
		}
	}
	if list := w.chain.executed(t, signer); len(list) != 1 || list[0].Value().Int64() != 1000 {
		t.Fatalf("the chain has %d transactions", len(list))
	}
	if a := w.post("/v1/transactions", pay("1001"), "Idempotency-Key", "order-1"); a.status != 422 || a.code(t) != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("another body: %d %s", a.status, a.body)
	}
	// The same amount in other words is the same body.
	for _, value := range []any{1000, "0x3e8"} {
		if a := w.post("/v1/transactions", pay(value), "Idempotency-Key", "order-1").transaction(t); a.ID != first.ID {
			t.Errorf("value %v made another transaction", value)
		}
	}
	w.stop()
	w.run(nil)
	if a := w.post("/v1/transactions", pay("1000"), "Idempotency-Key", "order-1").transaction(t); a.ID != first.ID || a.Hash != first.Hash {
		t.Errorf("after a restart: %+v", a)
	}
	if a := w.post("/v1/transactions", pay("1002"), "Idempotency-Key", "order-1"); a.status != 422 {
		t.Errorf("another body after a restart: %d %s", a.status, a.body)
	}
	if n := len(w.chain.executed(t, signer)); n != 1 {
		t.Errorf("the chain has %d transactions", n)
	}
}

func TestTransactionsAreFound(t *testing.T) {
	w := start(t, nil)
	var sent []api.Transaction
	for i := range 3 {
		sent = append(sent, w.post("/v1/transactions?wait=mined&timeout=50s", pay(i+1), "Idempotency-Key", fmt.Sprint("k", i)).transaction(t))
	}
	full := w.get("/v1/transactions/" + sent[1].ID).transaction(t)
	if full.ID != sent[1].ID || len(full.Attempts) != 1 || len(full.Timeline) == 0 || len(full.Hashes) != 1 || full.Hashes[0] != full.Hash {
		t.Errorf("transaction %+v", full)
	}
	for query, want := range map[string]string{
		"hash=" + sent[0].Hash: sent[0].ID, "idempotencyKey=k2": sent[2].ID, "chain=1337&signer=" + signerName + "&nonce=1": sent[1].ID,
	} {
		var list struct{ Transactions []api.Transaction }
		w.get("/v1/transactions?"+query).into(t, &list)
		if len(list.Transactions) != 1 || list.Transactions[0].ID != want {
			t.Errorf("%s found %+v", query, list.Transactions)
		}
	}
	var page struct {
		Transactions []api.Transaction
		Cursor       string
	}
	w.get("/v1/transactions?limit=2").into(t, &page)
	if len(page.Transactions) != 2 || page.Transactions[0].ID != sent[2].ID || page.Cursor == "" {
		t.Fatalf("the first page: %+v", page)
	}
	w.get("/v1/transactions?limit=2&cursor="+page.Cursor).into(t, &page)
	if len(page.Transactions) != 1 || page.Transactions[0].ID != sent[0].ID {
		t.Errorf("the second page: %+v", page)
	}
	if a := w.get("/v1/transactions/none"); a.status != 404 || a.code(t) != "NOT_FOUND" || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("what is not there: %d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	}
}

func TestTransactionsAreFoundByStatus(t *testing.T) {
	w := start(t, nil)
	mined := w.post("/v1/transactions?wait=confirmed&timeout=50s", pay(1)).transaction(t)
	if a := w.post("/v1/signers/1337/"+signerName+"/pause", ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	waiting, ended := w.post("/v1/transactions", pay(2)).transaction(t), w.post("/v1/transactions", pay(3)).transaction(t)
	w.post("/v1/transactions/"+ended.ID+"/cancel", "").transaction(t)
	for status, want := range map[string]string{"confirmed": mined.ID, "accepted": waiting.ID, "cancelled": ended.ID, "failed": ""} {
		var list struct{ Transactions []api.Transaction }
		w.get("/v1/transactions?status="+status).into(t, &list)
		var ids []string
		for _, tx := range list.Transactions {
			ids = append(ids, tx.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s found %q, want %q", status, got, want)
		}
	}
	if a := w.get("/v1/transactions?status=lost"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a status that there is not: %d %s", a.status, a.body)
	}
}

func TestBatchIsAllOrNone(t *testing.T) {
	w := start(t, nil)
	a := w.post("/v1/transactions/batch", "["+pay(1)+","+pay(2)+"]", "Idempotency-Key", "b")
	var list struct{ Transactions []api.Transaction }
	a.into(t, &list)
	if a.status != http.StatusAccepted || len(list.Transactions) != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var again struct{ Transactions []api.Transaction }
	w.post("/v1/transactions/batch", "["+pay(1)+","+pay(2)+"]", "Idempotency-Key", "b").into(t, &again)
	if len(again.Transactions) != 2 || again.Transactions[1].ID != list.Transactions[1].ID {
		t.Errorf("the same batch again: %+v", again)
	}
	if a := w.post("/v1/transactions/batch", "["+pay(3)+`,{"chain":"1337","to":"nobody"}]`); a.status != 422 {
		t.Errorf("a bad one among good ones: %d %s", a.status, a.body)
	}
	for _, tx := range list.Transactions {
		w.get("/v1/transactions/" + tx.ID + "?wait=mined&timeout=50s").transaction(t)
	}
	if n := len(w.chain.executed(t, signer)); n != 2 {
		t.Errorf("the chain has %d transactions", n)
	}
	if a := w.post("/v1/transactions/batch", "["+pay(1)+",1]"); a.status != 422 {
		t.Errorf("not intents: %d %s", a.status, a.body)
	}
}

func TestWhatIsNoIntent(t *testing.T) {
	w := start(t, nil)
	for name, test := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"no JSON":            {`{`, 400, ""},
		"an array":           {`[]`, 422, ""},
		"no chain":           {fmt.Sprintf(`{"to":%q}`, receiver), 422, ""},
		"another chain":      {fmt.Sprintf(`{"chain":"5","to":%q}`, receiver), 422, "UNKNOWN_CHAIN"},
		"no receiver":        {`{"chain":"1337"}`, 422, "INVALID"},
		"not an address":     {`{"chain":"1337","to":"0x12"}`, 422, "INVALID"},
		"negative value":     {fmt.Sprintf(`{"chain":"1337","to":%q,"value":"-1"}`, receiver), 422, ""},
		"a fraction":         {fmt.Sprintf(`{"chain":"1337","to":%q,"value":1.5}`, receiver), 422, ""},
		"257 bits":           {fmt.Sprintf(`{"chain":"1337","to":%q,"value":"1%077d0"}`, receiver, 0), 422, ""},
		"odd data":           {fmt.Sprintf(`{"chain":"1337","to":%q,"data":"0x123"}`, receiver), 422, ""},
		"unknown speed":      {fmt.Sprintf(`{"chain":"1337","to":%q,"speed":"warp"}`, receiver), 422, ""},
		"a member too many":  {fmt.Sprintf(`{"chain":"1337","to":%q,"privateKey":"0x00"}`, receiver), 422, ""},
		"past validity":      {fmt.Sprintf(`{"chain":"1337","to":%q,"validUntil":1}`, receiver), 422, "INVALID"},
		"unknown signer":     {fmt.Sprintf(`{"chain":"1337","to":%q,"pin":%q}`, receiver, receiver), 422, "UNKNOWN_SIGNER"},
		"too little gas":     {fmt.Sprintf(`{"chain":"1337","to":%q,"data":"0x01","gas":21015,"simulate":"off"}`, receiver), 422, "INVALID"},
		"reverts":            {`{"chain":"1337","data":"0x60006000fd"}`, 422, "WOULD_REVERT"},
		"a body too large":   {fmt.Sprintf(`{"chain":"1337","to":%q,"data":"0x%01200000d"}`, receiver, 0), 413, ""},
		"more than its data": {fmt.Sprintf(`{"chain":"1337","to":%q,"data":"0x%0300000d"}`, receiver, 0), 422, "INVALID"},
	} {
		a := w.post("/v1/transactions", test.body)
		if a.status != test.status || test.code != "" && a.code(t) != test.code {
			t.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
		if a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: the answer is %s", name, a.header.Get("Content-Type"))
		}
	}
	for _, query := range []string{"?wait=soon", "?wait=mined&timeout=2h", "?wait=mined&timeout=x"} {
		if a := w.post("/v1/transactions"+query, pay(1)); a.status != 422 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if n := len(w.chain.executed(t, signer)); n != 0 {
		t.Errorf("the chain has %d transactions", n)
	}
}

func TestSimulateAndFees(t *testing.T) {
	w := start(t, nil)
	w.post("/v1/transactions?wait=mined&timeout=50s", pay(1)).transaction(t) // the signer's lane is known
	var s struct {
		Success     bool
		Gas         uint64
		MaxGasTotal string
		Reason      string
	}
	w.post("/v1/transactions/simulate", pay(1)).into(t, &s)
	if !s.Success || s.Gas < 21000 || s.MaxGasTotal == "" {
		t.Errorf("simulation %+v", s)
	}
	w.post("/v1/transactions/simulate", `{"chain":"1337","data":"0x60006000fd"}`).into(t, &s)
	if s.Success || s.Reason == "" {
		t.Errorf("of what reverts: %+v", s)
	}
	var fees struct {
		BaseFee string
		Speeds  map[string]struct{ MaxFeePerGas, MaxPriorityFeePerGas string }
	}
	w.get("/v1/fees?chain=1337").into(t, &fees)
	if fees.BaseFee == "" || len(fees.Speeds) != 3 || fees.Speeds["fast"].MaxFeePerGas == "" {
		t.Errorf("fees %+v", fees)
	}
	if a := w.get("/v1/fees"); a.status != 422 {
		t.Errorf("without a chain: %d", a.status)
	}
	if n := len(w.chain.executed(t, signer)); n != 1 {
		t.Errorf("a simulation was sent: %d transactions", n)
	}
}
