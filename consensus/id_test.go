package consensus

import (
	"sync"
	"testing"
	"time"

	"lockstep/internal/hedera"
)

func TestIDsAreUnique(t *testing.T) {
	s := newIDSource()
	const workers, each = 16, 20_000
	drawn := make([][]hedera.TransactionID, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				id, skew := s.next(hedera.Entity(2), time.Now())
				drawn[w] = append(drawn[w], id)
				if i%5000 == 4999 { // the clock steps to and fro, and another process gets in the way
					s.adjust(skew, w%2 == 0)
					s.collided()
				}
			}
		})
	}
	group.Wait()
	seen := make(map[hedera.TransactionID]bool, workers*each)
	for _, ids := range drawn {
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s was drawn twice", id)
			}
			seen[id] = true
		}
	}
}

// TestLastDigitsDoNotRepeat: they are what keeps ids apart when the clock goes back.
func TestLastDigitsDoNotRepeat(t *testing.T) {
	for range 50 {
		s := newIDSource()
		seen := make(map[int64]bool, idStride)
		for range idStride {
			s.collided()
			seen[s.digit] = true
		}
		if len(seen) != idStride {
			t.Fatalf("a hop of %d visits %d of %d", s.hop, len(seen), idStride)
		}
	}
}

func TestIDStart(t *testing.T) {
	s := newIDSource()
	now := time.Unix(1_700_000_000, 5)
	lag := func() time.Duration {
		id, _ := s.next(hedera.Entity(2), now)
		return now.Sub(id.ValidStart.Time()).Truncate(time.Second)
	}
	if got := lag(); got != 4*time.Second { // the last digits move it up to 10 µs later
		t.Errorf("the valid start lies %v back", got)
	}
	s.adjust(0, false)
	s.adjust(0, false) // about an id drawn before the first: does not count
	if got := lag(); got != 49*time.Second {
		t.Errorf("after one start in the future it lies %v back", got)
	}
	for range 100 {
		_, skew := s.next(hedera.Entity(2), now)
		s.adjust(skew, true)
	}
	if got := lag(); got != -(maxSkew - startLead) {
		t.Errorf("after many expired starts it lies %v back", got)
	}
}
