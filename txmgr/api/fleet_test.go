package api_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/redistest"
	"lockstep/internal/secret"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
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
	other := &world{t: w.t, chain: w.chain, log: &syncBuffer{}, client: http.DefaultClient}
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
