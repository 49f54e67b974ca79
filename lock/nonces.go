package lock

import (
	"context"
	"slices"
	"time"
)

// The one place of the nonce policy: which nonce is next, how sure that is, what the holder of
// a turn is to do, and what its report means for those who wait.

// Confidence says how sure the next nonce is.
type Confidence uint8

// The confidences, from the lowest to the highest.
const (
	Unknown Confidence = iota // nobody has said anything
	Shown                     // the mirror node or a verdict shows it; the true one may be higher by now
	Chained                   // the lane's own accepted transactions lead to it, or a lower nonce has failed
)

// Step is what the holder of a turn is to do.
type Step uint8

// The steps.
const (
	// Go: nothing speaks against sending the transaction, unless its nonce is too low.
	Go Step = iota
	// Await: first wait for the verdict on Next.Predecessor, then ask again.
	Await
	// GiveWay: do not send it now, but call PutBack. The ticket with the next nonce waits here.
	GiveWay
	// PutBack: do not send it now, but call PutBack. A lower nonce is missing, and may come.
	PutBack
	// Refuse: its nonce is too high and cannot become right any more, unless Next.Cause says another reason.
	Refuse
)

// Next is what a lane knows about the sender's next transaction.
type Next struct {
	Nonce       uint64
	Confidence  Confidence
	Step        Step
	Predecessor Submission      // the one handed over last, or the one to await; Open if its verdict is not known
	Cause       error           // with Refuse: why what it follows was not sent; nil: its nonce is too high
	Recovering  bool            // the lane recovers
	Proven      uint64          // the highest nonce that verdicts of the network proved to be next, as this process knows; 0: none
	Decided     <-chan struct{} // with Await, if this process handed the predecessor over: closed at its verdict
}

// Next tells the holder of the turn what the sender's next nonce is, and what to do. shown is
// what the mirror node shows, if known.
//
// The lane knows its own transactions; the mirror node knows those of others, late. The larger nonce is right.
func (l *Lease) Next(shown uint64, known bool) Next {
	if l.ticket == nil {
		n := Next{Nonce: shown}
		if known {
			n.Confidence = Shown
		}
		return n
	}
	t, ln := l.ticket, l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if t.state != holding {
		return Next{Nonce: shown}
	}
	if known {
		ln.observe(shown, false)
	}
	n := l.next(shown, known)
	// While Redis is away another process may have gone on. So this process uses what it concludes
	// alone to order those who wait here, and refuses nothing because of it.
	likely := n.Nonce
	if n.Confidence != Chained && ln.chain.known {
		likely = max(likely, ln.chain.expected)
	}
	l.isNext = t.nonce == likely && (known || n.Confidence == Chained || l.turn.open && ln.chain.known)
	n.Step = l.step(&n, likely)
	if n.Step == Refuse {
		n.Cause = ln.failure.explain(t, n.Nonce)
	}
	l.gives = n.Step == GiveWay
	return n
}

func (l *Lease) next(shown uint64, known bool) Next {
	ln, t := l.ticket.lane, l.ticket
	k := &ln.chain
	n := Next{Nonce: shown, Recovering: k.mode == recovering, Proven: k.proven}
	if known {
		n.Confidence = Shown
	}
	if k.lastFence != 0 {
		n.Predecessor = k.last
	}
	own := k.known && !l.turn.open
	switch {
	case own && k.sure && k.expected >= shown:
		n.Nonce, n.Confidence = k.expected, Chained
	case t.blocked && ln.afterAccepted <= t.blockedBy && t.blockedBy >= shown:
		n.Nonce, n.Confidence = t.blockedBy, Chained
	case own:
		n.Nonce, n.Confidence = max(k.expected, shown), Shown
	}
	return n
}

