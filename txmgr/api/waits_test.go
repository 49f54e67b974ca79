package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"lockstep/internal/access"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
)

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
