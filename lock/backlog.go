package lock

import (
	runtimemetrics "runtime/metrics"
	"sync"
	"time"
)

// backlog tells whether this process is behind with its work: goroutines are ready to run,
// and no processor has got round to them. Some of them may be about to read requests that
// arrived long ago. How Go wakes connections that became readable together, and how the
// system divides processors between threads, leaves their order to chance.
type backlog struct {
	ready func() uint64 // how many goroutines could run and do not

	mu   sync.Mutex
	at   time.Duration // when they were last counted
	calm int           // counts in a row that found none
}

const (
	sampleInterval = time.Millisecond
	calmSamples    = 2 // since one may fall between two batches of requests
)

func newBacklog() *backlog {
	return &backlog{ready: readyGoroutines, calm: calmSamples}
}

func readyGoroutines() uint64 {
	s := []runtimemetrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	runtimemetrics.Read(s)
	if s[0].Value.Kind() != runtimemetrics.KindUint64 {
		return 0 // the runtime does not say
	}
	return s[0].Value.Uint64()
}

// behind counts unless the last count is fresh. Once a process was behind, it is so until
// some counts in a row have found nothing.
func (b *backlog) behind(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := now - b.at
	if since < sampleInterval && b.at != 0 {
		return b.calm < calmSamples
	}
	if since > 10*sampleInterval {
		b.calm = calmSamples
	}
	b.at = now
	if b.ready() > 0 {
		b.calm = 0
	} else {
		b.calm++
	}
	return b.calm < calmSamples
}
