package api_test

import (
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
)

// 1,000 nonces asked for at once are all different and without a hole, in both spellings.
func TestNoncesAreUnique(t *testing.T) {
	const n = 1000
	w := start(t, func(c *service.Config) {
		c.API.BasicUser, c.API.BasicPassword = "core", "sesame"
		c.Manager.MaxReservations = n
		c.Manager.Poll = txmgr.Defaults().Poll // the owner reads every slot at each poll
	})
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	defer transport.CloseIdleConnections()
	w.client = &http.Client{Transport: transport}
	c := olderClient{w, basic("core", "sesame")}
	// The first call waits for the account's owner, which has a limit; with a thousand others beside it a busy machine may need longer.
	health := "/v1/nonces/health?chain=1337&address=" + callerSigner.Hex()
	w.until("the account's nonce is known", func() bool { return w.get(health, "Authorization", c.auth).status == http.StatusOK })
	got := make([]uint64, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			answer := answer{status: http.StatusServiceUnavailable}
			for try := 0; try < 20 && answer.status == http.StatusServiceUnavailable; try++ { // its turn did not come in time
				if i%2 == 0 {
					answer = c.call("/evm/address/nonce", fmt.Sprintf(`{"address":%q,"networkId":1337}`, callerSigner.Hex()))
				} else {
					answer = c.call("/v1/nonces", fmt.Sprintf(`{"address":%q,"chain":1337}`, callerSigner.Hex()))
				}
			}
			if answer.status != http.StatusOK {
				t.Errorf("%d %s", answer.status, answer.body)
				return
			}
			var v struct{ Nonce *uint64 }
			answer.into(t, &v)
			got[i] = *v.Nonce
		})
	}
	all.Wait()
	times := map[uint64]int{}
	for _, nonce := range got {
		times[nonce]++
	}
	for nonce := range uint64(n) {
		if times[nonce] != 1 {
			t.Errorf("nonce %d was given %d times", nonce, times[nonce])
		}
	}
	if a := c.call("/v1/nonces", fmt.Sprintf(`{"address":%q,"chain":1337}`, callerSigner.Hex())); a.status != 429 || a.code(t) != "TOO_MANY_RESERVATIONS" {
		t.Errorf("one more than a tenant may hold: %d %s", a.status, a.body)
	}
}

// expire lets the time of a reservation pass.
func (w *world) expire(id string) {
	w.t.Helper()
	db, err := ledger.Open(w.t.Context(), "sqlite:"+w.ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	must.Do(w.t, db.Write(w.t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(w.t.Context(), "UPDATE reservations SET expires_at = 1 WHERE id = $1", id)
		return err
	}))
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

// A reservation that nobody comes back for is filled if its key is here.
func TestExpiredReservationIsFilled(t *testing.T) {
	w := start(t, nil)
	first := w.reserve(signer.Hex())
	later := w.post("/v1/transactions?wait=broadcast&timeout=50s", fmt.Sprintf(`{"chain":1337,"to":%q,"value":1}`, receiver)).transaction(t)
	w.expire(first.ID)
	later = w.get("/v1/transactions/" + later.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if later.Status != txmgr.StatusConfirmed || *later.Nonce != first.Nonce+1 {
		t.Fatalf("behind the filled nonce %d: %+v", first.Nonce, later)
	}
	if list := w.chain.executed(t, signer); len(list) != 2 || *list[0].To() != signer {
		t.Fatalf("on the chain: %v", list)
	}
}

// One of a key that only its caller holds is told of, and given out again; late bytes of
// the first holder are refused.
func TestExpiredReservationIsTold(t *testing.T) {
	w := start(t, nil)
	told := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	defer hook.Close()
	if a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["nonce.gap"]}`, hook.URL)); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	raw := func(nonce uint64, value int64, reservation string) answer {
		return w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q,"reservation":%q}`, signed(nonce, value), reservation))
	}
	lost, used := w.reserve(callerSigner.Hex()), w.reserve(callerSigner.Hex())
	above := raw(used.Nonce, 1, used.ID).transaction(t)
	w.expire(lost.ID)
	var gap struct {
		Type, Subject string
		Data          struct {
			Chain, Signer string
			Nonce         uint64
		}
	}
	select {
	case body := <-told:
		answer{body: body}.into(t, &gap)
	case <-time.After(5 * time.Minute):
		t.Fatal("nobody was told of the gap")
	}
	if gap.Type != "nonce.gap" || gap.Data.Chain != "1337" || gap.Data.Signer != callerSigner.Hex() || gap.Data.Nonce != lost.Nonce {
		t.Errorf("told %+v", gap)
	}
	again := w.reserve(callerSigner.Hex())
	if again.Nonce != lost.Nonce || again.ID == lost.ID {
		t.Fatalf("the nonce %d was not given out again: %+v", lost.Nonce, again)
	}
	if a := raw(lost.Nonce, 2, lost.ID); a.status != http.StatusConflict || a.code(t) != "NO_RESERVATION" {
		t.Errorf("late bytes: %d %s", a.status, a.body)
	}
	raw(again.Nonce, 3, again.ID).transaction(t)
	w.get("/v1/transactions/" + above.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if list := w.chain.executed(t, callerSigner); len(list) != 2 || list[0].Value().Int64() != 3 || list[1].Value().Int64() != 1 {
		t.Errorf("on the chain: %v", list)
	}
}

