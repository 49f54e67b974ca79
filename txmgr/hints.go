package txmgr

import (
	"context"
	"strings"
	"sync"
	"time"

	"lockstep/internal/sleep"
)

// Waker carries hints between processes: something was accepted on a chain. A hint may be
// lost; the poll finds what nobody was told of.
type Waker interface {
	Tell(ctx context.Context, word string) error
	// Listen calls heard for every word until ctx ends. "" says that words may have been lost.
	Listen(ctx context.Context, heard func(word string))
}

// tellPause is the time in which hints become one.
const tellPause = 10 * time.Millisecond

// teller collects the chains that other processes are to be told of.
type teller struct {
	mu     sync.Mutex
	chains map[string]bool
	ready  chan struct{}
}

func newTeller() *teller { return &teller{chains: map[string]bool{}, ready: make(chan struct{}, 1)} }

func (t *teller) add(chain string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chains[chain] = true
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

func (t *teller) take() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	chains := t.chains
	t.chains = map[string]bool{}
	return chains
}

// rouse wakes the owners of a chain in every process.
func (m *Manager) rouse(chain string) {
	m.wake.wake(chain)
	m.others.add(chain)
}

// wakeOthers hands the hints to the other processes until ctx ends.
func (m *Manager) wakeOthers(ctx context.Context) error {
	for m.waker != nil {
		select {
		case <-m.others.ready:
		case <-ctx.Done():
			return nil
		}
		for chain := range m.others.take() {
			// A hint that is lost costs a poll's time; whoever is down finds out elsewhere.
			_ = m.waker.Tell(ctx, chain+" "+m.leases.Owner())
		}
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
			m.wake.wakeAll()
			m.news.wake()
		case m.chains[chain] != nil && teller != m.leases.Owner():
			m.Wake(chain)
		}
	})
	return nil
}
