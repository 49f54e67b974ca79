package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lockstep/internal/outage"
	"lockstep/internal/pgtest"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
)

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
