package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/sleep"
)

// TestPace counts the questions for a chain whose blocks come every two seconds, and how late each block is seen.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 2 * time.Second
		start := time.Now()
		var p pace
		var seen, asked int
		var latest time.Duration
		for seen < 60 {
			sleep.For(t.Context(), p.wait())
			asked++
			block := int(time.Since(start) / interval)
			if block == seen {
				continue
			}
			seen = block
			if block == 20 { // it knows the pace by now
				asked, latest = 0, 0
			}
			latest = max(latest, time.Since(start)-time.Duration(block)*interval)
			p.seen(uint64(block))
		}
		if latest > 60*time.Millisecond {
			t.Errorf("a block was seen %v late", latest)
		}
		if each := float64(asked) / 40; each > 6 {
			t.Errorf("%.1f questions for each block", each)
		}
		t.Logf("%.1f questions for each block, %v late at most", float64(asked)/40, latest)
	})
}
