package watch

import (
	"testing"
	"time"
)

// TestTransactionsFollowTheTimeThatTheyTake: a quick database gets long ones, a slow one short ones.
func TestTransactionsFollowTheTimeThatTheyTake(t *testing.T) {
	for each, want := range map[time.Duration]int{ // for one event
		time.Microsecond: longestCommit, 50 * time.Microsecond: 10_000, 500 * time.Microsecond: 1000, 100 * time.Millisecond: shortestCommit,
	} {
		n := firstCommit
		for range 10 {
			n = pacedCommit(n, n, time.Duration(n)*each)
		}
		if n != want {
			t.Errorf("%v for an event: %d events, not %d", each, n, want)
		}
	}
	if n := pacedCommit(5000, 3, time.Second); n != 5000 {
		t.Errorf("a short transaction made it %d", n)
	}
}
