package fetch

import (
	"sync"
	"time"
)

// A breaker stops requests to an address that does not answer.
//
//	closed     every request goes through
//	open       after so many failures in a row: none does, for a pause
//	half-open  when the pause is over: one does. If it fails the next pause is longer.
//
// Any success closes it, also of a request that began before it opened. A failure of a request that began before
// the last success says nothing of the time since: after a hang, requests still run out of time when all is well.
type breaker struct {
	limit int           // failures that open it; 0: it never opens
	pause time.Duration // the first one

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	since    time.Time // guarded by mu; of the first of them
	well     time.Time // guarded by mu; of the last success
	until    time.Time // guarded by mu; no request before that while it is open
	last     error     // guarded by mu; the newest failure
	asked    time.Time // guarded by mu; the address wants no request before
	refusal  error     // guarded by mu; the answer that said so
}

// breakerState is the state of a breaker, as its metric shows it.
type breakerState int

const (
	stateClosed breakerState = iota
	stateHalfOpen
	stateOpen
)

// longestPause bounds a later pause, in doublings of the first.
const longestPause = 4

// enter asks to make a request. If none may go through, the error is what went wrong last.
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
	b.until = now.Add(b.length()) // this request is the try; others wait for its result
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

func (b *breaker) succeeded(now time.Time) {
	b.mu.Lock()
	b.failures, b.last, b.well = 0, nil, now
	b.mu.Unlock()
}

// blink is how long failures in a row do not count as an outage yet while the breaker is closed.
const blink = 2 * time.Second

// failed notes the failure of a request that began then, and tells whether the address is out: the breaker is
// open, or nothing but failures came for longer than a blink.
func (b *breaker) failed(began, now time.Time, err error) (out bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began.Before(b.well) {
		return false
	}
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.last = err
	if b.closed() {
		return now.Sub(b.since) > blink
	}
	b.until = now.Add(b.length())
	return true
}

// throttled notes that the address wants no requests for a while.
func (b *breaker) throttled(until time.Time, refusal error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.After(b.asked) {
		b.asked, b.refusal = until, refusal
	}
}

// resumes returns when the address may be asked again after it throttled, and whether nothing else stops requests
// to it.
func (b *breaker) resumes() (at time.Time, well bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked, b.closed()
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

// UpstreamStatus is the state of a mirror node, as far as requests have shown it.
type UpstreamStatus struct {
	Name string // host and port
	Head uint64 // the highest block that it named; 0: none yet
	Err  error  // why one of its addresses takes no requests; nil if all do
}

// Upstreams returns the state of each mirror node, in the order of MIRROR_NODE_URL.
func (f *Fetcher) Upstreams() []UpstreamStatus {
	now := time.Now()
	all := make([]UpstreamStatus, len(f.upstreams))
	for i, u := range f.upstreams {
		all[i] = UpstreamStatus{Name: u.name, Head: u.head.Load()}
		for _, d := range []*address{u.rest, u.web3} {
			if err := d.trouble(now); err != nil {
				all[i].Err = err
			}
		}
	}
	return all
}

// trouble returns what stops requests to an address: its last failure, or its own wish; nil if nothing does.
func (b *breaker) trouble(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.closed():
		return b.last
	case now.Before(b.asked):
		return b.refusal
	}
	return nil
}

// retryBudget bounds repetitions to a share of the requests, because many repetitions would make an outage worse.
// Every request puts its share in; every repetition, change to another mirror node and hedge takes one out.
type retryBudget struct {
	share float64

	mu    sync.Mutex
	spent float64 // guarded by mu; of the reserve
}

// reserve is how many repetitions a quiet relay may spend at once.
const reserve = 20

func (b *retryBudget) deposit() {
	b.mu.Lock()
	b.spent = max(b.spent-b.share, 0)
	b.mu.Unlock()
}

// take tells whether there is enough for a repetition.
func (b *retryBudget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.share == 0 || b.spent+1 > reserve {
		return false
	}
	b.spent++
	return true
}
