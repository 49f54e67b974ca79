package lock

import (
	"context"
	"slices"
	"time"
)

// The transactions of a lane that a node has, or may have, until their verdict.

// Submitted is a transaction of a lane whose verdict is open. Conclude it once.
type Submitted struct {
	lane  *lane // nil: of a sender who is not ordered
	fence uint64
	nonce uint64
	sub   Submission
	ahead bool   // it went ahead of next, which was missing
	next  uint64 // the next nonce as it was told

	overtaken chan struct{} // closed under lane.mu
	decided   chan struct{} // closed under lane.mu, at the verdict
}

// opened notes a submission. lane.mu must be held.
func (l *lane) opened(s *Submitted) *Submitted {
	l.open = append(l.open, s)
	return s
}

// Overtaken is closed when a later transaction of the sender, at the same node, has reached consensus first. A
// node keeps the order of what it accepted, so this one was lost there.
func (s *Submitted) Overtaken() <-chan struct{} { return s.overtaken }

// Verdict is what became of a submission.
type Verdict struct {
	Reached  bool // it has reached consensus, whatever came of it
	Executed bool // its nonce is spent
	TooHigh  bool // it was refused because its nonce was too high
}

// settle takes the submission from the lane's open ones. lane.mu must be held.
func (s *Submitted) settle(v Verdict) {
	l := s.lane
	if i := slices.Index(l.open, s); i >= 0 {
		close(s.decided)
		l.open = slices.Delete(l.open, i, i+1)
	}
	if l.chain.lastFence == s.fence {
		l.chain.last.Open = false
	}
	if !v.Reached {
		return
	}
	for _, o := range l.open {
		if o.fence < s.fence && o.sub.Node == s.sub.Node {
			select {
			case <-o.overtaken:
			default:
				close(o.overtaken)
			}
		}
	}
}

// undecided returns the submission of this process with that nonce whose verdict is awaited, or nil.
func (l *lane) undecided(nonce uint64) *Submitted {
	for _, o := range l.open {
		if o.nonce == nonce && o.sub.Open {
			return o
		}
	}
	return nil
}

// awaited tells whether any submission of this process has no verdict, and may still get one soon.
func (l *lane) awaited() bool {
	return slices.ContainsFunc(l.open, func(o *Submitted) bool { return o.sub.Open })
}

// judged tells whether a submission of this process that went ahead of the next nonce awaits its verdict. If the network
// refuses it, it refuses what goes ahead behind it, too.
func (l *lane) judged(next uint64) bool {
	return slices.ContainsFunc(l.open, func(o *Submitted) bool { return o.sub.Open && o.nonce >= next })
}

// noteGap notes that what the lane knows of a missing nonce has changed.
func (l *lane) noteGap(now time.Duration) {
	l.gapAt = now
	for _, t := range l.queue {
		t.until = l.untilGap(t, t.until)
	}
}

// untilGap is until when a ticket waits that would wait until then. Once it is certain that a nonce is missing, what is ahead of it waits
// for what may come late, and for nothing else: no verdict is to come that says more.
func (l *lane) untilGap(t *Ticket, then time.Duration) time.Duration {
	if l.chain.gap != certain || t.outlastsGap || t.nonce <= l.chain.expected {
		return then
	}
	return min(then, l.gapAt+l.svc.cfg.Late()) // 0, for no window, stays
}

// Room returns nil if fewer submissions of this process than limit await their verdict, else a channel that is
// closed when the first of them has its own: ask again then. limit is at least 1.
func (l *Lease) Room(limit int) <-chan struct{} {
	if l.ticket == nil {
		return nil
	}
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	var first *Submitted
	for _, o := range ln.open {
		if !o.sub.Open {
			continue
		}
		if first == nil {
			first = o
		}
		limit--
	}
	if limit > 0 {
		return nil
	}
	return first.decided
}

// notAwaited notes that nobody needs to wait for the verdict on a submission.
func (l *lane) notAwaited(id string) {
	if l.chain.last.TxID == id {
		l.chain.last.Open = false
	}
	for _, o := range l.open {
		if o.sub.TxID == id {
			o.sub.Open = false
		}
	}
}

// Conclude tells the lane the verdict on a submission. After one that was not executed it returns when Redis
// knows, too, so that a client that is told of it can send the nonce again through any process. It waits for that
// until LOCK_REDIS_TIMEOUT_MS have passed.
func (s *Submitted) Conclude(ctx context.Context, v Verdict) {
	if s.lane == nil {
		return
	}
	passedOn := s.conclude(v)
	if passedOn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.lane.svc.cfg.RedisTimeout.Duration())
	defer cancel()
	select {
	case <-passedOn:
	case <-ctx.Done(): // Redis is told all the same
	}
}

// conclude returns a channel that is closed when Redis knows, or nil if it need not.
func (s *Submitted) conclude(v Verdict) (passedOn <-chan struct{}) {
	svc := s.lane.svc
	s.lane.mu.Lock()
	s.settle(v)
	s.lane.unlock()
	l := svc.lane(s.lane.sender) // there may be another by now, or none: in Redis it may still be
	defer l.unlock()
	if v.Executed {
		l.chain.prove(s.nonce + 1)
		l.learn(s.nonce+1, false)
		return nil
	}
	if s.ahead && v.TooHigh { // the chain does not lead to it
		if l.chain.tooHigh(s.nonce, s.next) {
			l.link.dirty = svc.remote != nil
			l.noteGap(svc.now())
			l.dispatch(l.gapAt)
		}
		return nil
	}
	if l.chain.invalidate(s.fence) {
		l.recoveredAt, l.holeReported = svc.now(), true
		svc.metrics.holes.Inc()
	}
	// While Redis is away only lanes in use keep the verdict for it. What Redis knows of an idle lane will have
	// expired, and an outage must not fill our memory.
	if svc.remote != nil && (svc.remote.up.Load() || !l.empty()) {
		l.link.bad = max(l.link.bad, s.fence)
		if svc.governs(l) {
			waiter := make(chan struct{})
			l.link.waiters, passedOn = append(l.link.waiters, waiter), waiter
		}
	}
	l.dispatch(svc.now())
	return passedOn
}
