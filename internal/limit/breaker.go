package limit

import (
	"sync"
	"time"
)

// breaker keeps callers off a store that does not answer. Its zero value lets all pass.
type breaker struct {
	mu     sync.Mutex
	open   bool          // guarded by mu, like all here
	pause  time.Duration // of the next wait
	until  time.Time     // then one may try
	trying bool
}

// closed tells whether the caller may ask the store. Whoever may, reports.
func (b *breaker) closed(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return true
	}
	if b.trying || now.Before(b.until) {
		return false
	}
	b.trying = true
	return true
}

// report says whether the store answered.
func (b *breaker) report(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ok:
		b.open, b.trying, b.pause = false, false, 0
	case b.open && !b.trying:
		// one of several that were under way when the first failed
	default:
		b.open, b.trying = true, false
		b.pause = min(max(2*b.pause, shortestPause), longestPause)
		b.until = now.Add(b.pause)
	}
}
