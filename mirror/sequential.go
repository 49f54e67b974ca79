package mirror

import "sync"

// sequential notices that blocks are asked for one after the other, as indexers do, possibly
// several at once.
type sequential struct {
	mu    sync.Mutex
	last  uint64 // guarded by mu; the block that was asked for last
	steps int    // guarded by mu; in a row
}

const (
	stride    = 32 // the maximum length of a step
	manySteps = 2  // steps in a row that count as sequential reads
)

// step notes that a block is asked for, and tells whether this is part of sequential reads.
func (s *sequential) step(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ahead := number - s.last; {
	case number == s.last:
	case number > s.last && ahead <= stride:
		s.steps++
	case number < s.last && s.last-number <= stride: // the request for a later block overtook this one
		return s.steps >= manySteps
	default:
		s.steps = 0
	}
	s.last = number
	return s.steps >= manySteps
}
