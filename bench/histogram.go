package bench

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// A Histogram has durations. The zero value is empty and ready to use; it is not safe for concurrent use.
type Histogram struct {
	all    []time.Duration
	sorted bool
}

// Record counts d; a negative d counts as zero.
func (h *Histogram) Record(d time.Duration) { h.all, h.sorted = append(h.all, max(d, 0)), false }

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return uint64(len(h.all)) }

// Max is the longest duration recorded.
func (h *Histogram) Max() time.Duration { return h.Quantile(1) }

// Quantile returns the duration that the fraction q of the records (0 to 1) does not exceed; 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if len(h.all) == 0 {
		return 0
	}
	if !h.sorted {
		slices.Sort(h.all)
		h.sorted = true
	}
	return h.all[max(int(math.Ceil(q*float64(len(h.all))))-1, 0)]
}

// MarshalJSON writes the count and the quantiles, in milliseconds.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count uint64  `json:"count"`
		P50   float64 `json:"p50_ms"`
		P90   float64 `json:"p90_ms"`
		P99   float64 `json:"p99_ms"`
		Max   float64 `json:"max_ms"`
	}{h.Count(), millis(h.Quantile(.5)), millis(h.Quantile(.9)), millis(h.Quantile(.99)), millis(h.Max())})
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
