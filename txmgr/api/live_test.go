package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/secret"
	"lockstep/txmgr/client"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/service"
	"lockstep/txmgr/webhooks"
)

// A reader that breaks off and comes back with the last id misses nothing and gets nothing
// twice.
func TestStreamResumes(t *testing.T) {
	w := start(t, nil)
	read := func(last string, until func(kinds, ids []string) bool) (ids []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/transactions/stream", nil)
		request.Header.Set("Last-Event-ID", last)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("content type %s", got)
		}
		var kinds []string
		at := "" // where the stream says that it is
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				if at == "" && id != last {
					t.Errorf("asked for what is behind %s, the stream begins behind %s", last, id)
				}
				at = id
			}
			if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kinds, ids = append(kinds, kind), append(ids, at)
			}
			if lines.Text() == "" && until(kinds, ids) {
				return ids
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return nil
	}
	w.post("/v1/transactions?wait=confirmed&timeout=50s", pay(1)).transaction(t)
	first := read("0", func(_, ids []string) bool { return len(ids) >= 2 })
	w.post("/v1/transactions?wait=confirmed&timeout=50s", pay(2)).transaction(t)
	confirmed := 0
	rest := read(first[len(first)-1], func(kinds, _ []string) bool {
		confirmed = 0
		for _, k := range kinds {
			if k == "tx.confirmed" {
				confirmed++
			}
		}
		return confirmed >= 2
	})
	all := slices.Concat(first, rest)
	for i, id := range all {
		if id != fmt.Sprint(i+1) {
			t.Fatalf("ids %v", all)
		}
	}
	if a := w.get("/v1/transactions/stream", "Last-Event-ID", "soon"); a.status != 422 {
		t.Errorf("no id: %d", a.status)
	}
}

// The Go client: sends, finds, reads problems.
func TestClient(t *testing.T) {
	w := start(t, nil)
	c := client.New(w.url, "")
	tx, err := c.Send(t.Context(), client.Intent{Chain: "1337", To: receiver, Value: "0x10"}, client.Options{Key: "k", Wait: "confirmed", Timeout: 50 * time.Second})
	if err != nil || tx.Receipt == nil || !tx.Receipt.Success {
		t.Fatalf("%+v, %v", tx, err)
	}
	again, err := c.Get(t.Context(), tx.ID, "")
	if err != nil || again.Hash != tx.Hash {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = c.Send(t.Context(), client.Intent{Chain: "1337", To: receiver, Value: "17"}, client.Options{Key: "k"})
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != "IDEMPOTENCY_KEY_REUSED" || p.Status != 422 {
		t.Errorf("another intent under the key: %v", err)
	}
	if list, err := c.Signers(t.Context(), ""); err != nil || len(list) != 1 || list[0].Address != signerName || !list[0].Ours {
		t.Errorf("signers %+v, %v", list, err)
	}
}

// An intent is told to a webhook, signed and in order, through the running service.
func TestWebhooksTellFates(t *testing.T) {
	w := start(t, nil)
	var mu sync.Mutex
	var types []string
	confirmed := make(chan struct{}, 1)
	var verifier *standard.Webhook
	receiverOf := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("signature: %v", err)
		}
		var e struct {
			Type, Subject string
			Sequence      int
			Data          struct{ ID, Status string }
		}
		answer{body: string(body)}.into(t, &e)
		types = append(types, e.Type)
		if e.Subject != "trader-7" || e.Sequence != len(types) || e.Data.ID == "" {
			t.Errorf("delivery %s", body)
		}
		if e.Type == "tx.confirmed" {
			confirmed <- struct{}{}
		}
	}))
	defer receiverOf.Close()
	var hook webhooks.Webhook
	a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["tx.mined","tx.confirmed","tx.broadcast"]}`, receiverOf.URL))
	if a.into(t, &hook); a.status != 201 || hook.Shown == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	mu.Lock()
	var err error
	if verifier, err = standard.NewWebhook(hook.Shown); err != nil {
		t.Fatal(err)
	}
	mu.Unlock()
	w.post("/v1/transactions", fmt.Sprintf(`{"chain":1337,"to":%q,"subject":"trader-7"}`, receiver)).transaction(t)
	select {
	case <-confirmed:
	case <-time.After(5 * time.Minute):
		t.Fatalf("not told; got %v", types)
	}
	mu.Lock()
	defer mu.Unlock()
	if types[len(types)-1] != "tx.confirmed" {
		t.Errorf("told %v", types)
	}
	if a := w.get("/v1/webhooks/" + hook.ID); strings.Contains(a.body, "whsec_") {
		t.Errorf("the secret is shown again: %s", a.body)
	}
	for _, url := range []string{"http://169.254.169.254/", "http://192.168.0.1/", "http://[fd00::1]/"} {
		if a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q}`, url)); a.status != 422 {
			t.Errorf("a private address: %d %s", a.status, a.body)
		}
	}
}

