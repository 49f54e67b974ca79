package mirror

import (
	"slices"
	"sync"
	"time"
)

const (
	keptTimes   = 128 // of recent answers of one kind, at most
	neededTimes = 20  // before they say what is usual
	refreshed   = 8   // answers after which what is usual is looked at again
	usualShare  = 95  // percent of the answers that come in the usual time
)

// latencies are how long a mirror node's recent answers took, by kind of request. What
// is not answered because another request was faster counts with the time until then.
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

// usual returns the time in which all but the slowest answers come; 0 if too few came
// so far.
func (l *latencies) usual(kind string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.byKind[kind]; t != nil {
		return t.usual
	}
	return 0
}

// patience is how long a request waits for its answer until it is made again; 0 is for
// ever.
func (c *Client) patience(u *upstream, q request) time.Duration {
	least, most := c.config.HedgeDelay.Duration(), c.config.HedgeDelayMax.Duration()
	if least == 0 || q.waits {
		return 0
	}
	return max(least, min(u.latencies.usual(q.label), most))
}
