package app

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/hederachain"
	"lockstep/txmgr/service"
	"lockstep/txmgr/signers"
	"lockstep/watch"
	"lockstep/watch/decode"
)

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
