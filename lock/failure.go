package lock

import "time"

// What those are told that follow a transaction that no node took.

// block tells the waiting tickets with a higher nonce than a failed transaction that it will not come. Tickets
// that enter later are not told, since the failed nonce may have been sent again before them. But if the lane
// refuses them, they hear the cause, too. Those that were held back for it wait without success, if there is a cause.
func (l *lane) block(failed uint64, cause error) {
	l.failure = failure{first: failed, last: failed, cause: cause, at: l.svc.now()}
	var inVain []*Ticket
	for t := l.head; t != nil; t = t.next {
		switch {
		case t.nonce <= failed:
		case t.heldBack() && !t.promised && cause != nil:
			inVain = append(inVain, t)
		case !t.heldBack() && (!t.blocked || failed < t.blockedBy):
			t.blocked, t.blockedBy = true, failed
		}
	}
	for _, t := range inVain {
		l.turnAway(t)
	}
}

// turnAway takes a waiting ticket out of the queue because of the lane's failure.
func (l *lane) turnAway(t *Ticket) {
	l.failure.last = max(l.failure.last, t.nonce)
	if l.drop(t, &leftError{cause: l.failure.cause}) {
		l.svc.reg.unpin(l)
	}
}

// heldBack tells whether the ticket waits for what is missing.
func (t *Ticket) heldBack() bool { return t.kept || t.late }

// inVain tells whether a ticket that comes back to the queue would wait for a transaction that no node took a
// short time ago, and that has not come again.
func (l *lane) inVain(t *Ticket) bool {
	f := &l.failure
	if !t.heldBack() || t.promised || f.cause == nil || f.over != 0 || t.nonce <= f.first || l.svc.now()-f.at > failedLately {
		return false
	}
	for other := l.head; other != nil; other = other.next {
		if other.nonce == f.first {
			return false
		}
	}
	return l.holder == nil || l.holder.nonce != f.first
}

// failedLately is for how long what no node took counts as missing, if it is not sent again.
const failedLately = 10 * time.Second

// failure is why the transactions from the nonce first to the nonce last were not sent. What follows them is
// missing for the same reason, even if it came to the lane after the first had failed.
type failure struct {
	first, last uint64
	cause       error         // nil: there is nothing to tell
	at          time.Duration // when the first failed
	over        time.Duration // when a node took a transaction again; 0 = none has
}

// explain returns what a transaction is told that is refused because the one with the missing nonce has not
// come: nil if the failure has nothing to do with it.
func (f *failure) explain(t *Ticket, missing uint64) error {
	if f.cause == nil || missing < f.first || missing > f.last || f.over != 0 && t.entered > f.over {
		return nil
	}
	f.last = max(f.last, t.nonce)
	return f.cause
}
