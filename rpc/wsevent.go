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
	if len(e.keepers) == 0 {
		if err := k.holding.Take(len(e.result)); err != nil {
			return err
		}
		e.counted = true
	}
	k.place = len(e.keepers)
	e.keepers = append(e.keepers, k)
	return nil
}

// release takes a keeper away. The last one gets its place. If that is the first one then, and its client holds too much already,
// its connection ends when it keeps its writer waiting the next time.
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
	}
	if e.counted = end > 0 && last.holding.Take(len(e.result)) == nil; end > 0 && !e.counted {
		last.over.Store(true)
	}
}
