package lock

import (
	"slices"
	"time"
)

// What Redis says about whose turn it is, and what a lane makes of it.

// applyView applies what a script said about whose turn it is.
func (l *lane) applyView(v view, sent, now time.Duration) {
	if v.owner.session != l.link.owner {
		// Only a change is news: an owner whose name is still there may be dead.
		l.link.owner, l.link.ownedBy, l.link.ownerChangedAt = v.owner.session, v.owner.instance, now
	}
	if v.wait >= 0 {
		l.planTurnCheck(v.wait, now)
	}
	if v.owner.session != "" {
		l.link.ownedAt = max(l.link.ownedAt, sent)
	}
	if v.owner.instance != l.svc.remote.instance() {
		l.applyForeignOwner(v.owner, sent)
		return
	}
	v.asked = sent
	if v.left >= 0 {
		v.left += sent // from here on a point in time: the server began to count after the call was sent
	}
	l.take(v, now)
}

// applyGrant applies a message that this process has the turn. v.left is when it ends.
func (l *lane) applyGrant(v view, now time.Duration) {
	l.link.ownerChangedAt = now
	l.take(v, now)
	l.dispatch(now)
}

// applyLoss applies a message that a turn was taken by force.
func (l *lane) applyLoss(o lockValue, now time.Duration) {
	l.link.ownerChangedAt = now
	if t := l.holder; t != nil && t.lease.turn.session == o.session {
		l.lose(t, "taken by force")
	}
}

// applyLook applies the owner of a lane, which was read after sent.
func (l *lane) applyLook(o lockValue, me string, dead bool, sent time.Duration) {
	now := l.svc.now()
	if dead {
		l.link.reclaim = o.instance // even if it was removed before: it has the turn again
	}
	t := l.holder
	// While it is known until when the first in line waits, nobody need ask before that time.
	planned := l.link.owner == "" && l.link.checkTurnAt != 0
	l.link.owner, l.link.ownedBy = o.session, o.instance
	switch {
	case o.session == "":
		if t != nil && t.lease.turn.session != "" && t.lease.granted < sent {
			l.link.want |= jobAdopt // expired by accident, evicted or lost
		} else if l.head != nil && !planned {
			l.link.want |= jobLook
		}
	case o.instance == me:
		l.take(view{owner: o, left: -1, asked: sent}, now)
	default:
		l.applyForeignOwner(o, sent)
	}
	l.dispatch(now)
}

// applyForeignOwner handles a lock that is free, or belongs to another process or to an earlier instance of this
// one. In the last case the holder of the turn here adopts it.
func (l *lane) applyForeignOwner(o lockValue, sent time.Duration) {
	if o.session != "" && !l.svc.remote.wasUs(o.instance) {
		l.sharedAt = l.svc.now()
	}
	t := l.holder
	if t != nil && t.lease.turn.session != "" {
		if l.svc.remote.wasUs(o.instance) {
			l.link.want |= jobAdopt
		} else if o.fence > t.lease.turn.fence {
			l.lose(t, "the lock belongs to another process")
		} else if o.session == "" && t.lease.granted < sent {
			l.link.want |= jobAdopt // the server has lost it; nobody else has it yet
		}
	}
	if l.holder == nil && o.chain.known {
		l.chain.observe(o.chain.expected)
	}
}

// take gives our process's turn to the ticket it belongs to. v.left is when it ends.
func (l *lane) take(v view, now time.Duration) {
	o := v.owner
	if t := l.holder; t != nil {
		if o.session == t.lease.turn.session {
			t.lease.turn.instance = o.instance // it may have been adopted under a new name
			return
		}
		if o.session == t.session { // the server took over a turn that began without it
			t.lease.turn.session, t.lease.turn.instance = o.session, o.instance
			l.link.fence = max(l.link.fence, o.fence)
			return
		}
	}
	t := l.waitingFor(o.session)
	if t == nil {
		l.disclaim(v)
		return
	}
	if v.left < 0 {
		l.link.want |= jobLook // how long it lasts is not known: ask
		return
	}
	if !l.svc.remote.aliveAt(now) {
		// This process stood still, so others may have taken the turn. No news counts before the next heartbeat;
		// after it, all places are verified.
		l.svc.remote.wake()
		l.link.checkTurnAt = now + l.svc.cfg.PollInterval.Duration()
		return
	}
	if now+l.svc.margin >= v.left {
		l.refuse(t, o)
		return
	}
	if h := l.holder; h != nil && h.lease.turn.session != "" {
		if now >= h.lease.turn.deadline {
			l.lose(h, "its time was over")
		} else {
			// The server has lost this turn and given another one to this process, which can keep the order
			// between the two by itself.
			h.lease.turn.session, h.session = "", ""
		}
	}
	if l.holder != nil {
		l.link.pendingGrant = &v
		return
	}
	distrusted := l.inherit(o)
	t = l.inOrder(t)
	l.link.fence, l.link.owner, l.link.ownedBy, l.link.granted = o.fence, o.session, o.instance, now
	l.svc.raiseFence(o.fence)
	l.grant(t, now, turn{by: redisStrategy, fence: o.fence, deadline: v.left, session: o.session, instance: o.instance})
	t.lease.unsure = distrusted
}

