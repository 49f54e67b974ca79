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
		l.far.owner, l.far.heardAt = v.owner.session, now
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

// heardOfAnother takes in that the lock is free, or belongs to another process.
func (l *lane) heardOfAnother(o record, sent time.Duration) {
	t := l.holder
	if t != nil && t.lease.turn.session != "" {
		if o.fence > t.lease.turn.fence {
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
	if t = l.inOrder(t); t != nil {
		l.accept(t, o, v.left, now)
	}
}

// accept starts a turn that Redis gave, with what the lane knows by now.
func (l *lane) accept(t *Ticket, o record, deadline, now time.Duration) {
	know, distrusted := o.know, false
	if know.known && know.base < l.svc.remote.trustFrom() {
		know.forget()
		distrusted = true
	}
	if l.far.hint && l.know.known {
		know.observe(l.know.expected)
	}
	if know.lastFence != 0 && know.lastFence == l.know.lastFence {
		know.last.Open = l.know.last.Open // the verdict may have come, which only this process knows
	}
	l.know = know
	l.far.fence = o.fence
	l.svc.raiseFence(o.fence)
	l.grant(t, now, turn{by: redisStrategy, fence: o.fence, deadline: deadline, session: o.session, instance: o.instance})
	t.lease.unsure = distrusted
}

// refuse returns a turn that is over, or nearly, and sends its ticket back for another.
func (l *lane) refuse(t *Ticket, o record) {
	l.owe(debt{session: o.session, instance: o.instance})
	t.session = ""
	l.far.verify = true
}

// inOrder keeps the order of tickets inside the process even if Redis has lost some
// places: the places of one process are interchangeable, so the oldest ticket takes
// the turn and leaves its own place to the other. With a window nonces decide. Nil means
// that the reply to a join under way has to be waited for: it names the owner again.
func (l *lane) inOrder(t *Ticket) *Ticket {
	h := l.head
	if h == t || t.until != 0 {
		return t
	}
	if h.place == placeJoining || t.place == placeJoining {
		return nil
	}
	h.session, t.session = t.session, h.session
	h.place, t.place = t.place, h.place
	return h
}

func (l *lane) waitingFor(session string) *Ticket {
	for t := l.head; t != nil; t = t.next {
		if t.session == session {
			return t
		}
	}
	return nil
}

func (l *lane) owesSession(session string) bool {
	return slices.ContainsFunc(l.far.debts, func(d debt) bool { return d.session == session })
}

// lose ends the holder's turn because Redis gave it to another.
func (l *lane) lose(t *Ticket, why string) {
	t.lease.turn.session, t.session = "", "" // nothing to give back
	if l.end(t, ErrLost) {
		l.svc.logLost(t, why)
		l.svc.reg.unpin(l)
	}
}
