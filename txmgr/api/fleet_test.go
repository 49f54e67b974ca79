package api_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient/simulated"

	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/service"
	"lockstep/watch/watchtest"
)

// pair starts two managers on one PostgreSQL and one chain.
func pair(t *testing.T, change func(*service.Config)) (one, two *world, database string) {
	t.Helper()
	database = pgtest.Start(t).Database()
	one = start(t, sharing(database, "one", change))
	return one, one.join(sharing(database, "two", change)), database
}

// sharing are the settings of a process that shares a database.
func sharing(database, name string, change func(*service.Config)) func(*service.Config) {
	return func(c *service.Config) {
		c.Ledger.URL, c.Manager.Instance = secret.URL(database), name
		if change != nil {
			change(c)
		}
	}
}

// join starts another manager on the same chain.
func (w *world) join(settings func(*service.Config)) *world {
	w.t.Helper()
	other := &world{t: w.t, chain: w.chain, log: &proctest.Tail{}, client: http.DefaultClient}
	other.run(settings)
	return other
}

// owner returns the instance that owns the signer, "" for none.
func (w *world) owner() string {
	var list struct{ Signers []api.Signer }
	w.get("/v1/signers").into(w.t, &list)
	for _, s := range list.Signers {
		if s.Address == signerName && s.ChainNonce == s.NextNonce && s.Enabled {
			name, _, _ := strings.Cut(s.Owner, "/")
			return name
		}
	}
	return ""
}

// What one process accepts wakes the owner in another one, long before it would look: by PostgreSQL, and by Redis where a pooler
// lets no word of PostgreSQL through.
func TestOwnersElsewhereAreTold(t *testing.T) {
	t.Run("NOTIFY", func(t *testing.T) {
		testTold(t, pgtest.Start(t).Database(), func(*service.Config) {}, func() {})
	})
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		byRedis := func(c *service.Config) { c.Waker.RedisURL = secret.URL(server.URL()) }
		postgres := pgtest.Start(t)
		testTold(t, postgres.Pooled(postgres.Database()), byRedis, func() {
			must.Do(t, server.Client().FlushAll(t.Context()).Err())
		})
	})
}

// testTold lets one process accept before and after a disturbance, while another one owns the signer.
func testTold(t *testing.T, database string, change func(*service.Config), disturb func()) {
	// Whose turn it is to own the signer starts first, and keeps it, however slow the machine is: nobody looks for a lost one before the poll.
	names := []string{"one", "two"}
	if lease.Preferred("txm:1337:"+signerName, names) != names[0] {
		slices.Reverse(names)
	}
	settings := func(c *service.Config) {
		c.Manager.Poll, c.Manager.Lease = envx.Millis(time.Hour), envx.Millis(20*time.Minute)
		change(c)
	}
	owner := start(t, sharing(database, names[0], settings))
	owner.until("the signer is owned", func() bool { return owner.owner() == names[0] })
	other := owner.join(sharing(database, names[1], settings))
	for n := range 2 {
		id := other.post("/v1/transactions", pay(n)).transaction(t).ID
		other.until("it has left", func() bool { return other.get("/v1/transactions/"+id).transaction(t).Hash != "" })
		disturb()
	}
}

// Redis is a waker alone: with it away from the start, and with it killed and empty later, what one process accepts is executed by
// the owner in the other, once, and both stay ready.
func TestWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	database := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	byRedis := func(c *service.Config) { c.Waker.RedisURL = secret.URL(server.URL()) }
	one := start(t, sharing(database, "one", byRedis))
	two := one.join(sharing(database, "two", byRedis))
	n := 0
	both := func(when string) {
		for _, w := range []*world{one, two} {
			n++
			id := w.post("/v1/transactions", pay(n)).transaction(t).ID
			w.until("it is executed "+when, func() bool { return w.get("/v1/transactions/"+id).transaction(t).Status == "confirmed" })
			if a := w.get("/health/readiness"); a.status != http.StatusOK {
				t.Errorf("%s: %d %s", when, a.status, a.body)
			}
		}
	}
	both("before Redis is there")
	server.Restart()
	one.until("Redis wakes it", func() bool { return strings.Contains(one.log.String(), "redis delivers wake-ups again") })
	both("with Redis")
	server.Kill()
	both("after its crash")
	if list := one.chain.executed(t, signer); len(list) != n {
		t.Errorf("%d transactions are on the chain, want %d", len(list), n)
	}
}

