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

// TestIdlePace counts the questions for a chain that has stopped making blocks: ten a second if they came at once, one in two seconds if they came
// every twelve, so that with those for what is final and for the blocks there is less than one call a second; and as few as the plan wants.
func TestIdlePace(t *testing.T) {
	for _, c := range []struct {
		interval, least time.Duration
		most            int
	}{{30 * time.Millisecond, 0, 105}, {12 * time.Second, 0, 6}, {30 * time.Millisecond, 5 * time.Second, 2}} {
		interval, most := c.interval, c.most
		synctest.Test(t, func(t *testing.T) {
			p := pace{least: c.least}
			for n := range 60 {
				p.seen(uint64(n))
				sleep.For(t.Context(), interval)
			}
			p.seen(60)
			asked := 0
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); asked++ {
				sleep.For(t.Context(), p.wait())
			}
			if asked > most || p.idle() > max(2*time.Second, c.least) { // the latter where blocks are announced
				t.Errorf("%d questions in ten seconds of a chain with blocks every %v", asked, interval)
			}
		})
	}
}
