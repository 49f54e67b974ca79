package mirror

import "sync"

// walk notices that blocks are asked for one after the other, as indexers do, possibly
// several at once.
type walk struct {
	mu    sync.Mutex
	last  uint64 // guarded by mu; the block that was asked for last
	steps int    // guarded by mu; in a row
}

const (
	stride    = 32 // how much further a step goes at most
	manySteps = 2  // are taken for a walk
)

// step notes that a block is asked for, and tells whether that is part of a walk.
func (w *walk) step(number uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ahead := number - w.last; {
	case number == w.last:
	case number > w.last && ahead <= stride:
		w.steps++
	case number < w.last && w.last-number <= stride: // overtaken by the one after it
		return w.steps >= manySteps
	default:
		w.steps = 0
	}
	w.last = number
	return w.steps >= manySteps
}
