package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/access"
	"lockstep/txmgr/api"
	"lockstep/txmgr/webhooks"
)

// every is one request for each operation, with the role it wants.
var every = []struct {
	role         access.Role
	method, path string
	body         string
}{
	{access.RoleSend, "POST", "/v1/transactions", `{"chain":"1337","to":"` + receiver + `"}`},
	{access.RoleSend, "POST", "/v1/transactions/batch", `[{"chain":"1337","to":"` + receiver + `"}]`},
	{access.RoleSend, "POST", "/v1/transactions/simulate", `{"chain":"1337","to":"` + receiver + `"}`},
	{access.RoleSend, "POST", "/v1/transactions/raw", `{"chain":"1337","rawTx":"0x00"}`},
	{access.RoleRead, "GET", "/v1/transactions", ""},
	{access.RoleRead, "GET", "/v1/transactions/x", ""},
	{access.RoleSend, "POST", "/v1/transactions/x/cancel", ""},
	{access.RoleSend, "POST", "/v1/transactions/x/replace", `{"chain":"1337","to":"` + receiver + `"}`},
	{access.RoleRead, "GET", "/v1/transactions/stream?cursor=x", ""},
	{access.RoleSend, "POST", "/v1/nonces", `{"chain":"1337","address":"x"}`},
	{access.RoleSend, "POST", "/v1/nonces/x/renew", ""},
	{access.RoleSend, "POST", "/v1/nonces/x/recycle", ""},
	{access.RoleSend, "POST", "/v1/nonces/lock", `{"chain":"1337","address":"x"}`},
	{access.RoleSend, "POST", "/v1/nonces/unlock", `{"chain":"1337","address":"x","lockId":"y"}`},
	{access.RoleRead, "GET", "/v1/nonces/health?chain=1337&address=x", ""},
	{access.RoleRead, "GET", "/v1/signers", ""},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/pause", ""},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/resume", ""},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/drain", ""},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/reconcile", ""},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/min-balance", `{"minBalance":"1"}`},
	{access.RoleAdmin, "POST", "/v1/signers/1337/x/top-up", ""},
	{access.RoleRead, "GET", "/v1/pools", ""},
	{access.RoleRead, "GET", "/v1/fees?chain=1337", ""},
	{access.RoleRead, "GET", "/v1/kill-switch", ""},
	{access.RoleAdmin, "POST", "/v1/kill-switch", `{"scope":"chain/5","on":false}`},
	{access.RoleAdmin, "POST", "/v1/signers", `{"chain":"5","address":"x"}`},
	{access.RoleRead, "GET", "/v1/policies", ""},
	{access.RoleAdmin, "POST", "/v1/policies", `{"disabled":true,"rules":{}}`},
	{access.RoleAdmin, "PUT", "/v1/policies/x", `{"rules":{}}`},
	{access.RoleAdmin, "DELETE", "/v1/policies/x", ""},
	{access.RoleAdmin, "GET", "/v1/api-keys", ""},
	{access.RoleAdmin, "POST", "/v1/api-keys", `{"role":"read"}`},
	{access.RoleAdmin, "DELETE", "/v1/api-keys/x", ""},
	{access.RoleRead, "GET", "/v1/webhooks", ""},
	{access.RoleSend, "POST", "/v1/webhooks", `{"url":"http://10.0.0.1/"}`},
	{access.RoleRead, "GET", "/v1/budgets", ""},
	{access.RoleAdmin, "POST", "/v1/reload", ""},
	{access.RoleRead, "GET", "/v1/webhooks/x", ""},
	{access.RoleSend, "PATCH", "/v1/webhooks/x", `{}`},
	{access.RoleSend, "POST", "/v1/webhooks/x/rotate", ""},
	{access.RoleSend, "DELETE", "/v1/webhooks/x", ""},
	{access.RoleRead, "GET", "/v1/webhooks/x/deliveries", ""},
	{access.RoleSend, "POST", "/v1/webhooks/x/deliveries/y/redeliver", ""},
	{access.RoleSend, "POST", "/internal/execute", `{"key":"k","idempotencyKey":"i","intent":{"chain":"5","to":"x"}}`},
	{access.RoleSend, "POST", "/evm/address/nonce", `{"address":"x","networkId":1337}`},
	{access.RoleSend, "POST", "/evm/address/nonce/recycle", `{"address":"x","networkId":1337,"nonce":1}`},
	{access.RoleSend, "POST", "/evm/address/nonce/lock", `{"address":"x","networkId":1337}`},
	{access.RoleSend, "POST", "/evm/address/nonce/unlock", `{"address":"x","networkId":1337}`},
	{access.RoleSend, "POST", "/evm/getCurrentFee", `{"networkId":1337}`},
	{access.RoleSend, "POST", "/evm/transaction/sendRaw", `{"networkId":1337,"rawTx":"0x00"}`},
	{access.RoleSend, "POST", "/evm/transaction/send", `{"networkId":5}`},
	{access.RoleRead, "GET", "/evm/nonce/health?address=x&networkId=1337", ""},
	{access.RoleRead, "GET", "/metrics", ""},
}