// A text that a database cannot store is refused in every place that takes one.
func TestTextsWithNUL(t *testing.T) {
	one, two, _ := pair(t, nil)
	file := start(t, nil)
	const nul = `"\u0000x"`
	for _, w := range []*world{one, two, file} {
		for name, a := range map[string]answer{
			"subject":    w.post("/v1/transactions", `{"chain":1337,"to":"`+receiver+`","subject":`+nul+`}`),
			"order key":  w.post("/v1/transactions", `{"chain":1337,"to":"`+receiver+`","orderKey":`+nul+`}`),
			"batch key":  w.post("/v1/transactions/batch", `[{"chain":1337,"to":"`+receiver+`","idempotencyKey":`+nul+`}]`),
			"a caller's": w.post("/v1/transactions/raw", `{"chain":1337,"rawTx":"`+signed(0, 1)+`","subject":`+nul+`}`),
			"a path":     w.post("/v1/nonces/%00/renew", ""),
			"a query":    w.get("/v1/transactions?idempotencyKey=%00"),
			"no UTF-8":   w.get("/v1/transactions?hash=%ff"),
			"a label":    w.post("/v1/api-keys", `{"role":"admin","label":`+nul+`}`),
			"execute":    w.post("/internal/execute", `{"key":"k","idempotencyKey":`+nul+`,"intent":{"chain":1337,"to":"`+receiver+`"}}`),
		} {
			if a.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		if a := w.post("/v1/kill-switch", `{"scope":"chain/1337","on":true,"reason":`+nul+`}`); a.status != http.StatusOK || !strings.Contains(a.body, `"?x"`) {
			t.Errorf("a reason: %d %s", a.status, a.body)
		}
		w.post("/v1/kill-switch", `{"scope":"chain/1337","on":false}`)
		if a := w.post("/v1/transactions", `{"chain":1337,"to":"`+receiver+`","metadata":{"a":`+nul+`}}`); a.status/100 != 2 {
			t.Errorf("an escaped NUL within metadata is JSON: %d %s", a.status, a.body)
		}
	}
}

// simchain is go-ethereum's own node in this process behind its driver. It mines a block after each batch of sends.
type simchain struct {
	*ethchain.Chain
	node   *simulated.Backend
	mu     sync.Mutex  // one block at a time
	pooled atomic.Bool // what is sent waits for mine
	away   atomic.Bool // the node does not answer
}

func newChain(t *testing.T, funded ...common.Address) *simchain {
	t.Helper()
	alloc := types.GenesisAlloc{}
	for _, a := range funded {
		alloc[a] = types.Account{Balance: new(big.Int).Lsh(big.NewInt(1), 80)}
	}
	node, host := watchtest.Node(t, alloc)
	driver := must.Get(ethchain.New(ethchain.Config{ID: watchtest.ChainID, URLs: []string{"http://" + host}, Depth: new(uint64), InFlight: 64, Dev: new(false)}))(t)
	t.Cleanup(driver.Close)
	return &simchain{Chain: driver, node: node}
}

func (c *simchain) Head(ctx context.Context) (txmgr.Head, error) {
	if c.away.Load() {
		return txmgr.Head{}, errors.New("the node does not answer")
	}
	return c.Chain.Head(ctx)
}

func (c *simchain) Send(ctx context.Context, list []txmgr.Signed) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := c.Chain.Send(ctx, list)
	if !c.pooled.Load() {
		c.node.Commit()
	}
	return errs
}

// mine makes a block of what is in the pool.
func (c *simchain) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node.Commit()
}

// executed are the transactions of an account that are in blocks, by nonce.
func (c *simchain) executed(t *testing.T, account common.Address) []*types.Transaction {
	t.Helper()
	var list []*types.Transaction
	for number := range must.Get(c.node.Client().BlockNumber(t.Context()))(t) + 1 {
		block := must.Get(c.node.Client().BlockByNumber(t.Context(), new(big.Int).SetUint64(number)))(t)
		for _, tx := range block.Transactions() {
			if from := must.Get(types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx))(t); from != account {
				continue
			}
			if tx.Nonce() != uint64(len(list)) {
				t.Errorf("nonce %d after %d transactions", tx.Nonce(), len(list))
			}
			list = append(list, tx)
		}
	}
	return list
}

// abroad sends a transaction that the manager does not know of.
func (c *simchain) abroad(t *testing.T, key string, nonce uint64, to common.Address, wei int64) {
	t.Helper()
	must.Do(t, c.node.Client().SendTransaction(t.Context(), transfer(key, nonce, to, wei, 1e11)))
	c.mine()
}

// transfer is a transaction that pays at most maxFee for a unit of gas.
func transfer(key string, nonce uint64, to common.Address, wei, maxFee int64) *types.Transaction {
	private, err := crypto.HexToECDSA(key)
	if err != nil {
		panic(err) // a constant of these tests
	}
	id := new(big.Int).SetUint64(watchtest.ChainID)
	return types.MustSignNewTx(private, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: big.NewInt(min(1e9, maxFee)), GasFeeCap: big.NewInt(maxFee), Gas: 21000, To: &to, Value: big.NewInt(wei),
	})
}

// silent is another chain, whose node takes every question for its newest block and answers none while that of the first answers.
type silent struct{ *simchain }

func (silent) ID() string { return "1338" }

func (silent) Endpoints() (int, []outage.Failing) {
	return 2, []outage.Failing{{Number: 2, Why: "other_fork", Since: time.Now()}}
}

func (c silent) Head(ctx context.Context) (txmgr.Head, error) {
	if c.away.Load() {
		return c.simchain.Head(ctx)
	}
	<-ctx.Done()
	return txmgr.Head{}, ctx.Err()
}

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

