package bench

import (
	"encoding/json"
	"math"
	"math/bits"
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

// Add counts everything that other has recorded.
func (h *Histogram) Add(other *Histogram) { h.all, h.sorted = append(h.all, other.all...), false }

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

// A HistogramBar is a bar of a Histogram, one per power of two.
type HistogramBar struct {
	UpTo  time.Duration // inclusive
	Count uint64
}

// Bars returns the bars from the first to the last that are not empty. What is below 128 ns has one.
func (h *Histogram) Bars() []HistogramBar {
	const least = 7 // bits
	if len(h.all) == 0 {
		return nil
	}
	octave := func(d time.Duration) int { return max(bits.Len64(uint64(d)), least) }
	first := octave(h.Quantile(0))
	bars := make([]HistogramBar, octave(h.Max())-first+1)
	for i := range bars {
		bars[i].UpTo = 1<<(first+i) - 1
	}
	for _, d := range h.all {
		bars[octave(d)-first].Count++
	}
	return bars
}

type histogramJSON struct {
	Count uint64    `json:"count"`
	P50   float64   `json:"p50_ms"`
	P90   float64   `json:"p90_ms"`
	P99   float64   `json:"p99_ms"`
	Max   float64   `json:"max_ms"`
	Bars  []barJSON `json:"bars,omitempty"`
}

type barJSON struct {
	UpTo  float64 `json:"up_to_ms"`
	Count uint64  `json:"count"`
}

// MarshalJSON writes the count, the quantiles and the bars, times in milliseconds.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	out := histogramJSON{
		Count: h.Count(),
		P50:   millis(h.Quantile(.5)), P90: millis(h.Quantile(.9)),
		P99: millis(h.Quantile(.99)), Max: millis(h.Max()),
	}
	for _, b := range h.Bars() {
		out.Bars = append(out.Bars, barJSON{UpTo: millis(b.UpTo), Count: b.Count})
	}
	return json.Marshal(out)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
