package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/access"
	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
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

// tenants makes an administrator's key and one of each tenant.
func (w *world) tenants(role string, names ...string) (admin string, keys map[string]string) {
	w.t.Helper()
	var key access.Key
	w.post("/v1/api-keys", `{"role":"admin"}`).into(w.t, &key)
	admin, keys = "Bearer "+key.Token, map[string]string{}
	for _, name := range names {
		w.post("/v1/api-keys", fmt.Sprintf(`{"role":%q,"tenant":%q}`, role, name), "Authorization", admin).into(w.t, &key)
		keys[name] = "Bearer " + key.Token
	}
	return admin, keys
}

// A tenant that waits with more calls than it has places for is told the truth about what was accepted, by every call that waits,
// and another tenant finds a place all the same.
func TestAcceptedIsNeverAnError(t *testing.T) {
	w := start(t, func(c *service.Config) { c.API.Waits = 4 })
	w.chain.pooled.Store(true)
	_, keys := w.tenants("send", "acme", "other")
	var waiting sync.WaitGroup
	for n := range 2 {
		waiting.Go(func() {
			if a := w.post("/v1/transactions?wait=mined&timeout=60s", pay(n+1), "Authorization", keys["acme"]); a.status != http.StatusOK {
				t.Errorf("one that has a place: %d %s", a.status, a.body)
			}
		})
	}
	// Both have their places as soon as both transactions are known.
	var found struct{ Transactions []api.Transaction }
	w.until("two transactions on their way", func() bool {
		w.get("/v1/transactions?status=broadcast", "Authorization", keys["acme"]).into(t, &found)
		return len(found.Transactions) == 2
	})
	intent := strings.TrimSpace(pay(3))
	for name, call := range map[string]struct{ path, body string }{
		"send":    {"/v1/transactions?wait=mined&timeout=60s", intent},
		"execute": {"/internal/execute", fmt.Sprintf(`{"key":"k","idempotencyKey":"execute","intent":%s}`, intent)},
		"older":   {"/evm/transaction/send", fmt.Sprintf(`{"networkId":1337,"to":%q,"value":"3"}`, receiver)},
	} {
		a := w.post(call.path, call.body, "Authorization", keys["acme"])
		if want := map[string]int{"send": 202}[name]; a.status != max(want, 200) || !strings.Contains(a.body, `"id":"`) && name != "execute" {
			t.Errorf("%s without a place: %d %s", name, a.status, a.body)
		}
		if name == "execute" && !strings.Contains(a.body, `"status":"inflight"`) {
			t.Errorf("%s without a place: %s", name, a.body)
		}
	}
	// What asks without having handed anything over may be refused.
	if a := w.get("/v1/transactions/"+found.Transactions[0].ID+"?wait=mined", "Authorization", keys["acme"]); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("a question without a place: %d %v", a.status, a.header)
	}
	waiting.Go(func() {
		if a := w.post("/v1/transactions?wait=broadcast&timeout=60s", pay(4), "Authorization", keys["other"]); a.status != http.StatusOK {
			t.Errorf("the other tenant: %d %s", a.status, a.body)
		}
	})
	w.until("all are mined", func() bool {
		w.chain.mine()
		w.get("/v1/transactions?status=confirmed").into(t, &found)
		w.get("/v1/transactions?status=broadcast", "Authorization", keys["acme"]).into(t, &found)
		return len(found.Transactions) == 0
	})
	waiting.Wait()
}

