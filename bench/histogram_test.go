package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every quantile is within 1 % of the exact one, at any magnitude and shape.
func TestHistogramAccuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() time.Duration{
		"nanoseconds":     func() time.Duration { return time.Duration(r.IntN(300)) },
		"uniform":         func() time.Duration { return time.Duration(r.IntN(int(time.Second))) },
		"exponential":     func() time.Duration { return time.Duration(r.ExpFloat64() * float64(20*time.Millisecond)) },
		"many magnitudes": func() time.Duration { return time.Duration(math.Exp(r.Float64() * 43)) },
		"constant":        func() time.Duration { return 38 * time.Millisecond },
	}
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 10, 10_000} {
			var h Histogram
			values := make([]time.Duration, n)
			for i := range values {
				values[i] = draw()
				h.Record(values[i])
			}
			slices.Sort(values)
			for _, q := range []float64{0, .1, .5, .9, .99, .999, 1} {
				exact := values[max(int(math.Ceil(q*float64(n)))-1, 0)]
				got := h.Quantile(q)
				if diff := math.Abs(float64(got - exact)); diff > .01*float64(exact) {
					t.Errorf("%s, %d records: quantile %v is %v, exactly %v", name, n, q, got, exact)
				}
			}
			if h.Count() != uint64(n) || h.Max() != values[n-1] || h.Quantile(1) != values[n-1] {
				t.Errorf("%s: count %d, max %v, exactly %d, %v", name, h.Count(), h.Max(), n, values[n-1])
			}
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(.5) != 0 || h.Max() != 0 || h.Bars() != nil {
		t.Error("an empty histogram has values")
	}
	h.Record(-time.Second)
	h.Record(math.MaxInt64)
	if h.Quantile(0) != 0 || h.Quantile(1) != math.MaxInt64 || h.Count() != 2 {
		t.Errorf("extremes: %v to %v", h.Quantile(0), h.Quantile(1))
	}
}

func TestHistogramAdd(t *testing.T) {
	var a, b, all Histogram
	a.Add(&b) // nothing to nothing
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		all.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	a.Add(&b)
	a.Add(&Histogram{})
	var c Histogram
	c.Add(&all)
	for _, h := range []*Histogram{&a, &c} {
		if diff := cmp.Diff(&all, h, cmp.AllowUnexported(Histogram{})); diff != "" {
			t.Errorf("sum (-want +got):\n%s", diff)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	// The top of each bucket falls into it, and the next duration into the next bucket.
	for i := range octaves*subCount - 1 {
		top := bucketTop(i)
		if got := bucketOf(top); got != i {
			t.Fatalf("top %d of bucket %d falls into %d", top, i, got)
		}
		if got := bucketOf(top + 1); got != i+1 {
			t.Fatalf("%d falls into bucket %d, want %d", top+1, got, i+1)
		}
	}
}

func TestHistogramJSON(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{100, 200, 200, 1000} {
		h.Record(d)
	}
	bars := []HistogramBar{{UpTo: 127, Count: 1}, {UpTo: 255, Count: 2}, {UpTo: 511}, {UpTo: 1023, Count: 1}}
	if diff := cmp.Diff(bars, h.Bars()); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
	got, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"count":4,"p50_ms":0.0002,"p90_ms":0.001,"p99_ms":0.001,"max_ms":0.001,"bars":[` +
		`{"up_to_ms":0.000127,"count":1},{"up_to_ms":0.000255,"count":2},{"up_to_ms":0.000511,"count":0},{"up_to_ms":0.001023,"count":1}]}`
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	// 200 ns shares its bucket with 201 ns at most.
	if diff := cmp.Diff(b, a, cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= .01*y })); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
