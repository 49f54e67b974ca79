package outage

import (
	"sync"
	"time"
)

// The rest after a failure.
const (
	firstRest = 250 * time.Millisecond
	maxRest   = 30 * time.Second
)

// Rest is the rest that one of several upstreams, any of which will do, has after a failure. It doubles with each
// failure in a row. The zero value rests not.
type Rest struct {
	mu       sync.Mutex
	failures int
	since    time.Time
	until    time.Time
}

// Failed begins a rest. Failures meanwhile are those of questions that were under way with the first, and count as one.
func (r *Rest) Failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.until) {
		return
	}
	if r.failures++; r.failures == 1 {
		r.since = now
	}
	r.until = now.Add(min(firstRest<<min(r.failures-1, 10), maxRest))
}

// Well ends the rest.
func (r *Rest) Well() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.since, r.until = 0, time.Time{}, time.Time{}
}

// Until returns when the rest ends, or has ended; zero if the upstream answered last.
func (r *Rest) Until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until
}

// Since returns when the first failure was after which it has not answered; zero if it answered last.
func (r *Rest) Since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// Resting tells whether the upstream is to be asked last.
func (r *Rest) Resting() bool { return time.Now().Before(r.Until()) }

// Order returns upstreams as they should be asked: in the order given, those that rest last.
func Order[U interface{ Resting() bool }](all []U) []U {
	list, tired := make([]U, 0, len(all)), []U(nil)
	for _, u := range all {
		if u.Resting() {
			tired = append(tired, u)
		} else {
			list = append(list, u)
		}
	}
	return append(list, tired...)
}
