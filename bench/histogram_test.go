package bench

import (
	"encoding/json"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(.5) != 0 || h.Max() != 0 {
		t.Error("an empty histogram has values")
	}
	for _, d := range []time.Duration{1000, -time.Second, 200, 300} {
		h.Record(d)
	}
	for q, want := range map[float64]time.Duration{0: 0, .25: 0, .26: 200, .5: 200, .51: 300, .99: 1000, 1: 1000} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	got, err := json.Marshal(&h)
	if want := `{"count":4,"p50_ms":0.0002,"p90_ms":0.001,"p99_ms":0.001,"max_ms":0.001}`; err != nil || string(got) != want {
		t.Errorf("JSON %s, %v; want %s", got, err, want)
	}
}
