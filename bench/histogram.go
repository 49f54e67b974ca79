package bench

import (
	"encoding/json"
	"math/bits"
	"time"
)

// The histogram has 2^subBits linear steps per power of two, so a quantile is off by
// less than 1 % at any magnitude.
const (
	subBits  = 7
	subCount = 1 << subBits
	octaves  = 64 - subBits
)

// A Histogram counts durations in logarithmic buckets of constant relative width. Its
// size is fixed whatever it records. The zero value is empty and ready to use; it is
// not safe for concurrent use.
type Histogram struct {
	counts   []uint64
	n        uint64
	min, max time.Duration
}

// Record counts d; a negative d counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	if h.counts == nil {
		h.counts = make([]uint64, octaves*subCount)
		h.min = d
	}
	h.counts[bucketOf(d)]++
	h.n++
	h.min = min(h.min, d)
	h.max = max(h.max, d)
}

// Add counts everything that other has recorded.
func (h *Histogram) Add(other *Histogram) {
	if other.n == 0 {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint64, octaves*subCount)
		h.min = other.min
	}
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.min = min(h.min, other.min)
	h.max = max(h.max, other.max)
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the longest duration recorded, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that the fraction q of the records (0 to 1) does not
// exceed, to within 1 %; 0 when empty. It never leaves the range recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q*float64(h.n) + 0.999999)
	rank = min(max(rank, 1), h.n)
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			return min(max(bucketTop(i), h.min), h.max)
		}
	}
	return h.max
}

func bucketOf(d time.Duration) int {
	v := uint64(d)
	if v < subCount {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*subCount + int(v>>shift) - subCount
}

// bucketTop is the largest duration that falls into bucket i.
func bucketTop(i int) time.Duration {
	if i < subCount {
		return time.Duration(i)
	}
	shift := i/subCount - 1
	return time.Duration(uint64(i%subCount+subCount+1)<<shift - 1)
}

// A HistogramBar is a bar of a Histogram drawn coarsely, one per power of two.
type HistogramBar struct {
	UpTo  time.Duration // inclusive
	Count uint64
}

// Bars returns the bars from the first to the last that are not empty.
func (h *Histogram) Bars() []HistogramBar {
	var bars []HistogramBar
	for i, c := range h.counts {
		octave := 0
		if i >= subCount {
			octave = i / subCount
		}
		for len(bars) <= octave {
			bars = append(bars, HistogramBar{UpTo: bucketTop((len(bars)+1)*subCount - 1)})
		}
		bars[octave].Count += c
	}
	for len(bars) > 0 && bars[len(bars)-1].Count == 0 {
		bars = bars[:len(bars)-1]
	}
	for len(bars) > 0 && bars[0].Count == 0 {
		bars = bars[1:]
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
		Count: h.n,
		P50:   millis(h.Quantile(.5)), P90: millis(h.Quantile(.9)),
		P99: millis(h.Quantile(.99)), Max: millis(h.max),
	}
	for _, b := range h.Bars() {
		out.Bars = append(out.Bars, barJSON{UpTo: millis(b.UpTo), Count: b.Count})
	}
	return json.Marshal(out)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
