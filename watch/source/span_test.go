package source

import "testing"

// TestSpanGrowsBelowWhatWasRefused: an endpoint that takes a number of blocks at a time is seldom asked for more, and gets to its limit.
func TestSpanGrowsBelowWhatWasRefused(t *testing.T) {
	const queries = 1000
	for _, takes := range []uint64{1, 10, 100, 1000, 9999} {
		e := &endpoint{span: firstSpan}
		refused, covered := 0, uint64(0)
		for range queries {
			if span := e.span; span > takes {
				refused++
				e.shrink(span)
			} else {
				covered += span
				e.grow(10_000)
			}
		}
		if refused > queries/50 || covered < takes*queries*8/10 {
			t.Errorf("%d blocks at a time: %d of %d queries were refused, %d blocks covered", takes, refused, queries, covered)
		}
	}
	// One that was in trouble takes long spans again.
	e := &endpoint{span: 1000}
	e.shrink(1000)
	e.shrink(500)
	for range 150 {
		e.grow(10_000)
	}
	if e.span != 10_000 {
		t.Errorf("the span is %d", e.span)
	}
	if e = (&endpoint{span: 1}); true { // one that takes everything
		for range 30 {
			e.grow(10_000)
		}
	}
	if e.span != 10_000 {
		t.Errorf("the span is %d", e.span)
	}
}
