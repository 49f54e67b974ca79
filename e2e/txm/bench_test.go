package txm_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
	"lockstep/txmgr"
)

// The keys of the mnemonic besides the first four.
var moreKeys = []string{
	"47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a", "8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
	"92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e", "4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
}

// bench is one manager at its work.
type bench struct {
	*testing.B
	url string
	c   *caller
}

func startBench(b *testing.B, database string, keys []string) *bench {
	b.Helper()
	chain := startAnvil(b, "--block-time", "1", "--gas-limit", "1000000000")
	url, _ := startMember(b, database, chain, keys, "bench")
	c := newCaller(b, txmNode{Ledger: database, Chain: 31337, URLs: []string{chain.url}})
	until(b, "every signer is owned", func() bool {
		return c.count("SELECT count(*) FROM signer_chains WHERE known") == len(keys) && c.count("SELECT count(*) FROM leases WHERE name LIKE 'txm:%' AND owner <> ''") == len(keys)
	})
	return &bench{b, url, c}
}

// startMember runs a manager in a process.
func startMember(b *testing.B, database string, chain *anvil, keys []string, name string) (string, *harness.Process) {
	b.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(b))
	cmd := exec.Command(harness.Program(b), "txm")
	cmd.Dir = b.TempDir()
	cmd.Env = append(harness.Environment(), "DATABASE_URL="+database, "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS="+strings.Join(keys, ","), "TXM_IN_FLIGHT=20000",
		"TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"), "INSTANCE_ID="+name, "LOG_LEVEL=error")
	p := harness.Run(b, cmd)
	until(b, "the manager is ready", func() bool { return ask("GET", url+"/health/readiness", "", "", nil) == 200 })
	return url, p
}

// takeOver kills one of two managers, which own eight signers together, and measures how long
// it takes until the other one owns those of the dead, and until each of them sends again.
func takeOver(b *testing.B) {
	keys := append(slices.Clone(devKeys), moreKeys...)
	database, chain := pgtest.Start(b).Database(), startAnvil(b, "--block-time", "1")
	_, one := startMember(b, database, chain, keys, "one")
	_, _ = startMember(b, database, chain, keys, "two")
	c := newCaller(b, txmNode{Ledger: database, Chain: 31337, URLs: []string{chain.url}})
	owns := func(name string) int {
		return c.count("SELECT count(*) FROM leases WHERE name LIKE 'txm:%' AND owner LIKE $1", name+"/%")
	}
	var taken, owned, sent []float64
	for b.Loop() {
		until(b, "both own signers", func() bool { return owns("one") > 0 && owns("one")+owns("two") == len(keys) })
		var orphans []string
		for _, key := range keys {
			signer := strings.ToLower(keyOf(key).Account())
			if c.count("SELECT count(*) FROM leases WHERE name = $1 AND owner LIKE 'one/%'", "txm:31337:"+signer) == 1 {
				orphans = append(orphans, signer)
			}
		}
		killed := time.Now()
		one.Kill()
		var ids []string
		for _, signer := range orphans {
			ids = append(ids, c.must(func(r *txmgr.Request) { r.Pin = signer }).ID)
		}
		until(b, "the other one owns all", func() bool { return owns("two") == len(keys) })
		owned = append(owned, time.Since(killed).Seconds())
		last := 0
		for _, id := range ids {
			until(b, "it has left", func() bool { return c.count("SELECT first_sent FROM intents WHERE id = $1", id) > 0 })
			last = max(last, c.count("SELECT first_sent FROM intents WHERE id = $1", id))
		}
		sent = append(sent, time.UnixMicro(int64(last)).Sub(killed).Seconds())
		taken = append(taken, float64(len(orphans)))
		c.settled()
		_, one = startMember(b, database, chain, keys, "one")
	}
	b.ReportMetric(slices.Max(taken), "signers")
	b.ReportMetric(slices.Max(owned), "owned-max-s")
	b.ReportMetric(slices.Max(sent), "sent-max-s")
	b.ReportMetric(slices.Max(sent)/10, "leases") // of 10 s, the default
}

func (b *bench) payload() map[string]any {
	return map[string]any{"chain": 31337, "to": counter, "data": "0x" + hex.EncodeToString(topic()), "gas": "60000", "simulate": "off"}
}

// post hands a body over; all of the calls here must be taken.
func (b *bench) post(path string, body any) {
	b.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.Error(err)
	}
	if status := ask("POST", b.url+path, string(text), "", nil); status/100 != 2 {
		b.Errorf("%s: %d", path, status)
	}
}

// each is how many intents one round of rate offers.
const each = 4000

// rate offers everything at once and measures until the last has left. It returns how many left in a
// second, in the last round.
func (b *bench) rate(batch int) (perSecond float64) {
	for b.Loop() {
		before := b.c.count("SELECT coalesce(max(seq), 0) FROM intents")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range each / 8 / batch {
					list := make([]map[string]any, batch)
					for i := range list {
						list[i] = b.payload()
					}
					if batch == 1 {
						b.post("/v1/transactions", list[0])
					} else {
						b.post("/v1/transactions/batch", list)
					}
				}
			})
		}
		all.Wait()
		within(b, 5*time.Minute, "all have left", func() bool {
			return b.c.left(before)
		})
		// By the ledger's own clock, from the first acceptance to the last send.
		taken := b.c.count("SELECT max(first_sent) - min(accepted_at) FROM intents WHERE seq > $1", before)
		perSecond = each / (float64(taken) / 1e6)
		b.ReportMetric(perSecond, "tx/s")
		b.c.settledWithin(5 * time.Minute)
	}
	return perSecond
}

