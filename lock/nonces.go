package lock

import "time"

// Which nonce is next, how sure that is, and what the holder of a turn is to do.

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
	// Look: what is known is too old to hold the transaction back, or to take it for ahead. Look again, then ask again.
	Look
	// Await: first wait for the verdict on Next.Predecessor, then ask again.
	Await
	// GiveWay: do not send it now, but call PutBack. The ticket with the next nonce waits here.
	GiveWay
	// Early: do not send it now, but call PutBack. Its turn came before the end of its window.
	Early
	// PutBack: do not send it now, but call PutBack. A lower nonce is missing, and may come.
	PutBack
	// Refuse: its nonce is too high and cannot become right any more, unless Next.Cause says another reason.
	Refuse
)

// Waits tells whether the holder is to call PutBack and wait for another turn.
func (s Step) Waits() bool { return s == PutBack || s.Stays() }

// Stays tells whether it waits for no longer than its window, so that it need not be kept.
func (s Step) Stays() bool { return s == GiveWay || s == Early }

// waitFor is what a transaction waits for in a new place.
type waitFor uint8

const (
	forPredecessor waitFor = iota // what it follows, for as long as its holder says
	forNext                       // the ticket with the next nonce, which is here
	forWindow                     // the end of its window
	forLate                       // what may come late, once
)

// Known is what a holder knows of the sender's next nonce from outside the lane.
type Known struct {
	Shown  uint64 // what the mirror node shows
	Looked bool   // it was asked; false: Shown means nothing
	Fresh  bool   // it was asked a moment ago
	Proven uint64 // what receipts have proved, which stays true; 0: nothing
	Fleet  bool   // Proven has what other processes know, too
}

// next is the higher of what is shown and what is proven.
func (k Known) next() uint64 {
	if !k.Looked {
		return 0
	}
	return max(k.Shown, k.Proven)
}

// Standing is how sure it is that the network takes the holder's nonce.
type Standing uint8

// The standings.
const (
	Uncertain Standing = iota // it may be too high
	InLine                    // it is next: the lane led to it
	Reached                   // the sender's nonce has certainly come to it; if the network refuses it, it is spent
)

// Next is what a lane knows about the sender's next transaction.
type Next struct {
	Nonce       uint64
	Confidence  Confidence
	Step        Step
	Gap         int64           // the holder's nonce less Nonce: above 0 it is ahead, below 0 it is too low
	Standing    Standing        // of the holder's nonce
	Sure        bool            // the holder is next: the lane's own transactions or, while it recovers, verdicts lead to its nonce
	Predecessor Submission      // the one handed over last, or the one to await; Open if its verdict is not known
	Cause       error           // with Refuse: why what it follows was not sent; nil: its nonce is too high
	Recovering  bool            // the lane recovers
	Within      time.Duration   // with PutBack: how long it is to wait as a maximum; 0: as long as its client does
	Decided     <-chan struct{} // with Await, if this process handed the predecessor over: closed at its verdict
}

// Next tells the holder of the turn what the sender's next nonce is, and what to do.
//
// The lane knows its own transactions; the mirror node knows those of others, late. The larger nonce is right.
func (l *Lease) Next(known Known) Next {
	if l.ticket == nil {
		n := Next{Nonce: known.next()}
		if known.Looked {
			n.Confidence = Shown
		}
		n.stand(l.nonce, false, known)
		return n
	}
	t, ln := l.ticket, l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if t.state != granted { // the turn is lost, which the holder finds out by Check
		n := Next{Nonce: known.next()}
		n.stand(t.nonce, t.kept, known)
		return n
	}
	if known.Looked {
		ln.observe(known.next(), false)
	}
	n := l.next(known.next(), known.Looked)
	// While Redis is away another process may have gone on. So this process uses what it concludes
	// alone to order those who wait here, and refuses nothing because of it.
	likely := n.Nonce
	if n.Confidence != Chained && ln.chain.known {
		likely = max(likely, ln.chain.expected)
	}
	l.isNext = t.nonce == likely && (known.Looked || n.Confidence == Chained || l.turn.open && ln.chain.known)
	known.Proven = max(known.Proven, ln.chain.proven)
	n.stand(t.nonce, t.kept, known)
	n.Step = l.step(&n, likely, known.Looked)
	if known.Looked && n.outdated(known) {
		n.Step = Look
	}
	if n.Step == Refuse {
		n.Cause = ln.failure.explain(t, n.Nonce)
	}
	return n
}