// The caller of a transaction that does not move is told which nonce it is and what a
// replacement needs; the replacement is mined in its place.
func TestStuckTransactionIsTold(t *testing.T) {
	w := start(t, func(c *service.Config) {
		c.Manager.BumpAfter, c.Manager.CancelAfter = envx.Millis(time.Millisecond), envx.Millis(time.Hour)
		c.Manager.ResendAfter = envx.Millis(time.Hour) // each offer makes a block, and each block lowers the base fee: soon it would be mined
	})
	told := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	defer hook.Close()
	if a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["tx.stuck"]}`, hook.URL)); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	raw := func(tx string) api.Transaction {
		return w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q}`, tx)).transaction(t)
	}
	poor := raw(signedFor(0, 7, 1e6)) // less than the base fee
	var stuck struct {
		Type, Subject string
		Data          struct {
			ID    string
			Nonce *uint64
			Needs struct{ MaxFeePerGas, MaxPriorityFeePerGas string }
		}
	}
	select {
	case body := <-told:
		answer{body: body}.into(t, &stuck)
	case <-time.After(5 * time.Minute):
		t.Fatal("the caller was not told")
	}
	needs, ok := new(big.Int).SetString(stuck.Data.Needs.MaxFeePerGas, 10)
	if stuck.Data.ID != poor.ID || stuck.Data.Nonce == nil || *stuck.Data.Nonce != 0 || !ok || needs.Int64() <= 1e6 || stuck.Data.Needs.MaxPriorityFeePerGas == "" {
		t.Fatalf("told %+v", stuck)
	}
	age := func() string {
		name := fmt.Sprintf(`txm_signer_oldest_pending_seconds{chain="1337",signer=%q} `, callerSigner.Hex())
		_, value, _ := strings.Cut(w.get("/metrics").body, name)
		value, _, _ = strings.Cut(value, "\n")
		return value
	}
	w.until("the metric tells how long it has been stuck", func() bool { return age() != "" && age() != "0" })
	better := raw(signedFor(0, 8, needs.Int64()))
	better = w.get("/v1/transactions/" + better.ID + "?wait=confirmed&timeout=50s").transaction(t)
	poor = w.get("/v1/transactions/" + poor.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if better.Status != txmgr.StatusConfirmed || poor.Status != txmgr.StatusReplaced {
		t.Errorf("the replacement is %s, the first %s", better.Status, poor.Status)
	}
	w.until("the metric tells that nothing is stuck", func() bool { return age() == "0" })
	for len(told) > 0 {
		if body := <-told; strings.Contains(body, poor.ID) {
			t.Errorf("the caller was told again: %s", body)
		}
	}
	if list := w.chain.executed(t, callerSigner); len(list) != 1 || list[0].Value().Int64() != 8 {
		t.Errorf("on the chain: %v", list)
	}
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
