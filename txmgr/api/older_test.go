package api_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
)

// olderClient is a client of the older spelling, written from its wire table alone.
type olderClient struct {
	*world
	auth string
}

func older(t *testing.T) olderClient {
	w := start(t, func(c *service.Config) {
		c.API.BasicUser, c.API.BasicPassword = "core", "sesame"
	})
	return olderClient{w, basic("core", "sesame")}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func (c olderClient) call(path, body string) answer {
	c.t.Helper()
	return c.post(path, body, "Authorization", c.auth)
}

// signed is a transaction of the caller's own key.
func signed(nonce uint64, value int64) string { return signedFor(nonce, value, 1e11) }

// signedFor is one that pays at most maxFee for a unit of gas.
func signedFor(nonce uint64, value, maxFee int64) string {
	raw, _ := transfer(callerKey, nonce, common.HexToAddress(receiver), value, maxFee).MarshalBinary()
	return "0x" + hex.EncodeToString(raw)
}

// The answers of the older calls are those of the table, byte for byte.
func TestOlderSpelling(t *testing.T) {
	c := older(t)
	account := fmt.Sprintf(`{"address":%q,"networkId":1337}`, callerName)
	exact := func(what string, a answer, status int, want string) {
		t.Helper()
		if a.status != status || a.body != want || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s, want %d %s", what, a.status, a.body, status, want)
		}
	}
	exact("the first nonce", c.call("/evm/address/nonce", account), 200, `{"nonce":0}`)
	exact("the next", c.call("/evm/address/nonce", strings.Replace(account, "1337", `"1337"`, 1)), 200, `{"nonce":1}`)
	exact("the third", c.call("/evm/address/nonce", account), 200, `{"nonce":2}`)
	exact("from the middle", c.call("/evm/address/nonce/recycle", fmt.Sprintf(`{"address":%q,"networkId":1337,"nonce":1}`, callerName)), 200, `{"recycled":true}`)
	exact("twice", c.call("/evm/address/nonce/recycle", fmt.Sprintf(`{"address":%q,"networkId":1337,"nonce":1}`, callerName)), 200, `{"recycled":false}`)
	exact("never given", c.call("/evm/address/nonce/recycle", fmt.Sprintf(`{"address":%q,"networkId":1337,"nonce":9}`, callerName)), 200, `{"recycled":false}`)
	exact("the recycled one", c.call("/evm/address/nonce", account), 200, `{"nonce":1}`)

	for nonce := range uint64(3) {
		raw := signed(nonce, 5)
		hash := hashOf(t, raw)
		want := fmt.Sprintf(`{"txHash":%q}`, hash)
		exact("sendRaw", c.call("/evm/transaction/sendRaw", fmt.Sprintf(`{"networkId":1337,"rawTx":%q}`, raw)), 200, want)
		exact("the same bytes again", c.call("/evm/transaction/sendRaw", fmt.Sprintf(`{"networkId":1337,"rawTx":%q}`, raw)), 200, want)
		var found struct{ Transactions []struct{ ID string } }
		c.get("/v1/transactions?hash="+hash, "Authorization", c.auth).into(t, &found)
		if len(found.Transactions) != 1 {
			t.Fatalf("the transaction %s is not found: %+v", hash, found)
		}
		c.get("/v1/transactions/"+found.Transactions[0].ID+"?wait=confirmed&timeout=50s", "Authorization", c.auth).transaction(t)
	}
	exact("a used nonce", c.call("/evm/transaction/sendRaw", fmt.Sprintf(`{"networkId":1337,"rawTx":%q}`, signed(1, 6))), 409,
		`{"error":"NONCE_CONFLICT","currentNonce":3,"attemptedNonce":1,"shouldRetry":true}`)

	lock := c.call("/evm/address/nonce/lock", fmt.Sprintf(`{"address":%q,"networkId":1337,"requestId":"r-1"}`, callerName))
	var held struct {
		Nonce  uint64
		LockID string
	}
	lock.into(t, &held)
	exact("the lock", lock, 200, fmt.Sprintf(`{"nonce":3,"lockId":%q}`, held.LockID))
	if a := c.call("/evm/address/nonce/lock", fmt.Sprintf(`{"address":%q,"networkId":1337,"requestId":"r-2"}`, callerName)); a.status != 423 || a.code(t) != "" || !strings.HasPrefix(a.body, `{"error":"LOCKED"`) {
		t.Errorf("a second lock: %d %s", a.status, a.body)
	}
	unlock := func(id string) answer {
		return c.call("/evm/address/nonce/unlock", fmt.Sprintf(`{"address":%q,"networkId":1337,"lockId":%q}`, callerName, id))
	}
	exact("another's lock", unlock("someone"), 200, `{"unlocked":false}`)
	exact("one's own", unlock(held.LockID), 200, `{"unlocked":true}`)
	exact("twice", unlock(held.LockID), 200, `{"unlocked":false}`)

	health := c.get("/evm/nonce/health?networkId=1337&address="+callerName, "Authorization", c.auth)
	exact("health", health, 200, fmt.Sprintf(`{"address":%q,"trackedNonce":%s,"chainNonce":3,"pendingCount":%s,"oldestPendingAge":%s,"gapCount":0}`,
		callerName, member(t, health, "trackedNonce"), member(t, health, "pendingCount"), member(t, health, "oldestPendingAge")))

	fee := c.call("/evm/getCurrentFee", `{"networkId":1337}`)
	exact("the fee", fee, 200, fmt.Sprintf(`{"gasPrice":%s,"maxFeePerGas":%s,"maxPriorityFeePerGas":"1000000000"}`, member(t, fee, "gasPrice"), member(t, fee, "maxFeePerGas")))

	sent := c.call("/evm/transaction/send", fmt.Sprintf(`{"from":%q,"to":%q,"value":"7","networkId":1337}`, signerName, receiver))
	exact("send", sent, 200, fmt.Sprintf(`{"txHash":%s,"id":%s}`, member(t, sent, "txHash"), member(t, sent, "id")))
	if list := c.chain.executed(t, signer); len(list) != 1 || fmt.Sprintf("%q", list[0].Hash().Hex()) != member(t, sent, "txHash") || list[0].Value().Int64() != 7 {
		t.Errorf("on the chain: %v", list)
	}
	if n := len(c.chain.executed(t, callerSigner)); n != 3 {
		t.Errorf("the chain has %d transactions of the caller", n)
	}
	if a := c.call("/evm/address/nonce", `{"address":`); a.status != 422 || !strings.HasPrefix(a.body, `{"error":"INVALID","message":`) {
		t.Errorf("no JSON: %d %s", a.status, a.body)
	}
	if a := c.call("/evm/address/nonce", `{"address":"`+strings.Repeat("x", 2<<20)+`"}`); a.status != 422 {
		t.Errorf("a body too large: %d", a.status)
	}
}

