package alerts

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// The panel of the budget shows nothing where there is no budget: a relay without one has 0 left of 0.
func TestBudgetPanel(t *testing.T) {
	text, err := os.ReadFile("../../docs/relay-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	tried := 0
	for _, panel := range board.Panels {
		if !strings.HasPrefix(panel.Title, "Left of the budget") {
			continue
		}
		for _, target := range panel.Targets {
			expr := strings.ReplaceAll(target.Expr, "$job", ".*relay.*")
			for series, want := range map[string]int{
				"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 0x5\n rpc_relay_hbar_rate_total_limit{" + relay + "} 0x5":    0,
				"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 0x5\n rpc_relay_hbar_rate_total_limit{" + relay + "} 100x5":  1,
				"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 60x5\n rpc_relay_hbar_rate_total_limit{" + relay + "} 100x5": 1,
			} {
				query, err := engine.NewInstantQuery(t.Context(), promqltest.LoadedStorage(t, series), nil, expr, time.Unix(120, 0))
				if err != nil {
					t.Fatal(err)
				}
				if vector, err := query.Exec(t.Context()).Vector(); err != nil || len(vector) != want {
					t.Errorf("%s has %d results (%v), want %d, on\n%s", expr, len(vector), err, want, series)
				}
				query.Close()
				tried++
			}
		}
	}
	if tried == 0 {
		t.Error("there is no such panel")
	}
}