// writes is what a database has written.
type writes struct{ commits, rows, bytes, syncs int64 }

func (w writes) since(before writes) writes {
	return writes{w.commits - before.commits, w.rows - before.rows, w.bytes - before.bytes, w.syncs - before.syncs}
}

// writesOf asks PostgreSQL what it has written. A session tells its part when it has been idle for
// a while, so this waits until the figures stand still.
func writesOf(b *testing.B, database string) (w writes) {
	b.Helper()
	db := openPlain(b, database)
	until(b, "the figures of the database stand still", func() bool {
		before := w
		must.Do(b, db.QueryRowContext(b.Context(), `SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
			(SELECT sum(n_tup_ins + n_tup_upd)::bigint FROM pg_stat_user_tables), wal_bytes::bigint, wal_sync FROM pg_stat_wal`).Scan(&w.commits, &w.rows, &w.bytes, &w.syncs))
		return w.since(before).rows < 100 // the manager has work of its own every moment
	})
	return w
}

func openPlain(b *testing.B, database string) *sql.DB {
	b.Helper()
	db := must.Get(sql.Open("pgx", database))(b)
	b.Cleanup(func() { _ = db.Close() })
	return db
}

// bare measures how fast the same server takes the same number of rows with the same number of
// bytes in as many synced transactions as the manager needed for its intents, when a program does nothing else
// and each statement writes all rows of its transaction. The manager's rate is a part of that.
func (b *bench) bare(database string, w writes, perSecond float64) {
	const writers = 4
	intents := float64(b.N * each)
	commits := max(w.syncs, 1)
	rows := max(w.rows/commits, 1)
	body := strings.Repeat("x", int(max(w.bytes/max(w.rows, 1), 1)))
	db := openPlain(b.B, database)
	must.Get(db.ExecContext(b.Context(), "CREATE TABLE bare (id bigserial PRIMARY KEY, body text NOT NULL)"))(b)
	began := time.Now()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range commits / writers {
				if _, err := db.ExecContext(b.Context(), "INSERT INTO bare (body) SELECT $1 FROM generate_series(1, $2)", body, rows); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	bare := intents / time.Since(began).Seconds()
	b.ReportMetric(float64(w.rows)/intents, "rows/tx")
	b.ReportMetric(float64(w.bytes)/intents/1e3, "wal-kB/tx")
	b.ReportMetric(float64(w.syncs)/intents*1e3, "syncs/1000-tx")
	b.ReportMetric(bare, "bare-tx/s")
	b.ReportMetric(perSecond/bare, "of-bare")
}

// left reports whether every intent above a number has left.
func (c *caller) left(above int) bool {
	return c.count("SELECT count(*) FROM (SELECT 1 FROM intents WHERE seq > $1 AND first_sent = 0 LIMIT 1) AS waiting", above) == 0
}

// BenchmarkManager measures how fast intents leave that are accepted over HTTP, 100 in a call
// and one in a call, with one signer and with eight, on both ledgers.
func BenchmarkManager(b *testing.B) {
	all := append(slices.Clone(devKeys), moreKeys...)
	for _, way := range []struct {
		name  string
		keys  []string
		batch int
	}{{"one_signer/batch_100", all[:1], 100}, {"one_signer/batch_1", all[:1], 1}, {"eight_signers/batch_100", all, 100}} {
		b.Run("postgres/"+way.name, func(b *testing.B) {
			database := pgtest.Start(b).Database()
			bench := startBench(b, database, way.keys)
			before := writesOf(b, database)
			perSecond := bench.rate(way.batch)
			bench.bare(database, writesOf(b, database).since(before), perSecond)
		})
		b.Run("sqlite/"+way.name, func(b *testing.B) {
			startBench(b, "sqlite:"+filepath.Join(b.TempDir(), "ledger.db"), way.keys).rate(way.batch)
		})
	}
	b.Run("postgres/take_over", takeOver)
	b.Run("postgres/latency_at_200", func(b *testing.B) { startBench(b, pgtest.Start(b).Database(), all[:1]).latency() })
}

// latency offers 200 in a second for ten seconds and measures how long a call takes, and how
// long an intent takes from its acceptance to its send.
func (b *bench) latency() {
	const rate, lasts = 200, 10
	for b.Loop() {
		before := b.c.count("SELECT coalesce(max(seq), 0) FROM intents")
		calls := make([]float64, rate*lasts)
		tick := time.NewTicker(time.Second / rate)
		var all sync.WaitGroup
		for n := range calls {
			<-tick.C
			all.Go(func() {
				began := time.Now()
				b.post("/v1/transactions", b.payload())
				calls[n] = time.Since(began).Seconds() * 1e3
			})
		}
		tick.Stop()
		all.Wait()
		within(b, time.Minute, "all have left", func() bool {
			return b.c.left(before)
		})
		var waits []float64
		ctx := context.WithoutCancel(b.Context())
		must.Do(b, b.c.db.Read(ctx, func(tx *ledger.Tx) error {
			return tx.Query(ctx, "SELECT first_sent - accepted_at FROM intents WHERE seq > $1", []any{before}, func(r ledger.Row) error {
				var micros int64
				err := r.Scan(&micros)
				waits = append(waits, float64(micros)/1e3)
				return err
			})
		}))
		slices.Sort(calls)
		slices.Sort(waits)
		b.ReportMetric(calls[len(calls)/2], "api-p50-ms")
		b.ReportMetric(calls[len(calls)*99/100], "api-p99-ms")
		b.ReportMetric(waits[len(waits)/2], "send-p50-ms")
		b.ReportMetric(waits[len(waits)*99/100], "send-p99-ms")
		b.c.settledWithin(time.Minute)
	}
}
