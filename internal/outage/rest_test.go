package outage

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An upstream that failed is asked last, for longer with each failure, until it answers.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &Rest{}, &Rest{}
		first := func() *Rest { return Order([]*Rest{a, b})[0] }
		if first() != a {
			t.Error("who has not failed rests")
		}
		var rests []time.Duration
		for range 9 {
			for range 8 { // questions that were under way together
				a.Failed()
			}
			begun := time.Now()
			for first() == b {
				time.Sleep(250 * time.Millisecond) //nolint:forbidigo // fake time
			}
			rests = append(rests, time.Since(begun))
		}
		const s = time.Second
		if want := []time.Duration{s / 4, s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}; !slices.Equal(rests, want) {
			t.Errorf("it rested %v, want %v", rests, want)
		}
		a.Failed()
		if a.Well(); first() != a {
			t.Error("who answers rests")
		}
	})
}
