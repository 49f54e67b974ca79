package app

import "testing"

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		live uint64
		rate float64
		want int
	}{
		"idle":                 {8 * mib, 1 * mib, 100},
		"load, small heap":     {8 * mib, 100 * mib, 700},  // 64 of 8 MiB
		"load, tiny heap":      {0, 100 * mib, 6300},       // as if 1 MiB were kept
		"load, half of it":     {32 * mib, 100 * mib, 100}, // twice what is kept, as usual
		"load, large heap":     {1024 * mib, 100 * mib, 100},
		"load, a third of it":  {64 * mib / 3, 100 * mib, 200},
		"barely any load":      {8 * mib, busyRate - 1, 100},
		"just enough for load": {8 * mib, busyRate, 700},
	} {
		if got := gcPercent(test.live, test.rate); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// What the runtime calls its figures can change.
func TestReadHeap(t *testing.T) {
	before := readHeap()
	garbage = make([]byte, 1<<20)
	if after := readHeap(); after.allocated < before.allocated+1<<20 {
		t.Errorf("%d bytes allocated, before a MiB more it was %d", after.allocated, before.allocated)
	}
	if before.resident < before.live {
		t.Errorf("%d bytes are the process's, of which %d are kept", before.resident, before.live)
	}
}

var garbage []byte

// TestMemoryIsGivenBackWhenItIsNotNeeded: after large requests at once, after anything else when
// there is little to do; and not again and again.
func TestMemoryIsGivenBackWhenItIsNotNeeded(t *testing.T) {
	const mib = 1 << 20
	type look struct {
		resident, allocated uint64
		held                int64
		due                 bool
	}
	for name, looks := range map[string][]look{
		"nothing happens":         {{40 * mib, 0, 0, false}, {50 * mib, mib, 0, false}},
		"large requests":          {{200 * mib, 500 * mib, 64 * mib, false}, {200 * mib, 500 * mib, 64 * mib, false}, {200 * mib, 500 * mib, mib, true}},
		"many connections":        {{260 * mib, 300 * mib, 0, false}, {260 * mib, mib, 0, true}},
		"load of small requests":  {{100 * mib, 300 * mib, 0, false}, {100 * mib, 300 * mib, 0, false}},
		"a large request goes on": {{100 * mib, mib, 30 * mib, false}, {100 * mib, mib, 30 * mib, false}},
	} {
		r := releaser{least: 40 * mib}
		for i, l := range looks {
			if due := r.due(heap{resident: l.resident}, l.allocated, l.held); due != l.due {
				t.Errorf("%s, look %d: %v, want %v", name, i, due, l.due)
			}
		}
	}
	// Connections were open while memory was given back last, so nothing tells of their end but their goroutines.
	// A relay that is busy still keeps what they leave: it would ask for the same pages at once.
	r := releaser{least: 240 * mib}
	for i, l := range []struct{ goroutines, allocated uint64 }{{16_000, 0}, {15_000, 0}, {20, 300 * mib}, {20, mib}} {
		if due := r.due(heap{resident: 240 * mib, goroutines: l.goroutines}, l.allocated, 0); due != (i == 3) {
			t.Errorf("look %d: %d goroutines, %d bytes allocated: %v", i, l.goroutines, l.allocated, due)
		}
	}
	if r := (releaser{least: 160 * mib, helped: true}); !r.due(heap{resident: 160 * mib}, mib, 0) {
		t.Error("what helped is not tried again")
	}
}
