package lock

import (
	"slices"
	"time"
)

// What Redis says about whose turn it is, and what a lane makes of it.

// heard takes in what a script said about whose turn it is.
func (l *lane) heard(v view, sent, now time.Duration) {
	if v.owner.session != l.far.owner {
		// Only a change is news: that an owner is still there says nothing of its life.
		l.far.owner, l.far.ownedBy, l.far.heardAt = v.owner.session, v.owner.instance, now
	}
	if v.wait >= 0 {
		l.heardWait(v.wait, now)
	}
	if v.owner.instance != l.svc.remote.instance() {
		l.heardOfAnother(v.owner, sent)
		return
	}
	if v.left >= 0 {
		v.left += sent // from here on a point in time: the server cannot have counted from earlier
	}
	l.take(v, now)
}

// heardOfAnother takes in that the lock is free, or belongs to another process, or to what
// this one was before others may have taken it for dead: then whoever has the turn here adopts it.
func (l *lane) heardOfAnother(o record, sent time.Duration) {
	t := l.holder
	if t != nil && t.lease.turn.session != "" {
		if l.svc.remote.wasUs(o.instance) {
			l.far.adopt = true
		} else if o.fence > t.lease.turn.fence {
			l.lose(t, "the lock belongs to another process")
		} else if o.session == "" && t.lease.granted < sent {
			l.far.adopt = true // the server has lost it; nobody else has it yet
		}
	}
	if l.holder == nil && o.know.known {
		l.know.observe(o.know.expected)
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
			l.far.fence = max(l.far.fence, o.fence)
			return
		}
	}
	t := l.waitingFor(o.session)
	if t == nil {
		// A turn nobody here waits for, such as one that came after its ticket left,
		// unless this is old news and a later turn has been ours since.
		if o.fence > l.far.fence && !slices.Contains(l.far.releasing, o.session) {
			l.owe(debt{session: o.session, instance: o.instance})
		}
		return
	}
	if v.left < 0 {
		l.far.kick = true // how long it lasts is not known: ask
		return
	}
	if !l.svc.remote.aliveAt(now) {
		// This process stood still, so the turn may have been taken back: no news
		// counts before the next heartbeat, after which all places are verified.
		l.svc.remote.wake()
		l.far.kickAt = now + l.svc.cfg.PollInterval.Duration()
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
			// The server has lost this turn and given another to this very process,
			// which can keep the order between the two by itself.
			h.lease.turn.session, h.session = "", ""
		}
	}
	if l.holder != nil {
		l.far.early = &v
		return
	}
	distrusted := l.inherit(o)
	t = l.inOrder(t)
	l.far.fence, l.far.owner, l.far.ownedBy, l.far.granted = o.fence, o.session, o.instance, now
	l.svc.raiseFence(o.fence)
	l.grant(t, now, turn{by: redisStrategy, fence: o.fence, deadline: v.left, session: o.session, instance: o.instance})
	t.lease.unsure = distrusted
}

// inherit takes over what the state in Redis says of the sender's nonces, with what the lane
// knows by now. It returns whether that state was too old to be relied upon.
func (l *lane) inherit(o record) (distrusted bool) {
	know := o.know
	if know.known && know.base < l.svc.remote.trustFrom() {
		know.forget()
		distrusted = true
	}
	if l.far.hint {
		know.observe(l.far.seen)
	}
	if know.prove(l.know.proven); know.proven > 0 {
		know.observe(know.proven)
	}
	if know.lastFence != 0 && know.lastFence == l.know.lastFence {
		know.last.Open = l.know.last.Open // the verdict may have come, which only this process knows
	}
	l.know = know
	return distrusted
}

// refuse returns a turn that is over, or nearly, and sends its ticket back for another.
func (l *lane) refuse(t *Ticket, o record) {
	l.owe(debt{session: o.session, instance: o.instance})
	t.session = ""
	l.far.verify = true
}

// inOrder returns the ticket that is to have the turn which Redis gave to t, and gives it t's
// place: the places of one process are alike, so that its own order decides between its
// tickets even if Redis has lost some places. With a window nonces decide there.
func (l *lane) inOrder(t *Ticket) *Ticket {
	if t.until != 0 {
		return t
	}
	next := l.next(l.know)
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

// lose ends the holder's turn because Redis gave it to another.
func (l *lane) lose(t *Ticket, why string) {
	t.lease.turn.session, t.session = "", "" // nothing to give back
	if l.end(t, ErrLost) {
		l.noteLost(t, why)
		l.svc.reg.unpin(l)
	}
}
