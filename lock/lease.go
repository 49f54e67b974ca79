package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Lease is the turn: the exclusive right to submit for a sender. It ends with Release, at the hold limit, or when
// the lock is lost to another; Check and Context show the end. All methods may be called from any goroutine.
//
// The lease of a sender who is not ordered, see Unordered, restricts nothing.
type Lease struct {
	ticket *Ticket // nil: not ordered
	nonce  uint64  // without a ticket: the transaction's
	turn   turn    // its session and instance are guarded by lane.mu; the rest does not change

	// Guarded by lane.mu.

	granted  time.Duration
	waited   bool          // the wait for it is counted
	held     time.Duration // set at the end
	err      error         // why it is over; nil: it is not
	advanced bool
	unsure   bool            // the chain became uncertain in this turn, and Redis is told so
	next     Next            // what it was told when it last asked
	parent   context.Context // of the first Wait, from its beginning on
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

// Context returns a context that ends with the turn, with ErrLost, ErrReleased or
// ErrClosed as its cause, or when the context given to Wait ends. Work that outlives
// the turn, such as waiting for a receipt, needs another.
func (l *Lease) Context() context.Context {
	if l.ticket == nil {
		return l.parent
	}
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
		if l.err != nil {
			l.cancel(l.err)
		}
	}
	return l.ctx
}

// Next tells the holder of the turn what the sender's next nonce is, and what to do.
func (l *Lease) Next(known Known) Next {
	if l.ticket == nil {
		return nextOfNobody(l.nonce, false, known)
	}
	t, ln := l.ticket, l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.err != nil { // the turn is lost, which the holder finds out by Check
		return nextOfNobody(t.nonce, t.kept, known)
	}
	if known.Looked {
		ln.observe(known.next(), false)
	}
	l.next = decide(ln.chain, ln.facts(t, known))
	if l.next.why == forWindow && l.turn.by == redisStrategy {
		ln.svc.remote.wake() // Redis measures windows by its clock, which may have jumped: a heartbeat shows what it is now
	}
	n := l.next
	if n.Step == Refuse {
		n.Cause = ln.failure.explain(t.nonce, t.entered, n.Nonce)
	}
	return n
}

// facts are what the policy has to know of the lane to decide for the holder of its turn.
func (l *lane) facts(t *Ticket, known Known) facts {
	cfg, now := l.svc.cfg, l.svc.now()
	return facts{
		known: known, nonce: t.nonce, open: t.lease.turn.open,
		inWindow: now < t.until, follows: t.follows, followed: t.followed(), kept: t.kept, late: t.late,
		failed: t.blocked && l.afterAccepted <= t.blockedBy, failedAt: t.blockedBy,
		holeTold: l.holeTold, awaited: l.awaited(), recovered: l.recoveredLately(),
		recovery: cfg.Recovery > 0, waitsLate: cfg.Late(), gapFor: now - l.gapAt, memory: cfg.Memory.Duration(),
		waits: func(next uint64) bool { return l.before(t, next) != nil },
		judge: l.judged, sent: l.undecided,
	}
}

// Check returns nil if the turn is still the caller's, by the monotonic clock and with
// a margin for the bytes to leave; else an error that is ErrLost, ErrReleased or
// ErrClosed. Call it last before anything is sent.
//
// It returns at once, unless this process stood still for so long that others may have taken it for dead. Then
// Check waits, while the lease's context lives, for the next heartbeat, which tells whether they did.
func (l *Lease) Check() error {
	if l.ticket == nil {
		return nil
	}
	err := l.check()
	if errors.Is(err, errDoubt) {
		return l.checkAgain()
	}
	return err
}

// checkAgain is Check while it is in doubt.
func (l *Lease) checkAgain() error {
	r, ctx := l.ticket.lane.svc.remote, l.Context()
	limit := time.NewTimer(r.ttl)
	defer limit.Stop()
	for {
		next := r.nextBeat() // before the check, so that no heartbeat is missed
		if err := l.check(); !errors.Is(err, errDoubt) {
			return err
		}
		r.wake()
		select {
		case <-next:
		case <-ctx.Done():
			return l.check()
		case <-limit.C:
			return l.check()
		}
	}
}

