package mirrorrest

import (
	"math"
	"slices"
)

// An operator is the comparison in front of a filter's value, as in "gte:17".
type operator uint8

const (
	eq operator = iota
	ne
	gt
	gte
	lt
	lte
)

func parseOperator(text string) (operator, bool) {
	i := slices.Index([]string{"eq", "ne", "gt", "gte", "lt", "lte"}, text)
	return operator(max(i, 0)), i >= 0
}

// Bounds are all filters on one int64 column taken together: a range, both ends
// included, and within it the values asked for with eq (any of them, when there
// are any) and none of those given with ne. Timestamps are nanoseconds, entity
// ids their numbers.
type bounds struct {
	lo, hi  int64
	among   []int64
	without []int64
}

func unbounded() bounds { return bounds{lo: math.MinInt64, hi: math.MaxInt64} }

// add narrows the bounds by one more filter.
func (b *bounds) add(op operator, v int64) {
	switch op {
	case eq:
		b.among = append(b.among, v)
	case ne:
		b.without = append(b.without, v)
	case gt:
		if v == math.MaxInt64 {
			b.hi = math.MinInt64
			return
		}
		b.lo = max(b.lo, v+1)
	case gte:
		b.lo = max(b.lo, v)
	case lt:
		if v == math.MinInt64 {
			b.lo = math.MaxInt64
			return
		}
		b.hi = min(b.hi, v-1)
	case lte:
		b.hi = min(b.hi, v)
	}
}

// span is the smallest range that holds everything the bounds allow; it is empty
// (lo > hi) when they allow nothing.
func (b *bounds) span() (lo, hi int64) {
	lo, hi = b.lo, b.hi
	if len(b.among) > 0 {
		lo, hi = max(lo, slices.Min(b.among)), min(hi, slices.Max(b.among))
	}
	return lo, hi
}

// allows tells whether v passes every filter.
func (b *bounds) allows(v int64) bool { return v >= b.lo && v <= b.hi && b.names(v) }

// names tells whether v passes the filters other than those on the range.
func (b *bounds) names(v int64) bool {
	return !slices.Contains(b.without, v) && (len(b.among) == 0 || slices.Contains(b.among, v))
}

// ends tells whether nothing can follow v, so that a full page is the last one.
func (b *bounds) ends(v int64, desc bool) bool {
	lo, hi := b.span()
	if desc {
		return v <= lo
	}
	return v >= hi
}

// exact tells whether one eq filter pins the column to one value.
func (b *bounds) exact() bool { return len(b.among) == 1 }

// ranged tells whether anything but eq narrows the bounds.
func (b *bounds) ranged() bool { return b.lo != math.MinInt64 || b.hi != math.MaxInt64 }