// member is one member of a JSON object as it stands.
func member(t *testing.T, a answer, name string) string {
	t.Helper()
	var all map[string]json.RawMessage
	a.into(t, &all)
	return string(all[name])
}

func hashOf(t *testing.T, raw string) string {
	t.Helper()
	var tx types.Transaction
	must.Do(t, tx.UnmarshalBinary(common.FromHex(raw)))
	return tx.Hash().Hex()
}

// A reservation is renewed, used and recycled by its id, by its own tenant alone.
func TestReservations(t *testing.T) {
	w := start(t, nil)
	var r struct {
		ID, Status string
		ExpiresAt  time.Time
		Nonce      uint64
	}
	w.post("/v1/nonces", fmt.Sprintf(`{"address":%q,"chain":"0x539"}`, callerName)).into(t, &r)
	if r.ID == "" || r.Nonce != 0 || r.Status != "held" {
		t.Fatalf("reservation %+v", r)
	}
	before := r.ExpiresAt
	w.post("/v1/nonces/"+r.ID+"/renew", "").into(t, &r)
	if !r.ExpiresAt.After(before) {
		t.Errorf("renewed from %s to %s", before, r.ExpiresAt)
	}
	if a := w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q,"reservation":"none"}`, signed(0, 1))); a.status != 409 || a.code(t) != "NO_RESERVATION" {
		t.Errorf("another reservation: %d %s", a.status, a.body)
	}
	tx := w.post("/v1/transactions/raw?wait=mined&timeout=50s", fmt.Sprintf(`{"chain":1337,"rawTx":%q,"reservation":%q}`, signed(0, 1), r.ID)).transaction(t)
	if tx.Kind != "raw" || tx.Receipt == nil || !tx.Receipt.Success {
		t.Errorf("transaction %+v", tx)
	}
	if a := w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q}`, signed(0, 1))); a.status != 409 || a.code(t) != "DUPLICATE" || !strings.Contains(a.body, tx.ID) {
		t.Errorf("the same bytes again: %d %s", a.status, a.body)
	}
	if a := w.post("/v1/nonces/"+r.ID+"/recycle", ""); a.status != 200 || !strings.Contains(a.body, `"recycled":false`) {
		t.Errorf("a used one is recycled: %d %s", a.status, a.body)
	}
	if a := w.post("/v1/transactions/raw", `{"chain":1337,"rawTx":"0x02c0"}`); a.status != 422 || a.code(t) != "INVALID" {
		t.Errorf("not a transaction: %d %s", a.status, a.body)
	}
}

type held struct {
	ID    string
	Nonce uint64
}

func (w *world) reserve(account string) (v held) {
	w.t.Helper()
	a := w.post("/v1/nonces", fmt.Sprintf(`{"address":%q,"chain":1337}`, account))
	if a.status != http.StatusOK {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	a.into(w.t, &v)
	return v
}

// Looking at the nonces of accounts makes no lane of theirs, which an owner would follow for ever.
func TestHealthWritesNothing(t *testing.T) {
	w := start(t, nil)
	signers := func() (list []api.Signer) {
		var found struct{ Signers []api.Signer }
		w.get("/v1/signers").into(t, &found)
		return found.Signers
	}
	before := len(signers())
	for n := range 20 {
		var h api.Health
		if w.get(fmt.Sprintf("/v1/nonces/health?chain=1337&address=0x%040x", n+1)).into(t, &h); h.TrackedNonce != 0 || h.Owner != "" {
			t.Errorf("a stranger: %+v", h)
		}
	}
	if after := len(signers()); after != before {
		t.Errorf("%d signers, and %d after others looked", before, after)
	}
}