func (l *Lease) step(n *Next, likely uint64) Step {
	ln, t := l.ticket.lane, l.ticket
	if t.nonce <= likely {
		if n.Recovering && t.nonce == n.Nonce {
			if o := ln.undecided(t.nonce); o != nil {
				n.Predecessor, n.Decided = o.sub, o.decided
			}
			if n.Predecessor.Open {
				return Await
			}
		}
		return Go
	}
	told := n.Confidence != Unknown
	switch {
	case ln.before(t, likely) != nil && (told || l.turn.open):
		return GiveWay
	case n.Confidence == Chained && t.blocked && ln.afterAccepted <= t.blockedBy:
		return Refuse
	case told && t.kept && ln.svc.now() < t.until:
		return PutBack
	case told && n.Recovering && !t.follows && ln.holeTold && !ln.awaited():
		return Refuse // it came alone, after the one that is missing was answered
	case told && t.follows && (n.Recovering || ln.recoveredLately()), told && n.Recovering:
		return PutBack
	case n.Confidence == Chained && t.follows:
		// After a pause the sender may have sent what is missing some other way.
		return Refuse
	default:
		return Go
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

// settled notes that nobody needs to wait for the verdict on a submission.
func (l *lane) settled(id string) {
	if l.chain.last.TxID == id {
		l.chain.last.Open = false
	}
	for _, o := range l.open {
		if o.sub.TxID == id {
			o.sub.Open = false
		}
	}
}

// recoveredLately tells whether the lane recovered a short time ago. Transactions that go back to their
// line may then still be on their way, here or in another process. The same holds after Redis stood
// still, even if this process did not notice.
func (l *lane) recoveredLately() bool {
	now, memory := l.svc.now(), l.svc.cfg.Memory.Duration()
	return l.recoveredAt != 0 && now-l.recoveredAt < memory || l.svc.remote != nil && l.sharedAt != 0 && l.svc.remote.stalledSince(now-memory)
}

// Outcome says how the holder of a turn ended.
type Outcome uint8

// The outcomes.
const (
	Accepted Outcome = iota // a node has the transaction
	Unclear                 // a node may have it
	Failed                  // none has it, and what waits behind it need not be tried
	Lost                    // nobody knows what the holder did
	Settled                 // nothing has come of it yet, but Submission need not be awaited any more
)

// Report is what came of a turn.
type Report struct {
	Outcome    Outcome
	Submission Submission // with Accepted, Unclear and Settled
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
	held := t.state == holding
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
	case Settled:
		ln.settled(r.Submission.TxID)
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
// predecessor without holding the turn: for up to hold, or, where Next said GiveWay, for the rest of its
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
	if t.state != holding || ln.svc.closed.Load() {
		ln.unlock()
		ln.svc.reg.unpin(ln)
		return nil
	}
	stay := Stay{Window: window, Kept: true, Promised: t.promised, Admitted: true}
	if l.gives {
		stay.Window, stay.Kept = max(t.until-ln.svc.now(), 0), t.kept
	}
	again := ln.admit(t.nonce, stay)
	again.blocked, again.blockedBy = t.blocked, t.blockedBy
	if again.passedBy = t.passedBy; l.gives {
		again.letPass(ln.chain.expected)
	}
	if ln.svc.tracing() {
		ln.notePutBack(t)
	}
	ln.end(t, ErrReleased)
	ln.unlock()
	ln.svc.reg.unpin(ln)
	return again
}

// Submitted is a transaction of a lane whose verdict is open. Conclude it once.
type Submitted struct {
	svc   *Service // nil: of a sender who is not ordered
	lane  *lane
	fence uint64
	nonce uint64
	sub   Submission

	overtaken chan struct{} // closed under lane.mu
	decided   chan struct{} // closed under lane.mu, at the verdict
	passed    bool          // overtaken is closed; guarded by lane.mu
	settled   bool          // decided is closed; guarded by lane.mu
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
}

// settle takes the submission from the lane's open ones. lane.mu must be held.
func (s *Submitted) settle(v Verdict) {
	l := s.lane
	if !s.settled {
		s.settled = true
		close(s.decided)
	}
	l.open = slices.DeleteFunc(l.open, func(o *Submitted) bool { return o == s })
	if l.chain.lastFence == s.fence {
		l.chain.last.Open = false
	}
	if !v.Reached {
		return
	}
	for _, o := range l.open {
		if o.fence < s.fence && o.sub.Node == s.sub.Node && !o.passed {
			o.passed = true
			close(o.overtaken)
		}
	}
}

// learn notes a nonce that comes from outside the lane. With insist, Redis is told even if it is no news here.
func (l *lane) learn(nonce uint64, insist bool) {
	if l.observe(nonce, insist) {
		l.dispatch(l.svc.now())
	}
}

// observe is learn without moving the lane on. It tells whether that is needed.
func (l *lane) observe(nonce uint64, insist bool) bool {
	news := l.chain.observe(nonce)
	if news && l.holder != nil {
		l.chain.begin(l.holder.lease.turn.fence)
	}
	if !news && !insist {
		return false
	}
	if !l.link.want.has(jobShare) || nonce > l.link.nonceToShare {
		l.link.nonceToShare = nonce
		l.link.want |= jobShare
	}
	return true
}

// Observe tells the lane the account's nonce as the mirror node shows it. It counts if
// the lane knows none, or a lower one: the mirror node lags, so it never lowers.
// With a hold-back window, a burst on a lane that knows nothing waits for it.
func (t *Ticket) Observe(nonce uint64) {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.state != over {
		l.learn(nonce, false)
	}
}

// Remind is Observe for a ticket that is held back. It tells Redis even what is no news
// here: Redis may have forgotten it, with the turn of a process that died.
func (t *Ticket) Remind(nonce uint64) {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.state != over {
		l.learn(nonce, l.head == t && l.holder == nil)
	}
}

// FirstInLine tells whether the ticket is the first of its lane in this process and, as far as this process knows,
// nobody has the turn, here or elsewhere: it waits for a predecessor, or for knowledge of the next nonce after a
// turn was lost. A caller that can look the nonce up should do so, and call Observe.
func (t *Ticket) FirstInLine() bool {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	return l.head == t && l.holder == nil && (l.link.owner == "" || !l.svc.governs(l))
}

// Conclude tells the lane the verdict on a submission. After one that was not executed it returns when Redis
// knows, too, so that a client that is told of it can send the nonce again through any process. It waits for that
// until LOCK_REDIS_TIMEOUT_MS have passed.
func (s *Submitted) Conclude(ctx context.Context, v Verdict) {
	if s.svc == nil {
		return
	}
	passedOn := s.conclude(v)
	if passedOn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.svc.cfg.RedisTimeout.Duration())
	defer cancel()
	select {
	case <-passedOn:
	case <-ctx.Done(): // Redis is told all the same
	}
}

// conclude returns a channel that is closed when Redis knows, or nil if it need not.
func (s *Submitted) conclude(v Verdict) (passedOn <-chan struct{}) {
	svc, l := s.svc, s.lane
	if !svc.reg.repin(l) {
		// The lane has been forgotten here, or there is another by now; in Redis it may still be.
		l = svc.reg.pin(svc, l.sender)
	}
	defer svc.reg.unpin(l)
	s.lane.mu.Lock()
	s.settle(v)
	s.lane.unlock()
	l.mu.Lock()
	defer l.unlock()
	if v.Executed {
		l.chain.prove(s.nonce + 1)
		l.learn(s.nonce+1, false)
		return nil
	}
	if l.chain.invalidate(s.fence) {
		l.recoveredAt, l.holeTold = svc.now(), true
		svc.metrics.holes.Inc()
	}
	// While Redis is away only lanes in use keep the verdict for it. What Redis knows of an idle lane will have
	// expired, and an outage must not fill our memory.
	if svc.remote != nil && (svc.remote.up.Load() || !l.empty()) {
		l.link.badVerdict = max(l.link.badVerdict, s.fence)
		if svc.governs(l) {
			waiter := make(chan struct{})
			l.link.verdictWaiters, passedOn = append(l.link.verdictWaiters, waiter), waiter
		}
	}
	l.dispatch(svc.now())
	return passedOn
}
