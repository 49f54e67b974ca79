package fetch

import "sync"

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
