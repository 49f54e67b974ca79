package lock

import "time"

// Whose turn it is by the order of this process. Of the waiting tickets, one whose nonce is next goes before one
// that is known to be ahead. The latter loses nothing, since the network would have refused it.

// pick chooses who is next, or tells when to ask again.
func (l *lane) pick(now time.Duration) (*Ticket, time.Duration) {
	if l.head.until == 0 {
		return l.next(l.chain), 0
	}
	if l.chain.known {
		for t := l.head; t != nil; t = t.next {
			if t.nonce <= l.chain.expected {
				return t, 0
			}
		}
	}
	first := l.head.until
	for t := l.head; t != nil; t = t.next {
		if t.until <= now {
			return t, 0
		}
		first = min(first, t.until)
	}
	return nil, first
}

// next returns the ticket that is to go when none is held back: the oldest, unless it is known to be ahead and
// another carries the expected nonce. Call it only while a ticket waits.
func (l *lane) next(chain chain) *Ticket {
	oldest := l.head
	if !chain.known {
		return oldest
	}
	if t := l.before(oldest, chain.expected); t != nil {
		oldest.letPass(chain.expected)
		return t
	}
	return oldest
}

// before returns the waiting ticket that is to go before t because it carries the expected
// nonce and t a higher one, or nil. Only one of each nonce goes before t, so that predecessors
// that fail again and again do not keep it from its turn.
func (l *lane) before(t *Ticket, expected uint64) *Ticket {
	if t.nonce <= expected || t.passedBy == expected+1 {
		return nil
	}
	for other := l.head; other != nil; other = other.next {
		if other.nonce == expected {
			return other
		}
	}
	return nil
}

func (t *Ticket) letPass(nonce uint64) { t.passedBy, t.follows = nonce+1, true }

// reseat gives from's place in Redis to another waiting ticket, and moves the places of those between by one. So
// the places stay in the order of the tickets, and tickets without a place stay the last.
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
		for i, t := range l.link.joining {
			switch t {
			case a:
				l.link.joining[i] = b
			case b:
				l.link.joining[i] = a
			}
		}
	}
	a.session, b.session = b.session, a.session
	a.place, b.place = b.place, a.place
}
