package fetch

import (
	"slices"
	"sync"
	"time"
)

const (
	keptTimes   = 128 // maximum, of recent answers of one kind
	neededTimes = 20  // before they show what is usual
	refreshed   = 8   // answers after which the usual time is computed again
	usualShare  = 95  // percent of the answers come in the usual time
)

// latencies are how long a mirror node's recent answers took, by kind of request. A request that another one
// overtook counts with its time until then.
type latencies struct {
	mu     sync.Mutex
	byKind map[string]*times // guarded by mu
}

type times struct {
	recent [keptTimes]time.Duration // a ring
	noted  int
	usual  time.Duration // 0: not known yet
}

// note adds a time.
func (l *latencies) note(kind string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byKind[kind]
	if t == nil {
		if l.byKind == nil {
			l.byKind = make(map[string]*times)
		}
		t = new(times)
		l.byKind[kind] = t
	}
	t.recent[t.noted%keptTimes] = took
	t.noted++
	if t.noted >= neededTimes && (t.usual == 0 || t.noted%refreshed == 0) {
		sorted := slices.Sorted(slices.Values(t.recent[:min(t.noted, keptTimes)]))
		t.usual = max(1, sorted[len(sorted)*usualShare/100])
	}
}

// usual returns the time in which all but the slowest answers come; 0 if there are too few yet.
func (l *latencies) usual(kind string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.byKind[kind]; t != nil {
		return t.usual
	}
	return 0
}

// hedgeDelay is how long a request waits for its answer until it is made again; 0 means for ever.
func (f *Fetcher) hedgeDelay(u *upstream, q Request) time.Duration {
	least, most := f.config.HedgeDelay.Duration(), f.config.HedgeDelayMax.Duration()
	if least == 0 || q.Waits {
		return 0
	}
	return max(least, min(u.latencies.usual(q.Label), most))
}