// disclaim gives back a turn for which nobody here waits: its ticket may have left, or Redis may have lost the end of
// the turn. The news of a turn that ended meanwhile is old, and means nothing.
func (l *lane) disclaim(v view) {
	o, t := v.owner, l.holder
	switch {
	case o.fence > l.link.fence:
		// Also when its release is under way: places that were sent again may reach Redis after the release, and begin the
		// turn once more.
		l.noteHandback(handback{session: o.session, instance: o.instance})
	case slices.Contains(l.link.releasing, o.session):
	case v.asked <= l.link.handedBack: // this process has had this turn, or a later one, which may have ended since
	case t == nil:
		l.queueHandback(handback{session: o.session, instance: o.instance})
	case t.lease.turn.session != "" && t.lease.granted < v.asked:
		l.link.want |= jobAdopt // what Redis takes for a turn of this process belongs to the one that it is in
	}
}

// inherit joins what Redis says of the sender's nonces with what the lane knows. It returns whether the state in
// Redis was too old to rely on.
func (l *lane) inherit(o lockValue) (distrusted bool) {
	chain := o.chain
	if chain.known && chain.base < l.svc.remote.trustFrom() {
		chain.recover()
		distrusted = true
	}
	if verdict := l.link.badVerdict; verdict != 0 {
		chain.invalidate(verdict) // Redis has not been told yet
	}
	if l.link.want.has(jobShare) {
		chain.observe(l.link.nonceToShare)
	}
	chain.inherit(l.chain)
	if chain.gap != l.chain.gap || chain.expected != l.chain.expected {
		l.gapAt = l.svc.now()
	}
	if chain.mode == recovering && l.chain.mode != recovering {
		l.recoveredAt, l.holeTold = l.svc.now(), false
	}
	l.chain = chain
	return distrusted
}

// refuse gives back a turn that is over, or nearly, and lets its ticket wait for another.
func (l *lane) refuse(t *Ticket, o lockValue) {
	l.queueHandback(handback{session: o.session, instance: o.instance})
	t.session = ""
	l.link.want |= jobVerify
}

// inOrder returns the ticket that is to have the turn which Redis gave to t, and gives it t's place. The order of
// this process decides between its own tickets, even if Redis has lost some places. With a window, nonces decide
// in Redis.
func (l *lane) inOrder(t *Ticket) *Ticket {
	if t.until != 0 {
		return t
	}
	next := l.next(l.chain)
	l.reseat(t, next)
	return next
}

func (l *lane) waitingFor(session string) *Ticket {
	for t := l.head; t != nil; t = t.next {
		if t.session == session {
			return t
		}
	}
	return nil
}

// verifyInTime sends the places of a lane again from time to time: when the lane has waited long for a turn, and
// to renew the time to live of its queue.
func (l *lane) verifyInTime(now time.Duration) {
	f := &l.link
	pace := l.svc.cfg.MembershipInterval.Duration()
	if f.granted != 0 && now-f.granted < pace { // the places of this process are there
		pace = max(pace, l.svc.remote.lifetime/4)
	}
	switch {
	case l.head == nil || !l.svc.governs(l):
		f.verified = 0
	case f.verified == 0:
		f.verified = now
	case now-f.verified > pace && !f.want.has(jobVerify):
		f.want |= jobVerify
		l.dispatch(now)
	}
}

// wantsLook tells whether the watch is to look at the lane: its owner has not changed for a while, and
// tickets of this process wait in it, or this process should still have the turn.
func (l *lane) wantsLook(now, quiet time.Duration) bool {
	if now-l.link.ownerChangedAt < quiet {
		return false
	}
	h := l.holder
	held := h != nil && h.lease.turn.session != "" && now-h.lease.granted >= quiet
	return held || l.head != nil && (h == nil || h.lease.turn.session == "")
}

// lose ends the holder's turn because Redis gave it to another.
func (l *lane) lose(t *Ticket, why string) {
	t.lease.turn.session, t.session = "", "" // nothing to give back
	if l.end(t, ErrLost) {
		l.noteLost(t, why)
	}
}
