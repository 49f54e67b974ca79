package app

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
)

var update = flag.Bool("update", false, "rewrite docs/METRICS.md")

const metricsFile = "../docs/METRICS.md"

var description = regexp.MustCompile(`fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// TestMetricsDocument makes docs/METRICS.md from the metrics' own descriptions and
// compares it with the file.
func TestMetricsDocument(t *testing.T) {
	cfg, err := config.Load([]string{"READ_ONLY=true", `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := New(cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	want := metricsDocument(t, relay.registry)
	if *update {
		if err := os.WriteFile(metricsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/METRICS.md is stale; run `make generate` (-want +got):\n%s", diff)
	}
}

func metricsDocument(t *testing.T, registry *prometheus.Registry) string {
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
		if strings.HasPrefix(m[1], "go_") || strings.HasPrefix(m[1], "rpc_relay_process_") {
			continue
		}
		labels := strings.Join(strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' }), ", ")
		row := fmt.Sprintf("| `%s` | %s | %s |", m[1], labels, strings.ReplaceAll(m[2], `\"`, `"`))
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return "# Metrics\n\nGenerated from the source; `make generate` renews it. `GET /metrics` on the RPC port answers them in Prometheus' text form, besides\n" +
		"`rpc_relay_process_*` and `go_*` of the process itself.\n\n| Metric | Labels | Meaning |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
}