// errDoubt: others may have what this process owned.
var errDoubt = fmt.Errorf("%w: this process sent no heartbeat for too long", ErrLost)

func (l *Lease) check() error {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.err != nil {
		return l.err
	}
	now, margin := ln.svc.now(), ln.svc.margin
	if now+margin >= l.turn.deadline {
		return fmt.Errorf("%w: held for %v, the maximum is %v", ErrLost, (now - l.granted).Round(time.Millisecond), ln.svc.cfg.MaxHold)
	}
	if l.turn.session != "" && !ln.svc.trusted(now+margin) {
		return errDoubt
	}
	return nil
}

// Turn says which turn it is.
type Turn struct {
	// Fence is its number. Turns of one sender have rising numbers, so that of two the later is known; it belongs in
	// every log line about the turn.
	Fence    uint64
	Strategy string // what decided the order: "redis", "local", or "none" if nothing did
}

// Turn says which turn it is.
func (l *Lease) Turn() Turn {
	if l.ticket == nil {
		return Turn{Strategy: "none"}
	}
	return Turn{Fence: l.turn.fence, Strategy: l.turn.by.String()}
}

// Unordered returns the lease for a transaction of a sender who is not ordered. Its context is ctx.
func Unordered(ctx context.Context, nonce uint64) *Lease { return &Lease{parent: ctx, nonce: nonce} }

// Release ends the turn and gives it to the next. It is idempotent, does nothing if the
// turn was lost, never blocks on the network, and is safe in a defer while panicking.
func (l *Lease) Release() {
	if l.ticket == nil {
		return
	}
	ln := l.ticket.lane
	ln.mu.Lock()
	done := l.err == nil && ln.end(l.ticket, ErrReleased)
	length := ln.length
	ln.unlock()
	if done {
		ln.svc.logReleased(l, length)
	}
}

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
	held := l.err == nil
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
		ahead: l.next.ahead, next: l.next.Nonce, overtaken: make(chan struct{}), decided: make(chan struct{}),
	})
}

func (l *Lease) accepted(sub Submission) {
	ln, t := l.ticket.lane, l.ticket
	l.advanced = true
	now, gap := ln.svc.now(), ln.chain.gap
	if ln.failure.over == 0 {
		ln.failure.over = now
	}
	if !ln.chain.accepted(t.nonce, l.turn.fence, sub, l.next) {
		if ln.chain.gap != gap {
			ln.gapAt = now
		}
		return
	}
	ln.advancedAt = max(now, 1)
	ln.afterAccepted = max(ln.afterAccepted, t.nonce+1)
	if ln.chain.mode == recovering && !ln.awaited() {
		ln.chain.mode, ln.recoveredAt = flowing, now
	}
}

// PutBack ends the turn, unused, and gives its transaction a new place, in which it waits for its
// predecessor without holding the turn: for up to window, or, where Next said GiveWay or Early, for the rest of its
// window. Wait waits for the next turn. It returns false if the turn was over.
func (l *Lease) PutBack(window time.Duration) bool {
	if l.ticket == nil {
		return false
	}
	t, ln := l.ticket, l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.err != nil || ln.svc.closed.Load() {
		return false
	}
	t.follows = t.followed() || l.next.why != forWindow // then nothing has happened but the passing of time
	switch l.next.why {
	case forNext:
		t.letPass(ln.chain.expected)
		window = t.until - ln.svc.now()
	case forWindow:
		window = t.until - ln.svc.now()
	case forPredecessor:
		t.kept = true
	case forLate:
		t.late = true
	case forVerdict:
	}
	if ln.svc.tracing() {
		ln.notePutBack(t)
	}
	ln.vacate(l, ErrReleased)
	ln.replace(t)
	t.parent, t.ready, t.session, t.place = nil, nil, "", placeNone
	ln.admit(t, window)
	return true
}
