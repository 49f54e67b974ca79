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
	advanced bool
	unsure   bool            // the chain became uncertain in this turn, and Redis is told so
	isNext   bool            // the transaction was known to be next, when last asked
	back     waitFor         // what it is to wait for if it is put back, as it was told when it last asked
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
		if err := l.ticket.ended(); err != nil {
			l.cancel(err)
		}
	}
	return l.ctx
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
	if err := l.ticket.ended(); err != nil {
		return err
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

// ended returns why a turn is over, or nil if it is not.
func (t *Ticket) ended() error {
	switch t.state {
	case granted:
		return nil
	case waiting:
		return ErrReleased // it never held
	default:
		return t.err
	}
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
	done := ln.end(l.ticket, ErrReleased)
	length := ln.length
	ln.unlock()
	if done {
		ln.svc.logReleased(l, length)
		ln.svc.reg.unpin(ln)
	}
}
