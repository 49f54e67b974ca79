package submit

import (
	"context"
	"sync"
)

// tasks is the bounded group of transactions in progress. Each runs to its verdict
// even if its client left; drain waits for them when the process stops. What a client has sent is in memory until then, also when
// its request is over and counts for nobody any more: so the bytes are bounded, too.
type tasks struct {
	limit int

	mu     sync.Mutex
	n      int           // running
	bytes  int           // of their transactions
	closed bool          // drain has begun
	idle   chan struct{} // closed when n falls to 0 after drain has begun
}

// bytesInProgress is the largest number of bytes that all transactions in progress may have. Hundreds of thousands of transfers fit.
const bytesInProgress = 64 << 20

func newTasks(limit int) *tasks { return &tasks{limit: limit, idle: make(chan struct{})} }

// begin takes a place in the group for a transaction of so many bytes; every true must be followed by one end.
func (t *tasks) begin(bytes int) (ok, closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.n >= t.limit || t.bytes+bytes > bytesInProgress {
		return false, t.closed
	}
	t.n++
	t.bytes += bytes
	return true, false
}

func (t *tasks) end(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= bytes
	if t.n--; t.n == 0 && t.closed {
		close(t.idle)
	}
}

// closing tells whether drain has begun.
func (t *tasks) closing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// count returns how many are running.
func (t *tasks) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// drain refuses new tasks and waits for the running ones or the end of ctx. It
// returns how many are still running.
func (t *tasks) drain(ctx context.Context) int {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		if t.n == 0 {
			close(t.idle)
		}
	}
	t.mu.Unlock()
	select {
	case <-t.idle:
	case <-ctx.Done():
	}
	return t.count()
}
