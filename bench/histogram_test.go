package bench

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(.5) != 0 || h.Max() != 0 || h.Bars() != nil {
		t.Error("an empty histogram has values")
	}
	var rest Histogram
	for _, d := range []time.Duration{1000, -time.Second, 200} {
		h.Record(d)
	}
	rest.Record(300)
	h.Add(&rest)
	h.Add(&Histogram{})
	for q, want := range map[float64]time.Duration{0: 0, .25: 0, .26: 200, .5: 200, .51: 300, .99: 1000, 1: 1000} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	bars := []HistogramBar{{UpTo: 127, Count: 1}, {UpTo: 255, Count: 1}, {UpTo: 511, Count: 1}, {UpTo: 1023, Count: 1}}
	if diff := cmp.Diff(bars, h.Bars()); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
	got, err := json.Marshal(&h)
	want := `{"count":4,"p50_ms":0.0002,"p90_ms":0.001,"p99_ms":0.001,"max_ms":0.001,"bars":[` +
		`{"up_to_ms":0.000127,"count":1},{"up_to_ms":0.000255,"count":1},{"up_to_ms":0.000511,"count":1},{"up_to_ms":0.001023,"count":1}]}`
	if err != nil || string(got) != want {
		t.Errorf("JSON %s, %v; want %s", got, err, want)
	}
	h.Record(math.MaxInt64)
	if bars := h.Bars(); h.Max() != math.MaxInt64 || bars[len(bars)-1].UpTo != math.MaxInt64 || bars[len(bars)-2].Count != 0 {
		t.Errorf("the longest: %v, bars %v", h.Max(), bars)
	}
}
