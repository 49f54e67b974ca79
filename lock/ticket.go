package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/relay/telemetry"
)

// Ticket is a place in a sender's queue, taken by Service.Enter. Its order is fixed at
// that moment. End it with Leave, or with Release of the lease that Wait returns.
// All methods may be called from any goroutine.
type Ticket struct {
	lane  *lane
	nonce uint64

	// Guarded by lane.mu.

	err         error           // why it is over: it was released, lost, left or closed; nil: it waits, or is the lane's holder
	came        time.Duration   // when it was made
	entered     time.Duration   // when it last took a place in the line
	until       time.Duration   // end of its hold-back window; 0 = no window
	ready       chan struct{}   // closed when it stops waiting; made by the first Wait
	notify      func()          // called when it stops waiting; see Notify
	limit       *time.Timer     // of Notify
	parent      context.Context // of the first Wait for this turn, from its beginning on
	lease       *Lease          // of its turn, or its last one; nil: it had none
	follows     bool            // others were in the lane when it entered, or it let one go first
	passedBy    uint64          // 1 + the nonce it last let go first; 0 = none
	outlastsGap bool            // it has been held back, or was promised: a gap is no reason to refuse it
	late        bool            // it has waited for what comes late
	promised    bool            // see Stay
}

// Nonce returns the nonce that Enter was called with.
func (t *Ticket) Nonce() uint64 { return t.nonce }

// Wait blocks until it is this ticket's turn. When ctx ends first, the place is given
// up and the error is ctx's cause, with ErrLeft. Redis trouble is no error: the turn
// then comes by the order of this process. The other errors are ErrLeft after Leave, or
// if a lower nonce failed in which it would have ended, QueueFullError if it gave way in a full queue, ErrClosed once
// the service has stopped, and ErrLost if the turn came and ran out before anybody waited for it.
//
// The lease's context is derived from ctx.
func (t *Ticket) Wait(ctx context.Context) (*Lease, error) { return t.wait(ctx, nil) }

// WaitWithin is Wait that gives up the place after a while, with ErrLeft and ErrInVain. The limit
// holds whatever becomes of the lane and of Redis meanwhile.
func (t *Ticket) WaitWithin(ctx context.Context, limit time.Duration) (*Lease, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	return t.wait(ctx, timer.C)
}

func (t *Ticket) wait(ctx context.Context, limit <-chan time.Time) (*Lease, error) {
	l := t.lane
	l.mu.Lock()
	first := t.parent == nil
	if first {
		t.parent = ctx // already now: log lines about the waiting ticket name its request, too
	}
	if l.waits(t) {
		if t.ready == nil {
			t.ready = make(chan struct{})
		}
		ready := t.ready
		l.unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			t.Leave()
			return nil, fmt.Errorf("%w: %w", ErrLeft, context.Cause(ctx))
		case <-limit:
			t.giveUp()
		}
		l.mu.Lock()
	}
	if t.err != nil {
		defer l.unlock()
		return nil, t.err
	}
	length, lease := len(l.queue), t.lease
	if first {
		lease.parent = ctx
		lease.countWait(ctx)
	}
	l.unlock()
	if first {
		l.svc.logAcquired(ctx, lease, length)
	}
	return lease, nil
}

// countWait counts how long the turn was waited for. The metric names the trace of the request that takes it.
func (l *Lease) countWait(ctx context.Context) {
	telemetry.Observe(ctx, l.ticket.lane.svc.metrics.wait[l.turn.by], (l.granted - l.ticket.entered).Seconds())
}

// Notify calls f, once and in a goroutine of its own, when the ticket stops waiting, so that a Wait does not
// block then. It is for callers with thousands of tickets, each of which would need a goroutine to wait. Like
// WaitWithin it gives up the place after a while. It returns false, and f is not called, if the ticket does not
// wait now. The latest call counts.
func (t *Ticket) Notify(limit time.Duration, f func()) bool {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if !l.waits(t) {
		return false
	}
	t.stopLimit()
	t.notify, t.limit = f, time.AfterFunc(limit, t.giveUp)
	return true
}

func (t *Ticket) stopLimit() {
	if t.limit != nil {
		t.limit.Stop()
		t.limit = nil
	}
}

// wake tells whoever waits that the ticket does not wait any more.
func (t *Ticket) wake() {
	t.stopLimit()
	if t.ready != nil {
		close(t.ready)
	}
	if t.notify != nil {
		go t.notify()
		t.notify = nil
	}
}

// Leave gives up the place, or ends the turn if it has come. It is idempotent, never
// blocks on the network, and is safe in a defer.
func (t *Ticket) Leave() {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if !l.drop(t, ErrLeft) && !l.end(t, ErrReleased) {
		l.letGo(t.lease)
	}
}

