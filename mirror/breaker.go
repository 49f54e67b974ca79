package mirror

import (
	"sync"
	"time"
)

// A breaker keeps requests from an address that does not answer them.
//
//	closed     every request goes through
//	open       after so many failures in a row: none does, for a pause
//	half-open  when the pause is over: one does. If it fails the next pause is longer.
//
// Any success closes it, also of a request that began before it opened.
type breaker struct {
	limit int           // failures that open it; 0: nothing does
	pause time.Duration // the first one

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	until    time.Time // guarded by mu; no request before that while it is open
	last     error     // guarded by mu; the newest failure
	asked    time.Time // guarded by mu; the address asked not to be asked before
	refusal  error     // guarded by mu; how it said so
}

// State is what a breaker is in, as its metric shows it.
type breakerState int

const (
	stateClosed breakerState = iota
	stateHalfOpen
	stateOpen
)

// longestPause is how many times the first pause a later one can be, as a power of two.
const longestPause = 4

// enter asks to make a request. The error is why not: what went wrong last.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.asked) {
		return b.refusal
	}
	if b.closed() {
		return nil
	}
	if now.Before(b.until) {
		return b.last
	}
	b.until = now.Add(b.length()) // this one tries; others wait for what it finds
	return nil
}

// healthy tells whether a request would go through without being a try.
func (b *breaker) healthy(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed() && !now.Before(b.asked)
}

// closed is called with mu held.
func (b *breaker) closed() bool { return b.limit == 0 || b.failures < b.limit }

// length is called with mu held.
func (b *breaker) length() time.Duration {
	return jitter(b.pause << min(max(b.failures-b.limit, 0), longestPause))
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	b.failures, b.last = 0, nil
	b.mu.Unlock()
}

// failed notes a failure and tells whether it has opened the breaker.
func (b *breaker) failed(now time.Time, err error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasClosed := b.closed()
	b.failures++
	b.last = err
	if b.closed() {
		return false
	}
	b.until = now.Add(b.length())
	return wasClosed
}

// throttled notes that the address is not to be asked for a while.
func (b *breaker) throttled(until time.Time, refusal error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.After(b.asked) {
		b.asked, b.refusal = until, refusal
	}
}

// resumes returns when the address may be asked again after it throttled, and whether
// that is all that keeps requests from it.
func (b *breaker) resumes() (at time.Time, well bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked, b.closed()
}

// resting tells whether the address asked not to be asked yet.
func (b *breaker) resting(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.asked)
}

func (b *breaker) state(now time.Time) breakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed() && !now.Before(b.asked):
		return stateClosed
	case now.Before(b.until) || now.Before(b.asked):
		return stateOpen
	default:
		return stateHalfOpen
	}
}