// The older call without a body of REST's takes an idempotency key, too: as a header or a member.
func TestOlderSendTakesAKey(t *testing.T) {
	c := older(t)
	body := fmt.Sprintf(`{"networkId":1337,"to":%q,"value":"7"}`, receiver)
	var ids []string
	for _, a := range []answer{
		c.post("/evm/transaction/send", body, "Authorization", c.auth, "Idempotency-Key", "order-1"),
		c.post("/evm/transaction/send", body, "Authorization", c.auth, "Idempotency-Key", "order-1"),
		c.call("/evm/transaction/send", strings.TrimSuffix(body, "}")+`,"idempotencyKey":"order-1"}`),
		c.call("/evm/transaction/send", strings.TrimSuffix(body, "}")+`,"idempotencyKey":"order-2"}`),
	} {
		var sent struct{ ID string }
		a.into(t, &sent)
		ids = append(ids, sent.ID)
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[0] != ids[2] || ids[0] == ids[3] {
		t.Errorf("ids %v", ids)
	}
	if a := c.post("/evm/transaction/send", strings.Replace(body, `"7"`, `"8"`, 1), "Authorization", c.auth, "Idempotency-Key", "order-1"); a.status != 422 {
		t.Errorf("another body under the key: %d %s", a.status, a.body)
	}
}

// What a caller reads is about what it asked for: one sentence, a code, and no name that does not exist passes for one that does.
func TestWhatCallersAreTold(t *testing.T) {
	w := start(t, nil)
	sent := w.post("/v1/transactions?wait=confirmed&timeout=50s", pay("1000"), "Idempotency-Key", "order-1").transaction(t)
	rule := func(rules string) string { return `{"disabled":true,"rules":{` + rules + `}}` }
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		want               string // in the answer
	}{
		"half a coin":          {"POST", "/v1/transactions", pay(0.5), 422, "body.value: want a whole number of the chain's smallest unit, such as wei: there is no part of it"},
		"half a coin as text":  {"POST", "/v1/transactions", pay("0.5"), 422, "body.value: want a whole number of the chain's smallest unit"},
		"no number":            {"POST", "/v1/transactions", pay("much"), 422, `"code":"INVALID"`},
		"an argument":          {"POST", "/v1/transactions/simulate", `{"chain":1337,"to":"` + receiver + `","function":"transfer(address to,uint256 amount)","args":["` + receiver + `",100000000000000000000001]}`, 200, `"success":true`},
		"no argument":          {"POST", "/v1/transactions", `{"chain":1337,"to":"` + receiver + `","function":"transfer(address to,uint256 amount)","args":["` + receiver + `","x"]}`, 422, "args[1] (uint256 amount): want a whole number"},
		"a function and data":  {"POST", "/v1/transactions", `{"chain":1337,"to":"` + receiver + `","function":"stop()","data":"0x01"}`, 422, "want data, or a function"},
		"code with a receiver": {"POST", "/v1/transactions", `{"chain":1337,"to":"` + receiver + `","bytecode":"0x01"}`, 422, "want no receiver"},
		"code that deploys":    {"POST", "/v1/transactions/simulate", `{"chain":1337,"bytecode":"0x00","function":"constructor(uint8)","args":[1]}`, 200, `"success":true`},
		"gas of 0":             {"POST", "/v1/transactions", strings.TrimSuffix(pay("1000"), "}") + `,"gas":0}`, 422, "want more than 0, or leave it out"},
		"two kinds of price":   {"POST", "/v1/transactions", strings.TrimSuffix(pay("1000"), "}") + `,"gasPrice":5,"maxFeePerGas":5}`, 422, "not both"},
		"no access list":       {"POST", "/v1/transactions", strings.TrimSuffix(pay("1000"), "}") + `,"accessList":{}}`, 422, "accessList: want a list"},
		"a list of errors":     {"POST", "/v1/policies", rule(`"errors":["error Short(uint256 have,uint256 want)"]`), 201, `"Short(uint256 have,uint256 want)"`},
		"no error":             {"POST", "/v1/policies", rule(`"errors":["Short"]`), 422, "errors[0]"},
		"kill no chain":        {"POST", "/v1/kill-switch", `{"scope":"chain/5","on":true}`, 422, "no such chain"},
		"kill no pool":         {"POST", "/v1/kill-switch", `{"scope":"pool/1337/hot","on":true}`, 422, "has no pool hot"},
		"kill no signer":       {"POST", "/v1/kill-switch", `{"scope":"signer/1337/` + receiver + `","on":true}`, 422, "no such signer"},
		"end what is gone":     {"POST", "/v1/kill-switch", `{"scope":"chain/5","on":false}`, 200, ""},
		"kill a signer":        {"POST", "/v1/kill-switch", `{"scope":"signer/1337/` + strings.ToLower(signerName) + `","on":false}`, 200, ""},
		"a hook for no events": {"POST", "/v1/webhooks", `{"url":"http://127.0.0.1:1/","events":["tx.done"]}`, 422, "tx.confirmed"},
		"a hook for no prefix": {"POST", "/v1/webhooks", `{"url":"http://127.0.0.1:1/","events":["block.*"]}`, 422, "no such events"},
		"a rule for no chain":  {"POST", "/v1/policies", rule(`"chains":["5"]`), 422, "no such chain"},
		"a rule in hex":        {"POST", "/v1/policies", rule(`"chains":["0x539"]`), 201, `"1337"`},
		"a rule for nobody":    {"POST", "/v1/policies", rule(`"receivers":["bob"]`), 422, "body.rules.receivers[0]"},
		"a rule to deploy":     {"POST", "/v1/policies", rule(`"selectors":["create"]`), 201, ""},
		"chain in hex":         {"GET", "/v1/transactions?chain=0x539", "", 200, sent.ID},
		"hash in capitals":     {"GET", "/v1/transactions?hash=0x" + strings.ToUpper(sent.Hash[2:]), "", 200, sent.ID},
		"hash without 0x":      {"GET", "/v1/transactions?hash=" + sent.Hash[2:], "", 200, sent.ID},
		"signer in lower case": {"GET", "/v1/transactions?signer=" + strings.ToLower(sent.Signer), "", 200, sent.ID},
		"no signer":            {"GET", "/v1/transactions?signer=bob", "", 422, "INVALID"},
		"fees in hex":          {"GET", "/v1/fees?chain=0x539", "", 200, `"1337"`},
		"signers in hex":       {"GET", "/v1/signers?chain=0x539", "", 200, signerName},
		"a signer in hex":      {"POST", "/v1/signers/0X539/" + strings.ToLower(signerName) + "/resume", "", 200, signerName},
		"nonces in hex":        {"GET", "/v1/nonces/health?chain=0x539&address=" + signerName, "", 200, signerName},
		"older nonces in hex":  {"GET", "/evm/nonce/health?networkId=0x539&address=" + signerName, "", 200, signerName},
	} {
		if a := w.ask(c.method, c.path, c.body); a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, a.status, a.body, c.status, c.want)
		}
	}
}

