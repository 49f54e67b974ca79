package source

import "testing"

// TestSpanGrowsBelowWhatWasRefused: an endpoint that takes a number of blocks at a time is seldom asked for more.
func TestSpanGrowsBelowWhatWasRefused(t *testing.T) {
	const takes, queries = 1000, 200
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
	if refused > queries/20 || covered < takes*queries*8/10 {
		t.Errorf("%d of %d queries were refused, %d blocks covered", refused, queries, covered)
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
