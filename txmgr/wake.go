package txmgr

import "sync"

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

// wakers are one waker for each chain.
type wakers struct {
	mu    sync.Mutex
	chain map[string]*waker
}

func newWakers() *wakers { return &wakers{chain: map[string]*waker{}} }

func (w *wakers) of(chain string) *waker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chain[chain] == nil {
		w.chain[chain] = newWaker()
	}
	return w.chain[chain]
}

func (w *wakers) wake(chain string) { w.of(chain).wake() }

func (w *wakers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.chain {
		one.wake()
	}
}

// Wake tells the owners in this process that another one has accepted something. A message
// of Redis or of PostgreSQL may call it; without one the poll finds the intent.
func (m *Manager) Wake(chain string) {
	m.wake.wake(chain)
	m.news.wake()
}