// A batch under a key is that batch: one transaction more, one less or another order is another one, and nothing of it is executed.
func TestBatchIsHashedWhole(t *testing.T) {
	w := start(t, nil)
	batch := func(values ...int) string {
		list := make([]string, len(values))
		for i, v := range values {
			list[i] = pay(v)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	first := w.post("/v1/transactions/batch", batch(1, 2), "Idempotency-Key", "b")
	again := w.post("/v1/transactions/batch", batch(1, 2), "Idempotency-Key", "b")
	var one, two struct{ Transactions []api.Transaction }
	first.into(t, &one)
	again.into(t, &two)
	if first.status != 202 || len(one.Transactions) != 2 || one.Transactions[1].ID != two.Transactions[1].ID {
		t.Fatalf("%d %s, and again %s", first.status, first.body, again.body)
	}
	for name, values := range map[string][]int{"one more": {1, 2, 3}, "one less": {1}, "turned": {2, 1}, "another": {1, 3}} {
		if a := w.post("/v1/transactions/batch", batch(values...), "Idempotency-Key", "b"); a.status != 422 || a.code(t) != "IDEMPOTENCY_KEY_REUSED" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	own := strings.TrimSuffix(pay(7), "}") + `,"idempotencyKey":"own"}`
	if a := w.post("/v1/transactions/batch", "["+own+"]", "Idempotency-Key", "c"); a.status != 422 {
		t.Errorf("two keys for one transaction: %d %s", a.status, a.body)
	}
	var all struct{ Transactions []api.Transaction }
	if w.get("/v1/transactions").into(t, &all); len(all.Transactions) != 2 {
		t.Errorf("%d transactions, want 2", len(all.Transactions))
	}
}

// A tenant's administrator decides nothing that others need: signers, switches and the treasury are shared.
func TestTenantsAdministrators(t *testing.T) {
	w := start(t, nil)
	_, keys := w.tenants("admin", "acme")
	for _, op := range every {
		if op.role != "admin" {
			continue
		}
		if a := w.ask(op.method, op.path, op.body, "Authorization", keys["acme"]); a.status != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", op.method, op.path, a.status, a.body)
		}
	}
}

// What happens to an intent is told with all that its caller gave it to be known by, and with the receipt.
func TestEventsKnowTheirCaller(t *testing.T) {
	w := start(t, nil)
	body := strings.TrimSuffix(pay(5), "}") + `,"requestId":"r-1","metadata":{"order":9}}`
	tx := w.post("/v1/transactions?wait=confirmed&timeout=50s", body, "Idempotency-Key", "k-1").transaction(t)
	full := w.get("/v1/transactions/" + tx.ID)
	want := []string{
		`"idempotencyKey":"k-1"`, `"requestId":"r-1"`, `"metadata":{"order":9}`, fmt.Sprintf(`"receipt":{"transactionHash":%q`, tx.Hash), `"gasUsed":21000`,
		fmt.Sprintf(`"effectiveGasPrice":%q`, tx.Receipt.GasPrice.Int.String()),
	}
	var timeline struct{ Timeline []txmgr.Step }
	full.into(t, &timeline)
	last := string(timeline.Timeline[len(timeline.Timeline)-1].Body)
	for _, part := range want {
		if !strings.Contains(last, part) {
			t.Errorf("%s lacks %s", last, part)
		}
	}
}

// While the database is stopped every call that needs it is told so, with a status that means: later. The log is told once.
func TestStoppedDatabase(t *testing.T) {
	server := pgtest.Start(t)
	database := server.Database()
	w := start(t, sharing(database, "one", nil))
	admin, _ := w.tenants("send")
	w.until("the signer is known", func() bool { return w.get("/v1/fees?chain=1337", "Authorization", admin).status == 200 })
	server.Stop()
	defer server.Restart()
	for _, op := range every {
		// What never asks the ledger answers as ever.
		if a := w.ask(op.method, op.path, op.body, "Authorization", admin); a.status >= 500 && a.status != http.StatusServiceUnavailable {
			t.Errorf("%s %s: %d %s", op.method, op.path, a.status, a.body)
		}
	}
	if a := w.post("/v1/transactions", pay(1), "Authorization", admin); a.status != http.StatusServiceUnavailable || a.code(t) != "UNAVAILABLE" {
		t.Errorf("sending: %d %s", a.status, a.body)
	}
	if said := w.log.String(); strings.Count(said, outage.Lost) != 1 || strings.Contains(said, "ledger does not answer") {
		t.Errorf("the log says\n%s", said)
	}
}

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
	if got := w.get("/health/readiness").body; !strings.Contains(got, `{"upstream":"chain 1338","cause":"endpoint 2 (other_fork) for `) {
		t.Errorf("an endpoint is on another fork, and a probe is told %s", got)
	}
	if told := must.Measure(t, w.Manager.Collectors()...); told["txm_endpoint_up 1338 1"] != 1 || told["txm_endpoint_up 1338 2"] != 0 {
		t.Errorf("an endpoint is on another fork: %v", told)
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
