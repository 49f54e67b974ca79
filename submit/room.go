package submit

import (
	"context"
	"time"

	"lockstep/lock"
)

// Where a sender's transactions may fail, the number of them that are at nodes without a verdict is bounded: if one fails, the network
// refuses those behind it, and the operator pays.

// waitForRoom waits while the lane has so many transactions at nodes without a verdict that e would be one too
// many. It returns false if there is no room in time. waited: something may have changed.
func (s *Submitter) waitForRoom(ctx context.Context, lease *lock.Lease, e *Entry, known *known) (waited, ok bool) {
	if e.way == unordered {
		return false, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
	defer cancel()
	for {
		most := s.maxOpen(ctx, e, *known)
		if most == 0 {
			return waited, true
		}
		decided := lease.Room(most)
		if decided != nil && !waited && time.Since(known.at) >= freshness { // the balance may be enough by now
			s.look(ctx, e, known)
			waited = true
			continue
		}
		if decided == nil {
			return waited, true
		}
		select {
		case <-decided:
			waited = true
		case <-ctx.Done():
			return true, false
		}
		s.look(ctx, e, known)
	}
}

// maxOpen is how many transactions of the sender may be without a verdict, e included; 0: any number.
func (s *Submitter) maxOpen(ctx context.Context, e *Entry, known known) int {
	most := s.ordering.MaxOpen
	if left, charged := s.nonces.Left(ctx, e.tx.From()); charged && (most == 0 || left < most) {
		most = max(left, 1)
	}
	if !s.cfg.SkipLookUps && !s.spendings.covered(e.tx, s.costOf(e.tx, known), known, s.pool.Proven(e.tx.From())) {
		most = 1
	}
	return most
}
