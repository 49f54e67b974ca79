package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A relay keeps little and throws away much. Left to itself, the garbage collector lets
// the heap grow to twice what is kept, so that under load it runs many times in a second
// and takes a tenth of the processor. While there is load the heap may therefore grow to
// busyHeap before it is collected, and without load everything is as usual, so that an
// idle relay gives the memory back.
const (
	busyHeap  = 64 << 20 // bytes
	busyRate  = 16 << 20 // bytes allocated per second that count as load
	usualGOGC = 100
)

// collect looks after the collector until ctx ends, unless the operator does, with GOGC.
func collect(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(usualGOGC))
	const interval = 500 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last, set := readHeap(), usualGOGC
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := readHeap()
		percent := gcPercent(now.live, float64(now.allocated-last.allocated)/interval.Seconds())
		if percent < set*9/10 || percent > set*11/10 { // each change stops the world for a moment
			debug.SetGCPercent(percent)
			set = percent
		}
		last = now
	}
}

// gcPercent is GOGC for a heap of which live bytes were kept last time, and that
// allocates rate bytes per second.
func gcPercent(live uint64, rate float64) int {
	if rate < busyRate {
		return usualGOGC
	}
	live = max(live, 1<<20)
	return max(usualGOGC, int(busyHeap*100/live)-100)
}

// heap is the state of the heap.
type heap struct {
	live      uint64 // bytes that the last collection left
	allocated uint64 // bytes since the start
}

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return heap{live: samples[0].Value.Uint64(), allocated: samples[1].Value.Uint64()}
}
