package txmgr

import (
	"context"
	"strings"
	"sync"
	"time"

	"lockstep/internal/sleep"
)

// waker tells any number of waiters that something changed. It carries nothing: who is
// woken reads the ledger.
type waker struct {
	mu   sync.Mutex
	done chan struct{}
}

func newWaker() *waker { return &waker{done: make(chan struct{})} }

// next returns a channel that is closed at the next wake. A caller takes it before it reads.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.done)
	w.done = make(chan struct{})
}

// Waker carries hints between processes: something was accepted on a chain. A hint may be
// lost; the poll finds what nobody was told of.
type Waker interface {
	Tell(ctx context.Context, word string) error
	// Listen calls heard for every word until ctx ends. "" says that words may have been lost.
	Listen(ctx context.Context, heard func(word string))
}

// tellPause is the time in which hints become one.
const tellPause = 10 * time.Millisecond

// owners is how those of one chain are told that there may be something to do.
type owners struct {
	*waker               // here
	others chan struct{} // in other processes: there is a hint to send
}

func newOwners() *owners { return &owners{newWaker(), make(chan struct{}, 1)} }

// wakeHere wakes the owners of a chain in this process. The ledger may know chains that have left the settings.
func (m *Manager) wakeHere(chain string) {
	if o := m.owners[chain]; o != nil {
		o.wake()
	}
}

// wakeAll wakes those of every chain.
func (m *Manager) wakeAll() {
	for _, o := range m.owners {
		o.wake()
	}
}

// rouse wakes the owners of a chain in every process.
func (m *Manager) rouse(chain string) {
	m.wakeHere(chain)
	if o := m.owners[chain]; o != nil {
		select {
		case o.others <- struct{}{}:
		default: // a hint is on its way
		}
	}
}

// wakeOthers hands the hints of a chain to the other processes until ctx ends.
func (m *Manager) wakeOthers(ctx context.Context, chain string) error {
	for m.waker != nil {
		select {
		case <-m.owners[chain].others:
		case <-ctx.Done():
			return nil
		}
		// A hint that is lost costs a poll's time; whoever is down finds out elsewhere.
		_ = m.waker.Tell(ctx, chain+" "+m.leases.Owner())
		if !sleep.For(ctx, tellPause) {
			return nil
		}
	}
	return nil
}

// listen wakes the owners here when another process says so.
func (m *Manager) listen(ctx context.Context) error {
	if m.waker == nil {
		return nil
	}
	m.waker.Listen(ctx, func(word string) {
		chain, teller, _ := strings.Cut(word, " ")
		switch {
		case word == "":
			m.wakeAll()
			m.news.wake()
		case teller != m.leases.Owner():
			m.wakeHere(chain)
			m.news.wake()
		}
	})
	return nil
}
