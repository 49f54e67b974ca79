package api_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch/watchtest"
)

// scrape reads the metrics of a process.
func (w *world) scrape(url string) map[string]float64 {
	w.t.Helper()
	answer := must.Get(http.Get(url + "/metrics"))(w.t) //nolint:noctx // the process is stopped before the test ends
	defer func() { _ = answer.Body.Close() }()
	return must.Scrape(w.t, string(must.Get(io.ReadAll(answer.Body))(w.t)))
}

// gate is an endpoint that counts the JSON-RPC calls that it is sent. It hands them to a node, if it has one that it
// answers for.
type gate struct {
	calls atomic.Int64
	deaf  atomic.Bool // it refuses to look for logs
}

func (g *gate) start(t *testing.T, node string) secret.String {
	return secret.String(watchtest.Proxy(t, node, func(c *watchtest.Call) {
		g.calls.Add(1)
		if node == "" || g.deaf.Load() && c.Method == "eth_getLogs" {
			c.Status = http.StatusBadGateway
			return
		}
		c.Ask()
	}))
}

func (b *book) setFull(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

// A scraper sees what happened, in every metric that docs/METRICS.md has of the watchers.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	w := newWorld(t)
	dead, alive := &gate{}, &gate{}
	w.endpoints = []secret.String{dead.start(t, ""), alive.start(t, w.chain.URL)}
	w.run(approved, released)
	var got map[string]float64
	is := func(series string, want float64) {
		t.Helper()
		w.until(fmt.Sprintf("%s is %v", series, want), func() (bool, string) {
			got = w.scrape(w.url)
			return got[series] == want, fmt.Sprint(got[series])
		})
	}
	chain := fmt.Sprintf(`{chain="%d"}`, watchtest.ChainID)
	// Where the head has stood for ten seconds, the blocks that are due count as lag. A slow machine can take that long to look.
	lag := "watch_lag_blocks" + chain
	caughtUp := func() {
		t.Helper()
		newest := time.Now()
		w.until("all blocks are read", func() (bool, string) {
			if time.Since(newest) > 3*time.Second {
				newest = time.Now()
				w.chain.Commit()
			}
			got = w.scrape(w.url)
			return got[lag] == 0, fmt.Sprint(got[lag])
		})
	}

	// Two contracts are announced, and one of them tells something, while the sink takes nothing.
	w.book.setFull(true)
	w.deploy(1)
	w.chain.Commit() // 1
	w.deploy(2)
	w.chain.Commit() // 2
	w.approve(1)
	w.chain.Emit(watchtest.Emitter(1), released, watchtest.Word(watchtest.Emitter(2))) // the amount is missing
	w.chain.Commit()                                                                   // 3
	w.until("the sink refuses", func() (bool, string) {
		return w.scrape(w.url)[`watch_sink_failures_total{sink="book"}`] > 0, ""
	})
	w.book.setFull(false)
	is("relayer_events_published", 4)

	// Two blocks are replaced by three; the event in them is taken back.
	w.release(2)
	w.chain.Commit() // 4
	is("relayer_events_published", 5)
	w.chain.Reorg(1, true)
	is("relayer_events_published", 6)
	is("watch_reorgs_total", 1)

	// Nobody looks for logs while three blocks come.
	caughtUp()
	alive.deaf.Store(true)
	for range 3 {
		w.chain.Commit()
	}
	w.until("three blocks are not read", func() (bool, string) {
		got = w.scrape(w.url)
		return got[lag] >= 3, fmt.Sprint(got[lag])
	})
	alive.deaf.Store(false)
	caughtUp()

	// What stands in the ledger is read again: two contracts that were announced, and the two logs of one of them.
	is("watch_undecoded_total", 1)
	w.noted()
	if a := w.ask("POST", "/v1/watches/escrows/backfill?from=0"); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	is("event_deduplication_hits", 4)

	is("relayer_escrows_monitored", 2)
	is("total_escrows_registered", 2)
	// What is read ahead and then not needed is given up, perhaps before the endpoint has it.
	const givenUp = 15
	before := float64(dead.calls.Load()) + float64(alive.calls.Load())
	got = w.scrape(w.url)
	calls, after := got["watch_rpc_calls_total"], float64(dead.calls.Load())+float64(alive.calls.Load())
	if before < 5*givenUp || calls < before || calls > after+givenUp {
		t.Errorf("%v calls are counted; the endpoints had %v before and %v after that", calls, before, after)
	}
	if float64(dead.calls.Load()) == 0 {
		t.Error("the dead endpoint was not asked")
	}
	w.book.mu.Lock()
	asked, refused, taken := float64(w.book.asked), float64(w.book.refused), float64(len(w.book.messages))
	w.book.mu.Unlock()
	const some = -1 // any number above zero
	expected := map[string]float64{
		"event_deduplication_hits":               4,
		"leader_election_count":                  1,
		"relayer_blocks_processed":               some,
		"relayer_escrows_monitored":              2,
		"relayer_events_published":               taken,
		"relayer_is_leader":                      1,
		"relayer_last_heartbeat_age":             some,
		"total_active_instances":                 1,
		"total_escrows_registered":               2,
		lag:                                      got[lag], // likewise
		"watch_reorgs_total":                     1,
		"watch_rpc_calls_total":                  some, // it was compared above
		`watch_sink_failures_total{sink="book"}`: refused,
		`watch_sink_seconds_count{sink="book"}`:  asked,
		`watch_sink_seconds_sum{sink="book"}`:    some,
		"watch_undecoded_total":                  1,
		`watch_settled_total{sink="book"}`:       0,
		"watch_repaired_total":                   0,
		"watch_plan_current":                     1,
		"watch_head_age_seconds" + chain:         some,
		"watch_block_seconds" + chain:            some,
		"watch_doubts_total" + chain:             0,
	}
	for series, want := range expected {
		if value, ok := got[series]; !ok || value != want && (want != some || value <= 0) {
			t.Errorf("%s is %v (%v), want %v", series, value, ok, want)
		}
	}
	if head, err := w.chain.Client().BlockNumber(t.Context()); err != nil || got["relayer_blocks_processed"] < float64(head) {
		t.Errorf("%v blocks were read, and the chain has %d: %v", got["relayer_blocks_processed"], head, err)
	}
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if _, ok := expected[series]; !ok {
			t.Errorf("nothing is expected of %s", series)
		}
	}
	for metric, labels := range documented(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(expected)), func(series string) bool {
			name, rest, _ := strings.Cut(series, "{")
			return (name == metric || name == metric+"_count") && (labels == "" || strings.HasPrefix(rest, labels+"="))
		}) {
			t.Errorf("nothing is expected of %s", metric)
		}
	}

	// Another process comes, and goes. The two divide the contracts, and one of them owns the factory.
	second, stop := w.process("b", approved, released)
	w.until("the contracts are divided", func() (bool, string) {
		a, b := w.scrape(w.url), w.scrape(second)
		for series, want := range map[string]float64{"relayer_escrows_monitored": 2, "relayer_is_leader": 1, "total_active_instances": 4, "total_escrows_registered": 4} {
			if a[series]+b[series] != want {
				return false, fmt.Sprint(series, a[series], b[series])
			}
		}
		return true, ""
	})
	stop()
	is("total_active_instances", 1)
	is("relayer_is_leader", 1)
}

// documented reads the metrics of the watchers and their labels in docs/METRICS.md.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/METRICS.md"))(t)
	_, part, _ := strings.Cut(string(text), "\n## The watchers\n")
	part, _, _ = strings.Cut(part, "\n## ")
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(part, -1) {
		found[row[1]] = strings.TrimSpace(row[2])
	}
	if len(found) < 15 {
		t.Fatalf("docs/METRICS.md has %d metrics of the watchers", len(found))
	}
	return found
}
