package lock

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// LaneInfo shows one sender's lane as this process sees it.
type LaneInfo struct {
	Sender   common.Address `json:"sender"`
	Strategy string         `json:"strategy"`           // what decides the order now: "redis" or "local"
	Waiting  int            `json:"waiting"`            // tickets of this process that wait
	Nonces   []uint64       `json:"nonces,omitempty"`   // of those, in order; the first 100
	Held     bool           `json:"held"`               // whether a ticket of this process has the turn
	HeldBy   string         `json:"heldBy,omitempty"`   // instance of another process that has it, when last heard of
	Nonce    uint64         `json:"nonce,omitempty"`    // of the holder
	Session  string         `json:"session,omitempty"`  // of the holder, as Redis knows it
	Fence    uint64         `json:"fence,omitempty"`    // of the turn
	HeldFor  time.Duration  `json:"heldFor,omitempty"`  // nanoseconds
	Left     time.Duration  `json:"left,omitempty"`     // nanoseconds until the hold limit
	Expected *uint64        `json:"expected,omitempty"` // next nonce, if known
	Last     *Submission    `json:"last,omitempty"`     // latest accepted submission, if known
}

// Lanes returns the lanes in use by this process, in order of address.
func (s *Service) Lanes() []LaneInfo {
	var out []LaneInfo
	now := s.now()
	s.each(false, func(l *lane) {
		if !l.empty() {
			out = append(out, l.info(now))
		}
	})
	slices.SortFunc(out, func(a, b LaneInfo) int { return bytes.Compare(a.Sender[:], b.Sender[:]) })
	return out
}

func (l *lane) info(now time.Duration) LaneInfo {
	const maxNonces = 100
	i := LaneInfo{Sender: l.sender, Strategy: l.strategy().String(), Waiting: len(l.queue)}
	for _, t := range l.queue[:min(len(l.queue), maxNonces)] {
		i.Nonces = append(i.Nonces, t.nonce)
	}
	if t := l.holder; t != nil {
		i.Held, i.Nonce, i.Session, i.Fence = true, t.nonce, t.lease.turn.session, t.lease.turn.fence
		i.HeldFor, i.Left = now-t.lease.granted, t.lease.turn.deadline-now
	}
	if o := l.link.owner; l.holder == nil && l.svc.governs(l) && o.session != "" && o.instance != l.svc.remote.process {
		i.HeldBy = o.instance
	}
	if l.chain.known {
		expected := l.chain.expected
		i.Expected = &expected
	}
	if l.chain.lastFence != 0 {
		last := l.chain.last
		i.Last = &last
	}
	return i
}

// ForceRelease takes the turn from the sender's present holder, here or in another
// process, and gives it to the next. It returns whether there was one. The error is
// ErrUnavailable, with its cause, if Redis could not be asked.
func (s *Service) ForceRelease(ctx context.Context, sender common.Address) (bool, error) {
	l := s.lane(sender)
	t, governed := l.holder, s.governs(l)
	if t != nil {
		l.end(t, ErrLost)
		l.noteLost(t, "taken by force")
	}
	l.unlock()
	if t != nil {
		return true, nil
	}
	if s.remote == nil {
		return false, nil
	}
	if !governed {
		return false, ErrUnavailable
	}
	return s.remote.force(ctx, sender)
}

// force removes whoever owns a sender's lock in Redis.
func (r *remote) force(ctx context.Context, sender common.Address) (bool, error) {
	keys := keys(sender)
	fail := func(err error) (bool, error) { return false, fmt.Errorf("%w: %w", ErrUnavailable, err) }
	get, cancel := r.deadline(ctx)
	defer cancel()
	texts, err := r.client.MGet(get, keys[0]).Result()
	if err != nil {
		return fail(err)
	}
	text, _ := texts[0].(string)
	owner, err := parseLockValue(text)
	if err != nil {
		return fail(err)
	}
	if owner.session == "" {
		return false, nil
	}
	v, err := r.svc.sync(ctx, keys, statement{by: "operator", take: r.mayTake(), ends: owner.instance, endsUpTo: owner.fence})
	if err != nil {
		return fail(err)
	}
	l := r.svc.lane(sender)
	defer l.unlock()
	l.link.dirty = !l.empty() || l.link.dirty
	l.dispatch(r.svc.now())
	return v.removed > 0, nil
}