func (w *world) scrape() map[string]float64 { return must.Scrape(w.t, w.get("/metrics").body) }

// A scraper sees what happened to the manager's transactions, in every metric that docs/METRICS.md has of it.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	const some = -1 // any number above zero
	w := start(t, nil)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hook.Close()
	if a := w.post("/v1/webhooks", fmt.Sprintf(`{"url":%q,"events":["tx.confirmed"]}`, hook.URL)); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	const confirmed = "/v1/transactions?wait=confirmed&timeout=50s"
	for range 2 { // the second one is the first
		w.post(confirmed, pay("1000"), "Idempotency-Key", "order-1").transaction(t)
	}
	w.chain.abroad(t, signerKey, 1, common.HexToAddress(receiver), 1)
	second := w.post(confirmed, pay("1001")).transaction(t)
	second = w.get("/v1/transactions/" + second.ID + "?wait=confirmed&timeout=50s").transaction(t)
	if second.Status != "confirmed" {
		t.Fatalf("%+v", second)
	}
	// The second nonce of an account is used, and the first one is not.
	w.reserve(callerName)
	w.reserve(callerName)
	w.post("/v1/transactions/raw", fmt.Sprintf(`{"chain":1337,"rawTx":%q}`, signedFor(1, 7, 1e11))).transaction(t)
	balance := must.Get(w.chain.Balance(t.Context(), signerName))(t)
	wei, _ := new(big.Float).SetInt(balance).Float64()
	ours, callers := fmt.Sprintf(`{chain="1337",signer=%q}`, signerName), fmt.Sprintf(`{chain="1337",signer=%q}`, callerName)
	expected := map[string]float64{
		`txm_endpoint_up{chain="1337",endpoint="1"}`:                      1,
		"txm_idempotency_hits_total":                                      1,
		`txm_intents_total{chain="1337",origin="api",status="confirmed"}`: 2,
		`txm_invalid_nonce_total{chain="1337"}`:                           some,
		"txm_lease_terms_total":                                           some,
		"txm_lease_wait_seconds_count":                                    some,
		`txm_queue_depth{chain="1337"}`:                                   0,
		`txm_send_errors_total{class="`:                                   some,
		"txm_signer_balance_wei" + ours:                                   wei,
		"txm_signer_enabled" + ours:                                       1,
		"txm_signer_nonce_drift" + ours:                                   0, // it was noticed, and made good
		"txm_signer_nonce_gap" + callers:                                  1,
		"txm_signer_nonce_gap" + ours:                                     0,
		"txm_signer_oldest_pending_seconds" + ours:                        0,
		"txm_signer_owned" + ours:                                         1,
		"txm_signer_pending" + ours:                                       0,
		"txm_signer_pending" + callers:                                    2,
		`txm_stage_seconds_count{stage="broadcast"}`:                      some,
		`txm_stage_seconds_count{stage="mined"}`:                          some,
		`txm_webhook_deliveries_total{result="delivered"}`:                2,
		`txm_webhook_deliveries_total{result="dead"}`:                     0,
	}
	for prefix, want := range expected {
		var got float64
		defer func() {
			if t.Failed() {
				t.Logf("%s is %v, want %v", prefix, got, want)
			}
		}()
		w.until(prefix, func() bool {
			got = 0
			for name, value := range w.scrape() {
				if strings.HasPrefix(name, prefix) {
					got += value
				}
			}
			return got == want || want == some && got > 0
		})
	}
	text := must.Get(os.ReadFile("../../docs/METRICS.md"))(t)
	_, part, _ := strings.Cut(string(text), "\n## The transaction manager\n")
	part, _, _ = strings.Cut(part, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(txm_\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(part, -1)
	if len(rows) < 16 {
		t.Fatalf("docs/METRICS.md has %d metrics of the manager", len(rows))
	}
	labels := map[string]string{}
	for _, row := range rows {
		list := strings.Fields(strings.ReplaceAll(row[2], ",", " "))
		slices.Sort(list)
		labels[row[1]] = strings.Join(list, " ")
		if strings.HasPrefix(row[1], "txm_operator_") {
			continue // only chains of Hedera have an operator; cmd/lockstep tries these
		}
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(expected)), func(series string) bool {
			return strings.HasPrefix(series, row[1]+"{") || series == row[1] || strings.HasPrefix(series, row[1]+"_count")
		}) {
			t.Errorf("nothing is expected of %s", row[1])
		}
	}
	for series := range w.scrape() {
		name, rest, _ := strings.Cut(series, "{")
		for _, suffix := range []string{"_count", "_sum"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && labels[base] != "" || base == "txm_lease_wait_seconds" {
				name = base
			}
		}
		var has []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			has = append(has, label[1])
		}
		slices.Sort(has)
		if documented, ok := labels[name]; strings.HasPrefix(name, "txm_") && (!ok || documented != strings.Join(has, " ")) {
			t.Errorf("%s is not as docs/METRICS.md says: %q", series, documented)
		}
	}
}