// Each role may do what its operations want and nothing above, a stranger nothing; and every
// operation of the document is in the table.
func TestRoles(t *testing.T) {
	w := start(t, nil)
	var admin access.Key
	w.post("/v1/api-keys", `{"role":"admin","label":"first"}`).into(t, &admin)
	keys := map[access.Role]string{access.RoleAdmin: admin.Token}
	for _, role := range []access.Role{access.RoleRead, access.RoleSend} {
		var key access.Key
		w.post("/v1/api-keys", fmt.Sprintf(`{"role":%q,"tenant":"acme"}`, role), "Authorization", "Bearer "+admin.Token).into(t, &key)
		keys[role] = key.Token
	}
	for _, op := range every {
		for name, header := range map[string]string{"nobody": "", "a stranger": "Bearer lsk_x", "a bad form": "Token " + admin.Token, "basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("core:x"))} {
			if a := w.ask(op.method, op.path, op.body, "Authorization", header); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s by %s: %d", op.method, op.path, name, a.status)
			}
		}
		for _, role := range []access.Role{access.RoleRead, access.RoleSend, access.RoleAdmin} {
			a := w.ask(op.method, op.path, op.body, "Authorization", "Bearer "+keys[role])
			if refused := a.status == http.StatusForbidden; refused == role.Includes(op.role) || a.status == http.StatusUnauthorized || a.status >= 500 {
				t.Errorf("%s %s by %s: %d %s", op.method, op.path, role, a.status, a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s allows other origins", op.method, op.path)
			}
		}
	}
	document := w.get("/openapi.json", "Authorization", "Bearer "+keys[access.RoleRead])
	var paths struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ OperationID string }
	}
	document.into(t, &paths)
	if !strings.HasPrefix(paths.OpenAPI, "3.1") || len(paths.Paths) < 25 {
		t.Fatalf("OpenAPI %s with %d paths", paths.OpenAPI, len(paths.Paths))
	}
	known := map[string]bool{}
	for _, op := range every {
		path, _, _ := strings.Cut(op.path, "?")
		path = strings.NewReplacer("/1337/x/", "/{chain}/{address}/", "deliveries/y/", "deliveries/{delivery}/", "/x/", "/{id}/").Replace(path)
		if rest, ok := strings.CutSuffix(path, "/x"); ok {
			path = rest + "/{id}"
		}
		known[strings.ToLower(op.method)+" "+path] = true
		if _, described := paths.Paths[path][strings.ToLower(op.method)]; !described && path != "/metrics" {
			t.Errorf("%s %s is not in the document", op.method, path)
		}
	}
	for path, methods := range paths.Paths {
		for method := range methods {
			if !known[method+" "+path] {
				t.Errorf("%s %s has no row in the table of roles", method, path)
			}
		}
	}
}

// A tenant sees its own transactions only.
func TestTenantsAreApart(t *testing.T) {
	w := start(t, nil)
	var admin, acme, other access.Key
	w.post("/v1/api-keys", `{"role":"admin"}`).into(t, &admin)
	w.post("/v1/api-keys", `{"role":"send","tenant":"acme"}`, "Authorization", "Bearer "+admin.Token).into(t, &acme)
	w.post("/v1/api-keys", `{"role":"send","tenant":"other"}`, "Authorization", "Bearer "+admin.Token).into(t, &other)
	mine := w.post("/v1/transactions", pay(1), "Authorization", "Bearer "+acme.Token, "Idempotency-Key", "k").transaction(t)
	theirs := w.post("/v1/transactions", pay(2), "Authorization", "Bearer "+other.Token, "Idempotency-Key", "k").transaction(t)
	if mine.ID == theirs.ID {
		t.Error("two tenants share an idempotency key")
	}
	for token, want := range map[string]int{acme.Token: 200, admin.Token: 200, other.Token: 404} {
		if a := w.get("/v1/transactions/"+mine.ID, "Authorization", "Bearer "+token); a.status != want {
			t.Errorf("status %d, want %d: %s", a.status, want, a.body)
		}
	}
	if a := w.post("/v1/transactions/"+mine.ID+"/cancel", "", "Authorization", "Bearer "+other.Token); a.status != 404 {
		t.Errorf("another tenant cancels: %d", a.status)
	}
	var list struct{ Transactions []api.Transaction }
	w.get("/v1/transactions", "Authorization", "Bearer "+other.Token).into(t, &list)
	if len(list.Transactions) != 1 || list.Transactions[0].ID != theirs.ID {
		t.Errorf("the list of a tenant: %+v", list)
	}
}

