package app

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"lockstep/config"
	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/hederachain"
	"lockstep/txmgr/service"
	"lockstep/txmgr/signers"
	"lockstep/watch"
	"lockstep/watch/decode"
)

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		live uint64
		rate float64
		want int
	}{
		"idle":                 {8 * mib, 1 * mib, 100},
		"load, small heap":     {8 * mib, 100 * mib, 700},  // 64 of 8 MiB
		"load, tiny heap":      {0, 100 * mib, 6300},       // as if 1 MiB were kept
		"load, half of it":     {32 * mib, 100 * mib, 100}, // twice what is kept, as usual
		"load, large heap":     {1024 * mib, 100 * mib, 100},
		"load, a third of it":  {64 * mib / 3, 100 * mib, 200},
		"barely any load":      {8 * mib, busyRate - 1, 100},
		"just enough for load": {8 * mib, busyRate, 700},
	} {
		if got := gcPercent(test.live, test.rate); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// What the runtime calls its figures can change.
func TestReadHeap(t *testing.T) {
	before := readHeap()
	garbage = make([]byte, 1<<20)
	if after := readHeap(); after.allocated < before.allocated+1<<20 {
		t.Errorf("%d bytes allocated, before a MiB more it was %d", after.allocated, before.allocated)
	}
	if before.resident < before.live {
		t.Errorf("%d bytes are the process's, of which %d are kept", before.resident, before.live)
	}
}

var garbage []byte

// TestMemoryIsGivenBackWhenItIsNotNeeded: after large requests at once, after anything else when
// there is little to do; and not again and again.
func TestMemoryIsGivenBackWhenItIsNotNeeded(t *testing.T) {
	const mib = 1 << 20
	type look struct {
		resident, allocated uint64
		held                int64
		due                 bool
	}
	for name, looks := range map[string][]look{
		"nothing happens":         {{40 * mib, 0, 0, false}, {50 * mib, mib, 0, false}},
		"large requests":          {{200 * mib, 500 * mib, 64 * mib, false}, {200 * mib, 500 * mib, 64 * mib, false}, {200 * mib, 500 * mib, mib, true}},
		"many connections":        {{260 * mib, 300 * mib, 0, false}, {260 * mib, mib, 0, true}},
		"load of small requests":  {{100 * mib, 300 * mib, 0, false}, {100 * mib, 300 * mib, 0, false}},
		"a large request goes on": {{100 * mib, mib, 30 * mib, false}, {100 * mib, mib, 30 * mib, false}},
	} {
		r := releaser{least: 40 * mib}
		for i, l := range looks {
			if due := r.due(heap{resident: l.resident}, l.allocated, l.held); due != l.due {
				t.Errorf("%s, look %d: %v, want %v", name, i, due, l.due)
			}
		}
	}
	// Connections were open while memory was given back last, so nothing tells of their end but their goroutines.
	// A relay that is busy still keeps what they leave: it would ask for the same pages at once.
	r := releaser{least: 240 * mib}
	for i, l := range []struct{ goroutines, allocated uint64 }{{16_000, 0}, {15_000, 0}, {20, 300 * mib}, {20, mib}} {
		if due := r.due(heap{resident: 240 * mib, goroutines: l.goroutines}, l.allocated, 0); due != (i == 3) {
			t.Errorf("look %d: %d goroutines, %d bytes allocated: %v", i, l.goroutines, l.allocated, due)
		}
	}
	if r := (releaser{least: 160 * mib, helped: true}); !r.due(heap{resident: 160 * mib}, mib, 0) {
		t.Error("what helped is not tried again")
	}
}

// The list of nodes follows what the mirror node shows, and an answer that is no list
// changes nothing.
func TestAddressBook(t *testing.T) {
	var fault atomic.Value
	fault.Store(mirrorrest.Fault{})
	chain, err := devnet.New(t.Context(), devnet.Config{
		Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Nodes: 30, // more than a page
		MirrorFault: func(*http.Request) mirrorrest.Fault { return fault.Load().(mirrorrest.Fault) },
	})
	if err != nil {
		t.Fatal(err)
	}
	must.Run(t, chain.Run)

	log := slog.New(slog.DiscardHandler)
	cfg := must.Get(config.Load([]string{"READ_ONLY=true", "HEDERA_NETWORK=testnet", "MIRROR_NODE_URL=" + chain.Mirror()}))(t)
	reader := must.Get(mirror.New(cfg.Mirror, mirror.Options{Log: log}))(t)
	client := must.Get(consensus.New(cfg.Consensus, log))(t)
	defer client.Close()
	book := AddressBook(reader)

	for _, bad := range []mirrorrest.Fault{{Status: 500}, {Drop: true}, {Garbage: true}, {Status: 404}} {
		fault.Store(bad)
		before := len(client.Nodes())
		if err := client.Refresh(t.Context(), book); err == nil || len(client.Nodes()) != before {
			t.Errorf("%+v: error %v, %d nodes of %d", bad, err, len(client.Nodes()), before)
		}
	}
	fault.Store(mirrorrest.Fault{})
	must.Do(t, client.Refresh(t.Context(), book))
	want := chain.Nodes()
	nodes := client.Nodes()
	if len(nodes) != len(want) {
		t.Fatalf("%d nodes, want %d", len(nodes), len(want))
	}
	for _, node := range nodes {
		if len(node.Endpoints) != 1 || want[node.Endpoints[0]] != node.ID.String() {
			t.Errorf("node %s at %v", node.ID, node.Endpoints)
		}
	}
}

func TestBookEntries(t *testing.T) {
	for text, want := range map[string]string{
		"3.4.5.6:50211 3.4.5.6:50212 3.4.5.6:443": "3.4.5.6:50211 3.4.5.6:50212",
		"node.example:5000":                       "node.example:5000",
		"":                                        "",
	} {
		if got := strings.Join(grpcEndpoints(strings.Fields(text)), " "); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	hash := strings.Repeat("5a", 48)
	for text, want := range map[string]string{"": "", "0x": "", hash: hash, "0x" + hash: hash, "0x" + hex.EncodeToString([]byte(hash)): hash} {
		got, err := certHash(text)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%q gives %x, %v", text, got, err)
		}
	}
	for _, bad := range []string{"0x5a", "zz", hash + "5a"} {
		if _, err := certHash(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

type redisReply string

func (r redisReply) Error() string { return string(r) }
func (redisReply) RedisError()     {}

var _ redis.Error = redisReply("")

// Anybody may read why an upstream is out, and learns no address of it.
func TestPublicCausesNameNoAddress(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6379}
	dial := func(err error) error {
		return fmt.Errorf("redis: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: err})
	}
	for want, err := range map[string]error{
		"connection refused":                dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no route to host":                  dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
		"no answer in time":                 dial(context.DeadlineExceeded),
		"the name of its host is not known": dial(&net.DNSError{Err: "no such host", Name: "redis.internal", Server: "10.1.2.1:53", IsNotFound: true}),
		"Redis answers MOVED":               redisReply("MOVED 3999 10.1.2.3:6381"),
		"it does not answer; the log of the relay has the cause": errors.New("tls: 10.1.2.3 is not in the certificate"),
	} {
		if got := publicCause(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

var update = flag.Bool("update", false, "rewrite docs/METRICS.md")

const metricsFile = "../docs/METRICS.md"

var description = regexp.MustCompile(`fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

var constLabel = regexp.MustCompile(`(\w+)="`)

// TestMetricsDocument makes docs/METRICS.md from the metrics' own descriptions and
// compares it with the file.
func TestMetricsDocument(t *testing.T) {
	cfg, err := config.Load([]string{
		`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1",
		"OPERATOR_ID_MAIN=0.0.2", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=" + strings.Repeat("01", 32),
		"USE_ASYNC_TX_PROCESSING=true", "REDIS_ENABLED=true", "REDIS_URL=redis://127.0.0.1:1", // for the promises
		"TX_STATUS_TRACING=true",
	})
	if err != nil {
		t.Fatal(err)
	}
	relay := must.Get(New(cfg, "test", slog.New(slog.DiscardHandler)))(t)
	manager := must.Get(service.New(t.Context(), service.Config{
		Ledger: service.Ledger{URL: "memory:"}, Chains: service.Chains{Chains: `{"1":{"url":["http://127.0.0.1:1"]},"298":{"driver":"hedera"}}`}, Manager: txmgr.Defaults(),
		Signers: signers.Config{Timeout: 1}, API: api.Config{Address: "127.0.0.1:0"},
	}, service.Deps{
		Drivers: map[string]service.Driver{"": func(context.Context, service.Spec) (txmgr.Chain, error) {
			return ethchain.New(ethchain.Config{ID: 1, URLs: []string{"http://127.0.0.1:1"}})
		}, "hedera": func(context.Context, service.Spec) (txmgr.Chain, error) {
			return hederachain.New(hederachain.Config{ID: 298, Log: slog.New(slog.DiscardHandler)}, relay.consensus, relay.mirror)
		}},
		Log: slog.New(slog.DiscardHandler),
	}))(t)
	defer manager.Close()
	db := must.Get(ledger.Open(t.Context(), "memory:"))(t)
	defer db.Close()
	event := must.Get(decode.Parse("Stored(uint256 value)"))(t)
	watchers := must.Get(watch.New(watch.Config{Instance: "test", Plan: watch.Plan{
		Chains:  []watch.Chain{{ID: 1, URLs: []secret.String{"http://127.0.0.1:1"}}},
		Watches: []watch.Watch{{Name: "w", Chain: 1, Addresses: []common.Address{{1}}, Events: []*decode.Signature{event}}},
	}}, watch.Deps{DB: db, Log: slog.New(slog.DiscardHandler)}))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(watchers.Collectors()...)
	want := metricsDocument(t, relay.registry, manager, registry)
	if *update {
		must.Do(t, os.WriteFile(metricsFile, []byte(want), 0o644))
	}
	got := must.Get(os.ReadFile(metricsFile))(t)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/METRICS.md is stale; run `make generate` (-want +got):\n%s", diff)
	}
}

// describer is what has metrics.
type describer interface {
	Describe(to chan<- *prometheus.Desc)
}

func metricsDocument(t *testing.T, relay, manager, watchers describer) string {
	t.Helper()
	return "# Metrics\n\nGenerated from the source; `make generate` renews it. `GET /metrics` on the RPC port answers them in Prometheus' text form, besides\n" +
		"`rpc_relay_process_*` and `go_*` of the process itself.\n[relay-alerts.yml](relay-alerts.yml) has rules for them; [RUNBOOK.md](RUNBOOK.md) says what to do when one fires.\n\n" + metricsTable(t, relay) +
		"\n## The transaction manager\n\n`GET /metrics` on `TXM_ADDRESS` answers these, besides `process_*` and `go_*`; [txm-alerts.yml](txm-alerts.yml) has rules for them. Those that begin\nwith `rpc_relay_` or `rpc_cache_` are there for each chain with the driver hedera.\n\n" +
		metricsTable(t, manager) +
		"\n## The watchers\n\n`GET /metrics` on `WATCH_ADDRESS` answers these, besides `process_*` and `go_*`; [watch-alerts.yml](watch-alerts.yml) has rules for them.\n\n" +
		metricsTable(t, watchers)
}

func metricsTable(t *testing.T, registry describer) string {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	var rows []string
	for d := range descriptions {
		m := description.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		if strings.HasPrefix(m[1], "go_") || strings.HasPrefix(m[1], "rpc_relay_process_") || strings.HasPrefix(m[1], "process_") {
			continue
		}
		names := strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' })
		for _, c := range constLabel.FindAllStringSubmatch(m[3], -1) {
			names = append(names, c[1])
		}
		labels := strings.Join(names, ", ")
		row := fmt.Sprintf("| `%s` | %s | %s |", m[1], labels, strings.ReplaceAll(m[2], `\"`, `"`))
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return "| Metric | Labels | Meaning |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
}

// slowReader takes nothing until it is released.
type slowReader struct {
	*httptest.ResponseRecorder
	writes  chan<- struct{}
	release <-chan struct{}
}

func (s slowReader) Write(text []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(text)
}

// Readers that take their time keep nobody from the metrics, and have no more pages in memory than they may.
func TestSlowReadersOfMetrics(t *testing.T) {
	a := &App{registry: prometheus.NewRegistry(), tracer: new(telemetry.Tracer), memory: capacity.NewMemory(capacity.Config{Limit: 4, Requests: 1, Client: 1, Request: 1})}
	a.registry.MustRegister(collectors.NewGoCollector())
	page := a.metricsPage()
	get := func(w http.ResponseWriter, from string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		page.ServeHTTP(w, r)
	}
	const readers = 1000 // their pages are larger than a megabyte together
	writes, release := make(chan struct{}, readers), make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		w := httptest.NewRecorder()
		all.Go(func() { get(slowReader{w, writes, release}, "192.0.2.1:1") })
	}
	for range readers { // each waits for its reader now
		<-writes
	}
	w := httptest.NewRecorder()
	if get(w, "192.0.2.2:1"); w.Code != http.StatusOK || w.Body.Len() < 1000 {
		t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
	}
	if peak := a.memory.Peak(); peak > 1<<20 {
		t.Errorf("%d bytes were held", peak)
	}
	close(release)
	all.Wait()
	if used := a.memory.Used(); used != 0 {
		t.Errorf("%d bytes are held still", used)
	}
}

// An upstream that stands still holds up nobody who asks for readiness or metrics, but for the first time; the next one to ask is told of it.
func TestALookIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, none := &App{}, errors.New("no answer")
		for i, step := range []struct {
			answers error
			takes   time.Duration
			out     bool
		}{{nil, 2 * time.Second, false}, {none, time.Second, false}, {none, time.Second, true}} {
			start := time.Now()
			a.lookAgain(map[string]func(context.Context) error{upstreamNodes: func(context.Context) error {
				time.Sleep(2 * time.Second) //nolint:forbidigo // fake time
				return step.answers
			}}, time.Second)
			a.upstreams.mu.Lock()
			_, out := a.upstreams.out[upstreamNodes]
			a.upstreams.mu.Unlock()
			if took := time.Since(start); took != step.takes || out != step.out {
				t.Errorf("look %d took %v, nodes are out: %v", i, took, out)
			}
			time.Sleep(4 * time.Second) //nolint:forbidigo // fake time
		}
	})
}