// stand tells how a holder's nonce stands to the next one. kept: see Ticket.
func (n *Next) stand(mine uint64, kept bool, known Known) {
	n.Gap = int64(mine - n.Nonce)
	n.Sure = n.Gap == 0 && n.Confidence == Chained || n.Recovering && known.Proven == mine
	switch {
	case known.Looked && known.Shown >= mine, known.Proven >= mine:
		n.Standing = Reached
	case n.Gap == 0 && (n.Confidence == Chained || kept):
		n.Standing = InLine
	}
}

// outdated tells whether the holder is to look again before it does what the lane says. A lane that recovers goes by what all
// processes know to be proven.
func (n *Next) outdated(known Known) bool {
	if n.Recovering && !known.Fleet {
		return true
	}
	return n.Gap > 0 && !known.Fresh && n.Step != Refuse && !n.Step.Stays()
}

func (l *Lease) next(shown uint64, known bool) Next {
	ln, t := l.ticket.lane, l.ticket
	k := &ln.chain
	n := Next{Nonce: shown, Recovering: k.mode == recovering}
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

func (l *Lease) step(n *Next, likely uint64, looked bool) Step {
	ln, t := l.ticket.lane, l.ticket
	l.back = forPredecessor
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
		l.back = forNext
		return GiveWay
	case n.Confidence == Chained && t.blocked && ln.afterAccepted <= t.blockedBy:
		return Refuse
	case told && ln.svc.now() < t.until:
		return l.tooEarly()
	case told && n.Recovering && !t.follows && ln.holeTold && !ln.awaited():
		return Refuse // it came alone, after the one that is missing was answered
	case told && t.followed() && (n.Recovering || ln.recoveredLately()), told && n.Recovering:
		return PutBack
	case told && looked && t.followed() && !t.kept && !t.late && ln.svc.cfg.Late() > 0 && ln.svc.cfg.Recovery > 0:
		l.back, n.Within = forLate, ln.svc.cfg.Late()
		return PutBack
	case n.Confidence == Chained && t.followed():
		// After a pause the sender may have sent what is missing some other way.
		return Refuse
	case told && ln.svc.cfg.Recovery > 0 && ln.judged(likely):
		n.Within = judgedPace
		return PutBack
	default:
		return Go
	}
}

// tooEarly puts a ticket back that has got the turn although it is ahead and its window is not over. Redis measures windows by its
// clock, which may have jumped; a heartbeat shows what it is now.
func (l *Lease) tooEarly() Step {
	if l.turn.by == redisStrategy {
		l.ticket.lane.svc.remote.wake()
	}
	l.back = forWindow
	return Early
}

// followed tells whether the sender's transactions before this one came this way: others were in the lane when it entered, or had
// turns since.
func (t *Ticket) followed() bool {
	turn := max(t.lane.advancedAt, t.lane.sharedAt)
	return t.follows || turn != 0 && turn >= t.entered
}

// judgedPace is how often a transaction that is ahead checks whether the network still judges another one that went ahead.
const judgedPace = time.Second

// recoveredLately tells whether the lane recovered a short time ago. Transactions that go back to their
// line may then still be on their way, here or in another process. The same holds after Redis stood
// still, even if this process did not notice.
func (l *lane) recoveredLately() bool {
	now, memory := l.svc.now(), l.svc.cfg.Memory.Duration()
	return l.recoveredAt != 0 && now-l.recoveredAt < memory || l.svc.remote != nil && l.sharedAt != 0 && l.svc.remote.stalledSince(now-memory)
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
