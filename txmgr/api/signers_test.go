package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lockstep/txmgr/api"
)

// POST /v1/signers adds what needs no key to travel: a pool of one of ours, an account whose
// callers sign. Every account shows in the metrics with its owner.
func TestSignersAreAdded(t *testing.T) {
	w := start(t, nil)
	var s api.Signer
	a := w.post("/v1/signers", fmt.Sprintf(`{"chain":1337,"address":%q,"pools":["fast"]}`, strings.ToLower(signerName)))
	if a.into(t, &s); a.status != http.StatusOK || !s.Ours || !slices.Equal(s.Pools, []string{"default", "fast"}) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a = w.post("/v1/signers", fmt.Sprintf(`{"chain":1337,"address":%q}`, callerName))
	if a.into(t, &s); a.status != http.StatusOK || s.Ours {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, body := range []string{
		`{"chain":1337,"address":"nobody"}`, fmt.Sprintf(`{"chain":5,"address":%q}`, signerName), fmt.Sprintf(`{"chain":1337,"address":%q,"pools":["a,b"]}`, signerName),
		fmt.Sprintf(`{"chain":1337,"address":%q,"pools":["fast"]}`, callerName), fmt.Sprintf(`{"chain":1337,"address":%q,"privateKey":"0x00"}`, receiver),
	} {
		if a := w.post("/v1/signers", body); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	tx := w.post("/v1/transactions?wait=mined&timeout=50s", fmt.Sprintf(`{"chain":1337,"to":%q,"pool":"fast"}`, receiver)).transaction(t)
	if tx.Signer != signerName {
		t.Errorf("the pool's transaction was signed by %s", tx.Signer)
	}
	w.reserve(callerName) // its owner has read its nonce
	for _, line := range []string{
		fmt.Sprintf(`txm_signer_owned{chain="1337",signer=%q} 1`, signerName), fmt.Sprintf(`txm_signer_owned{chain="1337",signer=%q} 1`, callerName),
		fmt.Sprintf(`txm_signer_enabled{chain="1337",signer=%q} 1`, signerName), `txm_queue_depth{chain="1337"} 0`,
	} {
		w.until(line, func() bool { return strings.Contains(w.get("/metrics").body, line) })
	}
	if strings.Contains(w.get("/metrics").body, fmt.Sprintf(`txm_signer_enabled{chain="1337",signer=%q}`, callerName)) {
		t.Error("an account without a key here counts as a disabled signer")
	}
}

// A signer with too little money says so.
func TestSignerWithoutMoneyIsPassedOver(t *testing.T) {
	w := start(t, nil)
	passedOver := func() string {
		var list struct{ Signers []api.Signer }
		w.get("/v1/signers").into(t, &list)
		return list.Signers[0].PassedOver
	}
	w.until("the signer gets intents", func() bool { return passedOver() == "" })
	const much = "1000000000000000000000000000000"
	a := w.post("/v1/signers/1337/"+signerName+"/min-balance", `{"minBalance":"`+much+`"}`)
	var s api.Signer
	if a.into(t, &s); a.status != http.StatusOK || s.PassedOver != "low_balance: its signer holds less than "+much {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := passedOver(); got != s.PassedOver {
		t.Errorf("the list says %q", got)
	}
}

// A tenant sees the signers that serve it and the accounts that it brought, and nobody else's.
func TestSignersOfATenant(t *testing.T) {
	w := start(t, nil)
	admin, keys := w.tenants("send", "acme", "other")
	if a := w.post("/v1/nonces", `{"chain":1337,"address":"`+callerName+`"}`, "Authorization", keys["acme"]); a.status/100 != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for who, c := range map[string]struct {
		key  string
		want int
	}{"acme": {keys["acme"], 2}, "other": {keys["other"], 1}, "an administrator": {admin, 2}} {
		var found struct{ Signers []api.Signer }
		w.get("/v1/signers", "Authorization", c.key).into(t, &found)
		if len(found.Signers) != c.want {
			t.Errorf("%s sees %+v", who, found.Signers)
		}
	}
}
