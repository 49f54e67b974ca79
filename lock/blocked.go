package lock

// Block tells those who wait behind the holder with a higher nonce that the holder's
// transaction failed before it was executed: what they follow will not come. It is for a
// lane whose expected nonce is not certain; a certain one says the same to everybody. Who
// enters later is not told, since the failed nonce may have been sent again before it.
func (l *Lease) Block(failed uint64) {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	for t := ln.head; t != nil; t = t.next {
		if t.nonce > failed && (!t.blocked || failed < t.blockedBy) {
			t.blocked, t.blockedBy = true, failed
		}
	}
}

// Blocked returns the nonce of a failed transaction that stood before this one and has not
// been made good since, if there is one.
func (l *Lease) Blocked() (failed uint64, ok bool) {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	t := l.ticket
	return t.blockedBy, t.blocked && ln.accepted <= t.blockedBy
}

// Sent tells the lane that a node accepted the holder's transaction although its nonce was
// not known to be next, so that nothing follows for the nonce after it: the expected nonce
// stays what it was. It returns false, and does nothing, if the turn is over.
func (l *Lease) Sent(sub Submission) bool {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding {
		return false
	}
	ln.know.last, ln.know.lastFence = sub, l.turn.fence
	l.advanced = true
	return true
}

// Unclear tells the lane that a node may have the holder's transaction or not. The expected
// nonce comes from elsewhere then, but until the verdict the next transaction is bound to that
// node as if it had been accepted. It returns false, and does nothing, if the turn is over.
func (l *Lease) Unclear(sub Submission) bool {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding {
		return false
	}
	ln.know.forget()
	ln.know.last, ln.know.lastFence = sub, l.turn.fence
	l.unsure, l.advanced = true, true
	return true
}

// Follows tells whether others of this process were in the lane when the ticket entered it.
// If none were, the sender may have waited for the end of what came before, and may have
// used another way since: a nonce above the expected one is no proof of a mistake then.
func (l *Lease) Follows() bool { return l.ticket.follows }
