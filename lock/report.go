package lock

import "time"

// What came of a turn, and what that means for those who wait.

// Outcome says how the holder of a turn ended.
type Outcome uint8

// The outcomes.
const (
	Accepted   Outcome = iota // a node has the transaction
	Unclear                   // a node may have it
	Failed                    // none has it, and what waits behind it need not be tried
	Lost                      // nobody knows what the holder did
	NotAwaited                // nothing has come of it yet, but Submission need not be awaited any more
)

// Report is what came of a turn.
type Report struct {
	Outcome    Outcome
	Submission Submission // with Accepted, Unclear and NotAwaited
	Proven     uint64     // with Failed: the next nonce as the fleet has proved it, or 0
	Cause      error      // with Failed: what those behind it are told; nil: that their nonce is too high
}

// Report tells the lane what came of the turn, before Release. With Accepted and Unclear it returns the handle
// for the verdict, which is never nil then. After the turn's end a report changes nothing but the open
// submissions.
//
// A node does not look at the nonce, so its acceptance proves nothing about the next one unless this one was
// known to be next. A gap, or somebody's replay of an old transaction, must not shut the sender's right
// transaction out.
func (l *Lease) Report(r Report) *Submitted {
	if l.ticket == nil {
		return &Submitted{}
	}
	ln, t := l.ticket.lane, l.ticket
	ln.mu.Lock()
	defer ln.unlock()
	held := t.state == granted
	switch r.Outcome {
	case Accepted:
		if held {
			l.accepted(r.Submission)
		}
	case Unclear:
		if held {
			ln.hole()
			ln.chain.last, ln.chain.lastFence = r.Submission, l.turn.fence
			l.unsure, l.advanced = true, true
		}
	case Lost:
		if held {
			ln.hole()
			l.unsure = true
		}
		return nil
	case Failed:
		if held && r.Proven <= t.nonce {
			ln.block(t.nonce, r.Cause)
		}
		return nil
	case NotAwaited:
		ln.notAwaited(r.Submission.TxID)
		return nil
	default:
		return nil
	}
	return ln.opened(&Submitted{
		svc: ln.svc, lane: ln, fence: l.turn.fence, nonce: t.nonce, sub: r.Submission,
		overtaken: make(chan struct{}), decided: make(chan struct{}),
	})
}

func (l *Lease) accepted(sub Submission) {
	ln, t := l.ticket.lane, l.ticket
	l.advanced = true
	if ln.failure.over == 0 {
		ln.failure.over = ln.svc.now()
	}
	// The chain may have changed since the holder asked: a verdict may have shown that it leads nowhere,
	// or the mirror node may have shown that others are further.
	if !l.isNext || !ln.chain.known || ln.chain.expected != t.nonce {
		ln.chain.last, ln.chain.lastFence = sub, l.turn.fence
		return
	}
	ln.chain.advance(t.nonce+1, l.turn.fence, sub)
	ln.advancedAt = max(ln.svc.now(), 1)
	ln.afterAccepted = max(ln.afterAccepted, t.nonce+1)
	if ln.chain.mode == recovering && !ln.awaited() {
		ln.chain.mode, ln.recoveredAt = flowing, ln.svc.now()
	}
}

// hole makes the lane recover, because a transaction is missing in its chain.
func (l *lane) hole() {
	l.chain.recover()
	l.recoveredAt, l.holeTold = l.svc.now(), false
	l.svc.metrics.holes.Inc()
}

// PutBack ends the turn, unused, and gives its transaction a new place, in which it waits for its
// predecessor without holding the turn: for up to window, or, where Next said GiveWay or Early, for the rest of its
// window. It returns nil if the turn was over.
func (l *Lease) PutBack(window time.Duration) *Ticket {
	if l.ticket == nil {
		return nil
	}
	t, ln := l.ticket, l.ticket.lane
	if !ln.svc.reg.repin(ln) {
		return nil
	}
	ln.mu.Lock()
	if t.state != granted || ln.svc.closed.Load() {
		ln.unlock()
		ln.svc.reg.unpin(ln)
		return nil
	}
	stay := Stay{Window: window, Kept: t.kept || l.back == forPredecessor, Promised: t.promised, Admitted: true, late: t.late || l.back == forLate}
	if l.back == forNext || l.back == forWindow {
		stay.Window = max(t.until-ln.svc.now(), 0)
	}
	again := ln.admit(t.nonce, stay)
	again.blocked, again.blockedBy = t.blocked, t.blockedBy
	again.passedBy = t.passedBy
	if l.back == forNext {
		again.letPass(ln.chain.expected)
	}
	if l.back == forWindow {
		again.follows = t.followed() // nothing has happened but the passing of time
	}
	if ln.svc.tracing() {
		ln.notePutBack(t)
	}
	ln.end(t, ErrReleased)
	ln.unlock()
	ln.svc.reg.unpin(ln)
	return again
}
