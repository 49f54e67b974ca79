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
}

var garbage []byte
