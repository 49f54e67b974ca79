package webhooks

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Every result has a series before the first delivery, so that the first one that is given up is a growth.
func TestMetricsStartAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newMetrics().deliveries)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	found := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		found[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	for _, result := range []string{"delivered", "failed", "refused", "dead"} {
		if value, ok := found[result]; !ok || value != 0 {
			t.Errorf("%s: %v (%v)", result, value, ok)
		}
	}
}
