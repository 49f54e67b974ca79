package fetch

import (
	"context"
	"sync/atomic"
	"time"
)

// headFloor is the highest block that any answer named. No later answer may come from a mirror node that does not
// have it.
type headFloor struct {
	number atomic.Uint64
	seenAt atomic.Int64 // when an answer last named that block, in Unix nanoseconds
}

// saw notes the highest block that an answer named, and whether a caller learns it.
func (h *headFloor) saw(number uint64, told bool) {
	if told {
		raise(&h.number, number)
	}
	if number >= h.number.Load() {
		h.seenAt.Store(time.Now().UnixNano())
	}
}

// lower forgets the blocks above a number.
func (h *headFloor) lower(number uint64) {
	h.number.Store(number)
	h.seenAt.Store(time.Now().UnixNano())
}

// Raise notes a block that later answers must have, though no mirror node named it.
func (f *Fetcher) Raise(number uint64) { f.floor.saw(number, true) }

// ChainReset tells whether the block of the head floor must be gone, because the head was below it for too long:
// a test network can be reset. Then everything known is forgotten.
func (f *Fetcher) ChainReset(ctx context.Context, head uint64) bool {
	hold := f.config.HeadHold.Duration()
	if time.Since(time.Unix(0, f.floor.seenAt.Load())) < hold || head >= f.floor.number.Load() {
		return false
	}
	f.Reset(ctx, head, "no mirror node has shown the newest block for a long time")
	return true
}

// Reset forgets a chain that does not exist any more.
func (f *Fetcher) Reset(ctx context.Context, head uint64, why string) {
	f.log.WarnContext(ctx, "the network was reset: everything known of it is forgotten", "reason", why, "known", f.floor.number.Load(), "head", head)
	f.lowerFloor(head)
}

// lowerFloor forgets the blocks after a block.
func (f *Fetcher) lowerFloor(head uint64) {
	f.floor.lower(head)
	for _, u := range f.upstreams {
		u.head.Store(0)
	}
	f.forget()
}