// giveUp leaves the queue because the ticket waited for too long, unless its turn has come.
func (t *Ticket) giveUp() {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	l.drop(t, fmt.Errorf("%w: %w", ErrLeft, ErrInVain))
}

// Observe tells the lane the account's nonce as the mirror node shows it. It counts if
// the lane knows none, or a lower one: the mirror node lags, so it never lowers.
// With a hold-back window, a burst on a lane that knows nothing waits for it. The first in line tells Redis even what is
// no news here: Redis may have forgotten it, with the turn of a process that died.
func (t *Ticket) Observe(nonce uint64) {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.err == nil {
		l.learn(nonce, l.oldest() == t && l.holder == nil)
	}
}

// FirstInLine tells whether the ticket is the first of its lane in this process and, as far as this process knows,
// nobody has the turn, here or elsewhere: it waits for a predecessor, or for knowledge of the next nonce after a
// turn was lost. A caller that can look the nonce up should do so, and call Observe.
func (t *Ticket) FirstInLine() bool {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	return l.oldest() == t && l.holder == nil && (l.link.owner.session == "" || !l.svc.governs(l))
}

// followed tells whether the sender's transactions before this one came this way: others were in the lane when it entered, or had
// turns since.
func (t *Ticket) followed() bool {
	turn := max(t.lane.advancedAt, t.lane.sharedAt)
	return t.follows || turn != 0 && turn >= t.entered
}

// heldBack tells whether the ticket waits for what is missing.
func (t *Ticket) heldBack() bool { return t.outlastsGap || t.late }

func (t *Ticket) letPass(nonce uint64) { t.passedBy, t.follows = nonce+1, true }

// Lease is the turn: the exclusive right to submit for a sender. It ends with Release, at the hold limit, or when
// the lock is lost to another; Check and Context show the end. All methods may be called from any goroutine.
//
// The lease of a sender who is not ordered, see Unordered, restricts nothing.
type Lease struct {
	ticket *Ticket // nil: not ordered
	nonce  uint64  // without a ticket: the transaction's
	turn   turn    // what Redis knows of it is guarded by lane.mu; the rest does not change

	// Guarded by lane.mu.

	granted  time.Duration
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
		return nextOfNobody(t.nonce, t.outlastsGap, known)
	}
	if known.Looked {
		ln.observe(known.next(), false)
	}
	l.next = decide(ln.chain, ln.facts(t, known))
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
		known: known, nonce: t.nonce, open: l.alone(t.lease.turn),
		inWindow: now < t.until, follows: t.follows, followed: t.followed(), outlastsGap: t.outlastsGap, late: t.late,
		failed: l.failure.blocks(t), failedAt: l.failure.first,
		holeReported: l.holeReported, awaited: l.awaited(), recovered: l.recoveredLately(),
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
	r := l.ticket.lane.svc.remote
	limit := time.NewTimer(r.ttl)
	defer limit.Stop()
	select {
	case <-r.nextBeat():
	case <-l.Context().Done():
	case <-limit.C:
	}
	return l.check()
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
	if l.turn.shared && !ln.svc.trusted(now+margin) {
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
	if !done {
		ln.letGo(l)
	}
	length := len(ln.queue)
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
		lane: ln, fence: l.turn.fence, nonce: t.nonce, sub: r.Submission,
		ahead: l.next.ahead, next: l.next.Nonce, overtaken: make(chan struct{}), decided: make(chan struct{}),
	})
}

func (l *Lease) accepted(sub Submission) {
	ln, t := l.ticket.lane, l.ticket
	l.advanced = true
	now, gap := ln.svc.now(), ln.chain.gap
	if ln.failure.over == 0 {
		ln.failure.over = max(now, 1)
	}
	if !ln.chain.accepted(t.nonce, l.turn.fence, sub, l.next) {
		if ln.chain.gap != gap {
			ln.gapAt = now
		}
		return
	}
	ln.advancedAt = max(now, 1)
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
		t.letPass(l.next.first)
		window = t.until - ln.svc.now()
	case forWindow:
		window = t.until - ln.svc.now()
	case forPredecessor:
		t.outlastsGap = true
	case forLate:
		t.late = true
	case forVerdict:
		window = ln.untilGap(t, ln.svc.now()+window) - ln.svc.now() // the verdict may have come since the holder asked
	}
	if ln.svc.tracing() {
		ln.trace(t.request(), "put back in line", "nonce", t.nonce, "expected", ln.chain.expected)
	}
	ln.vacate(l, ErrReleased)
	t.parent, t.ready = nil, nil
	ln.admit(t, window)
	return true
}