// /internal/execute: many at once under one idempotency key get one result, different ones
// of one key are executed in order.
func TestExecute(t *testing.T) {
	w := start(t, nil)
	body := func(key, idempotency string, value int) string {
		return fmt.Sprintf(`{"key":%q,"idempotencyKey":%q,"intent":{"chain":1337,"to":%q,"value":%d},"timeout":"50s"}`, key, idempotency, receiver, value)
	}
	var all sync.WaitGroup
	records := make([]answer, 20)
	for i := range records {
		all.Go(func() {
			records[i] = w.post("/internal/execute", body("alice:main", fmt.Sprintf("create:alice:%d", i/10), i/10))
		})
	}
	all.Wait()
	hashes := map[string]int{}
	for i, a := range records {
		var r struct {
			Status, TxHash string
			UpdatedAt      int64
			Outcome        struct {
				ID, Status  string
				BlockNumber uint64
			}
		}
		a.into(t, &r)
		if r.Status != "done" || r.TxHash == "" || r.UpdatedAt == 0 || r.Outcome.BlockNumber == 0 {
			t.Errorf("record %d: %s", i, a.body)
		}
		hashes[r.TxHash]++
	}
	if len(hashes) != 2 || len(w.chain.executed(t, signer)) != 2 {
		t.Errorf("results %v", hashes)
	}
	if a := w.post("/internal/execute", body("alice:main", "create:alice:0", 99)); a.status != 422 || a.code(t) != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("another intent: %d %s", a.status, a.body)
	}
	if a := w.post("/internal/execute", `{"key":"k","intent":{"chain":1337}}`); a.status != 422 {
		t.Errorf("without an idempotency key: %d %s", a.status, a.body)
	}
}

// The kill switch refuses what is new and says so; policies refuse what they do not allow.
func TestKillSwitchAndPolicies(t *testing.T) {
	w := start(t, nil)
	if a := w.post("/v1/kill-switch", `{"scope":"chain/1337","on":true,"reason":"drill"}`); a.status != 200 || !strings.Contains(a.body, "drill") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.post("/v1/transactions", pay(1)); a.status != 503 || a.code(t) != "KILLED" {
		t.Errorf("with the switch on: %d %s", a.status, a.body)
	}
	w.post("/v1/kill-switch", `{"scope":"chain/1337","on":false}`)
	w.post("/v1/transactions?wait=mined&timeout=50s", pay(1)).transaction(t)
	if a := w.post("/v1/kill-switch", `{"scope":"everything","on":true}`); a.status != 422 {
		t.Errorf("no scope: %d", a.status)
	}
	var p policy.Policy
	w.post("/v1/policies", `{"rules":{"maxValue":"10","tenantDailyGas":"200000000000000"}}`).into(t, &p)
	if a := w.post("/v1/transactions", pay(11)); a.status != 403 || a.code(t) != "POLICY" {
		t.Errorf("above the policy's value: %d %s", a.status, a.body)
	}
	sent := 0
	const fixed = `,"gasPrice":2000000000}` // or what they cost would fall with the base fee, and with that as fast as blocks come
	for range 100 {
		a := w.post("/v1/transactions?wait=confirmed&timeout=50s", strings.TrimSuffix(pay(1), "}")+fixed)
		if a.status != 200 {
			if a.status != 403 || a.code(t) != "BUDGET" {
				t.Errorf("%d %s", a.status, a.body)
			}
			break
		}
		sent++
	}
	if sent == 0 || sent == 100 {
		t.Errorf("%d of 100 transactions went through the day's budget", sent)
	}
	w.ask(http.MethodDelete, "/v1/policies/"+p.ID, "")
	w.post("/v1/transactions", pay(11)).transaction(t)
}

// A signer that has little is filled up from the treasury by itself, and one that has enough, but less than it may have, when an
// operator says so; each once at a time.
func TestTreasury(t *testing.T) {
	w := &world{t: t, chain: newChain(t, signer, callerSigner), log: &proctest.Tail{}, client: http.DefaultClient, ledger: filepath.Join(t.TempDir(), "ledger.db")}
	const poorKey, middlingKey = "8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba", "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"
	poor, middling := addressOf(poorKey), addressOf(middlingKey)
	w.chain.abroad(t, callerKey, 0, middling, 2_000_000)
	w.run(func(c *service.Config) {
		c.Signers.Keys = secret.String(signerKey + "," + middlingKey)
		c.Signers.Key = poorKey
		c.Treasury = service.Treasury{Signer: signerName, Below: "1000000", To: "5000000", Every: envx.Millis(time.Hour)}
	})
	has := func(account common.Address) int64 {
		balance := must.Get(w.chain.Balance(t.Context(), account.Hex()))(t)
		return balance.Int64()
	}
	w.until("the poor signer is filled up", func() bool { return has(poor) != 0 })
	path := "/v1/signers/1337/" + middling.Hex() + "/top-up"
	tx := w.post(path, "").transaction(t)
	again := w.post(path, "").transaction(t)
	if again.ID != "" && again.ID != tx.ID {
		t.Errorf("filled up twice: %s and %s", tx.ID, again.ID)
	}
	w.get("/v1/transactions/" + tx.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if has(poor) != 5_000_000 || has(middling) != 5_000_000 || len(w.chain.executed(t, signer)) != 2 {
		t.Errorf("balances %d and %d after %d transactions", has(poor), has(middling), len(w.chain.executed(t, signer)))
	}
	if a := w.post("/v1/signers/1337/"+receiver+"/top-up", ""); a.status != 422 {
		t.Errorf("a stranger is filled up: %d %s", a.status, a.body)
	}
}
