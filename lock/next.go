package lock

import "time"

// Whose turn it is without a hold-back window. Nobody waits for what has not arrived, but of
// those who wait, the one whose nonce is next goes before one that is known to be ahead: that one
// loses nothing, since the network would have refused it.

// next returns the ticket that is to go: the oldest, unless it is ahead of what is known while
// another carries the expected nonce. Somebody must wait.
func (l *lane) next(know knowledge) *Ticket {
	oldest := l.head
	if !know.known {
		return oldest
	}
	if t := l.before(oldest, know.expected); t != nil {
		oldest.letGoFirst(know.expected)
		return t
	}
	return oldest
}

// before returns the waiting ticket that is to go before t because it carries the expected
// nonce and t a higher one, or nil. Only one of each nonce goes before t, so that predecessors
// that fail again and again do not keep it from its turn.
func (l *lane) before(t *Ticket, expected uint64) *Ticket {
	if t.nonce <= expected || t.letGo == expected+1 {
		return nil
	}
	for other := l.head; other != nil; other = other.next {
		if other.nonce == expected {
			return other
		}
	}
	return nil
}

func (t *Ticket) letGoFirst(nonce uint64) { t.letGo, t.follows = nonce+1, true }

// StepBack gives the turn, unused, to the ticket of this process that waits with the expected
// nonce, if there is one and the holder's nonce is higher. It returns whether it did: then
// this lease is over and its ticket is the first of those that wait, so call Wait again.
// Call it when look-ups have shown what nonce is expected, before anything is sent. With a
// hold-back window it does nothing.
//
// It returns at once, unless this process is behind with its work: the ticket that is missing may be
// among what has arrived but was not read yet. Then it returns when that has been read, or
// a second after the nonce was first missed.
func (l *Lease) StepBack(expected uint64) bool {
	for {
		stepped, again := l.stepBack(expected)
		if !again {
			return stepped
		}
		<-time.After(sampleInterval)
	}
}

func (l *Lease) stepBack(expected uint64) (stepped, again bool) {
	t := l.ticket
	ln := t.lane
	ln.mu.Lock()
	defer ln.unlock()
	if t.state != holding || t.until != 0 || l.advanced {
		return false, false
	}
	now := ln.svc.now()
	other := ln.before(t, expected)
	if other == nil {
		return false, ln.mayBeHere(t, expected, now)
	}
	given, ok := ln.handDown(l.turn, now)
	if !ok {
		return false, false
	}
	t.letGoFirst(expected)
	ln.putBack(t, now)
	if ln.svc.tracing {
		ln.noteSteppedBack(t, other)
	}
	if given.session != "" {
		ln.reseat(t, other)
	}
	ln.grant(other, now, given)
	ln.dispatch(now)
	return true, false
}

// mayBeHere tells whether the expected nonce, that t is ahead of, may have arrived at this process
// without having its ticket yet. What has failed is not waited for.
func (l *lane) mayBeHere(t *Ticket, expected uint64, now time.Duration) bool {
	const most = time.Second
	if t.nonce <= expected || t.letGo == expected+1 || t.blocked && l.accepted <= t.blockedBy {
		return false
	}
	if l.missed != expected+1 {
		l.missed, l.missedAt = expected+1, now
	}
	return now-l.missedAt < most && l.svc.backlog.behind(now)
}

// handDown returns the turn as another ticket of this process has it. One that Redis gave stays
// what it is there, with the rest of its time, if that is enough.
func (l *lane) handDown(g turn, now time.Duration) (turn, bool) {
	limit := l.svc.cfg.MaxHold.Duration()
	switch {
	case g.session != "":
		return g, g.deadline-now > limit/2
	case l.svc.governs(l):
		return g, false // Redis is about to adopt it
	default:
		g.fence, g.deadline = l.svc.fences.Add(1), now+limit
		return g, true
	}
}

// putBack makes the holder the first of those that wait.
func (l *lane) putBack(t *Ticket, now time.Duration) {
	lease := &t.lease
	if lease.cancel != nil {
		lease.cancel(ErrReleased)
	}
	l.svc.metrics.ended(lease.turn.by, now-lease.granted)
	if lease.turn.session == "" {
		t.place = placeNone
	}
	l.holder = nil
	t.state, t.ready = waiting, nil
	lease.turn = turn{}
	t.counted = local
	if l.svc.governs(l) {
		t.counted = redisStrategy
	}
	l.pushFront(t)
}

// reseat gives from's place in Redis to another waiting ticket, and theirs to those between the two:
// so the places stay in the order of the tickets, and those without one stay the last.
func (l *lane) reseat(from, to *Ticket) {
	if from == to {
		return
	}
	forward := false
	for t := from.next; t != nil && !forward; t = t.next {
		forward = t == to
	}
	for t := from; t != to; {
		neighbour := t.prev
		if forward {
			neighbour = t.next
		}
		l.trade(t, neighbour)
		t = neighbour
	}
}

// trade exchanges the places of two tickets.
func (l *lane) trade(a, b *Ticket) {
	if a.place == placeJoining || b.place == placeJoining {
		for i, t := range l.far.joining {
			switch t {
			case a:
				l.far.joining[i] = b
			case b:
				l.far.joining[i] = a
			}
		}
	}
	a.session, b.session = b.session, a.session
	a.place, b.place = b.place, a.place
}
