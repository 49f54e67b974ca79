package rpc

import (
	"sync"
	"sync/atomic"

	"lockstep/internal/capacity"
)

// Event is what subscribers are notified of. All who subscribed to the same get one Event and share its bytes.
//
// The memory of these bytes counts for each of them by its share, until it has been written. A client that keeps its writer waiting
// may keep the bytes for long after all others have got theirs. So they count whole for one of those clients.
type Event struct {
	result []byte
	share  int // bytes that count for each who gets it

	mu      sync.Mutex
	keepers []*keeper // the bytes count whole for the first one; guarded by mu
	counted bool      // they do; guarded by mu
}

// NewEvent makes the event of a result, which is JSON and must not be changed any more, for a number of sharers.
func NewEvent(result []byte, sharers int) *Event {
	return &Event{result: result, share: len(result)/max(sharers, 1) + 1}
}

// Result returns the result. It must not be changed.
func (e *Event) Result() []byte { return e.result }

// keeper is a client that keeps its writer waiting, with one notification of an event.
type keeper struct {
	place   int               // among the keepers; guarded by the event's mu
	holding *capacity.Holding // of the connection
	over    *atomic.Bool      // of its send queue
}

// keep adds a keeper. The error says that its client holds too much already.
func (e *Event) keep(k *keeper) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.place = len(e.keepers)
	e.keepers = append(e.keepers, k)
	err := e.count(k)
	if err != nil {
		e.keepers[k.place] = nil
		e.keepers = e.keepers[:k.place]
	}
	return err
}

// recount is keep for one that is a keeper already.
func (e *Event) recount(k *keeper) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count(k)
}

// count has the bytes count for a keeper, if they count for nobody; it needs mu.
func (e *Event) count(k *keeper) error {
	if e.counted {
		return nil
	}
	if err := k.holding.Take(len(e.result)); err != nil {
		return err
	}
	first := e.keepers[0]
	e.keepers[0], e.keepers[k.place] = k, first
	first.place, k.place = k.place, 0
	e.counted = true
	return nil
}

// release takes a keeper away. The last one gets its place. If that is the first one then, and its client holds too much already,
// its send queue looks again when it keeps its writer waiting the next time.
func (e *Event) release(k *keeper) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := len(e.keepers) - 1
	last := e.keepers[end]
	e.keepers[k.place], last.place = last, k.place
	e.keepers[end] = nil
	e.keepers = e.keepers[:end]
	if k.place > 0 {
		return
	}
	if e.counted {
		k.holding.Give(len(e.result))
		e.counted = false
	}
	if end > 0 && e.count(last) != nil {
		last.over.Store(true)
	}
}