// A tenant sees what is used of its own budgets, an operator that of all.
func TestBudgets(t *testing.T) {
	w := start(t, nil)
	var admin, acme, other access.Key
	w.post("/v1/api-keys", `{"role":"admin"}`).into(t, &admin)
	w.post("/v1/api-keys", `{"role":"send","tenant":"a_me"}`, "Authorization", "Bearer "+admin.Token).into(t, &acme)
	w.post("/v1/api-keys", `{"role":"send","tenant":"acme"}`, "Authorization", "Bearer "+admin.Token).into(t, &other)
	w.post("/v1/policies", `{"rules":{"tenantDailyGas":"1000000000000000000000"}}`, "Authorization", "Bearer "+admin.Token)
	var body struct {
		Day     string
		Budgets []struct{ Policy, Tenant, Limit, Held, Settled string }
	}
	for _, key := range []access.Key{acme, other} {
		intent := w.post("/v1/transactions", pay(1), "Authorization", "Bearer "+key.Token).transaction(t)
		w.until("a fate", func() bool {
			return w.get("/v1/transactions/"+intent.ID, "Authorization", "Bearer "+admin.Token).transaction(t).Final
		})
	}
	for token, want := range map[string]int{admin.Token: 2, acme.Token: 1, other.Token: 1} {
		w.get("/v1/budgets", "Authorization", "Bearer "+token).into(t, &body)
		if len(body.Budgets) != want || body.Day == "" {
			t.Fatalf("%d budgets, want %d: %+v", len(body.Budgets), want, body)
		}
		for _, b := range body.Budgets {
			if b.Limit != "1000000000000000000000" || b.Held != "0" || b.Settled == "0" || b.Settled == "" || b.Tenant == "" {
				t.Errorf("budget %+v", b)
			}
		}
	}
	w.get("/v1/budgets", "Authorization", "Bearer "+acme.Token).into(t, &body)
	if body.Budgets[0].Tenant != "a_me" {
		t.Errorf("another tenant's budget: %+v", body)
	}
}

// The signer's key, API keys and webhooks' secrets are in no answer, log line, metric or
// profile; the signer's key is not in the ledger either, nor the token of an API key.
func TestSecretsAreNowhere(t *testing.T) {
	w := start(t, nil)
	var admin access.Key
	w.post("/v1/api-keys", `{"role":"admin"}`).into(t, &admin)
	bearer := []string{"Authorization", "Bearer " + admin.Token}
	var hook webhooks.Webhook
	w.post("/v1/webhooks", `{"url":"http://127.0.0.1:1/token-in-path"}`, bearer...).into(t, &hook)
	seen := w.post("/v1/transactions?wait=mined&timeout=50s", pay(1), bearer...).body
	for _, op := range every {
		seen += w.ask(op.method, op.path, op.body, bearer...).body
	}
	seen += w.get("/debug/pprof/heap", bearer...).body + w.get("/debug/vars", bearer...).body + w.get("/metrics", bearer...).body
	w.stop()
	var stored []byte
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(w.ledger + suffix)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		stored = append(stored, content...)
	}
	if len(stored) < 10_000 || !strings.Contains(string(stored), strings.ToLower(receiver)) {
		t.Fatalf("the ledger has %d bytes, or another form", len(stored))
	}
	decimal := "34390819888240390953" // how the key begins in decimal
	raw := common.FromHex(signerKey)
	for what, part := range map[string]string{
		"the signer's key": signerKey[:24], "the signer's key in capitals": strings.ToUpper(signerKey[:24]), "the signer's key in decimal": decimal, "the signer's key as bytes": string(raw[:16]),
		"the signer's key in base64": base64.StdEncoding.EncodeToString(raw)[:30], "the signer's key as a list of numbers": strings.Trim(fmt.Sprintf("%d", raw[:12]), "[]"),
		"the API key": admin.Token[4:], "the webhook's secret": hook.Shown[6:],
	} {
		if strings.Contains(seen, part) {
			t.Errorf("%s is in an answer", what)
		}
		if strings.Contains(w.log.String(), part) {
			t.Errorf("%s is in the log", what)
		}
		// Webhooks' secrets must be there: they sign.
		if what != "the webhook's secret" && strings.Contains(string(stored), part) {
			t.Errorf("%s is in the ledger", what)
		}
	}
	if strings.Contains(w.log.String(), "token-in-path") {
		t.Error("a webhook's path is in the log")
	}
}
