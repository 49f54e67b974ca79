package ethapi

import "time"

// rhythm tells when to look for the next block of a source that answers. Looks are never further apart than the interval. Most chains close
// blocks at an even pace, so a block is due some time after the one before it; around that moment looks are close
// together, and a block is found soon after it came. A chain without an even pace is looked at once in an interval.
type rhythm struct {
	interval time.Duration // between two looks when no block is due

	empty  time.Time     // of the latest look that found nothing
	came   time.Time     // when the latest block came, as far as known: up to one look too early or too late
	period time.Duration // from one block to the next, on average
	even   int           // blocks in a row that came when they were due
}

const (
	// closeLooks is how many looks there are in an interval in which a block is due.
	closeLooks = 8
	// enoughEven is how many blocks have to come evenly before the next one is said to be due.
	enoughEven = 3
	// minIntervals is how many intervals lie between two blocks, at least, for close looks to be worth their price. With a
	// block in four intervals there are six looks instead of four.
	minIntervals = 3
	// smoothing is the weight of the average over the latest gap between two blocks.
	smoothing = 8
)

// step is the time between two looks while a block is due.
func (r *rhythm) step() time.Duration { return r.interval / closeLooks }

// saw notes a look and how many blocks it found.
func (r *rhythm) saw(look time.Time, blocks int) {
	switch {
	case blocks == 0:
		r.empty = look
		return
	case blocks > 1: // a backlog says nothing about the pace
		r.lose()
		return
	}
	came := look
	if look.Sub(r.empty) > r.step()*3/2 {
		came = came.Add(-r.step()) // it came some time before this look: the next one is looked for earlier
	}
	if r.came.IsZero() {
		r.came = came
		return
	}
	gap := came.Sub(r.came)
	r.came = came
	if (gap - r.period).Abs() > r.interval { // a look that is not close tells a gap no better than this
		r.period, r.even = gap, 0
		return
	}
	r.period += (gap - r.period) / smoothing
	r.even++
}

// lose forgets the pace, after a failure or a backlog.
func (r *rhythm) lose() { *r = rhythm{interval: r.interval} }

// next returns when to look again after a look.
func (r *rhythm) next(look time.Time) time.Time {
	usual := look.Add(r.interval)
	if r.even < enoughEven || r.period < minIntervals*r.interval {
		return usual
	}
	due := r.came.Add(r.period)
	first := due.Add(-2 * r.step())
	switch {
	case !usual.After(first):
		return usual
	case look.Before(first):
		return first
	case look.Before(due.Add(r.interval)):
		return look.Add(r.step())
	default: // it is late: the chain has changed its pace, or stands still
		return usual
	}
}
