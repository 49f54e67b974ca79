package rpc

import (
	"sync"

	"lockstep/internal/relay/capacity"
)

// Event is what subscribers are notified of. All who subscribed to the same get one Event and share its bytes. These
// count once, from the first notification that waits until the last one is written: a block told to 100,000 listeners is
// as much memory as one told to a single one.
type Event struct {
	result []byte

	mu      sync.Mutex
	waiting int // notifications of it that are not written yet; guarded by mu
}

// NewEvent makes the event of a result, which is JSON and must not be changed any more.
func NewEvent(result []byte) *Event { return &Event{result: result} }

// Result returns the result. It must not be changed.
func (e *Event) Result() []byte { return e.result }

// hold counts one more notification. It returns false if there is no memory for it.
func (e *Event) hold(h *capacity.Holding) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := frameCost
	if e.waiting == 0 {
		bytes += len(e.result)
	}
	if h.Take(bytes) != nil {
		return false
	}
	e.waiting++
	return true
}

// release counts one less.
func (e *Event) release(h *capacity.Holding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := frameCost
	if e.waiting--; e.waiting == 0 {
		bytes += len(e.result)
	}
	h.Give(bytes)
}
