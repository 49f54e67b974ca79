package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Lease is the turn: the exclusive right to submit for a sender. It ends with Release,
// at the hold limit, or when the lock is lost to another; Check and Context tell.
// All methods may be called from any goroutine.
type Lease struct {
	ticket *Ticket
	turn   turn

	// Guarded by lane.mu.

	granted  time.Duration
	held     time.Duration // set at the end
	advanced bool
	unsure   bool // the holder does not know what became of its submission
	parent   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

// Context returns a context that ends with the turn, with ErrLost, ErrReleased or
// ErrClosed as its cause, or when the context given to Wait ends. Work that outlives
// the turn, such as waiting for a receipt, needs another.
func (l *Lease) Context() context.Context {
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
// It returns at once, unless this process stood still for so long that others may have taken it for
// dead: then the next heartbeat tells whether they did.
func (l *Lease) Check() error {
	const pace = 5 * time.Millisecond
	err := l.check()
	for svc, since := l.ticket.lane.svc, time.Now(); errors.Is(err, errDoubt) && time.Since(since) < svc.remote.ttl; err = l.check() {
		svc.remote.wake()
		<-time.After(pace)
	}
	return err
}

// errDoubt: others may have what this process owned.
var errDoubt = fmt.Errorf("%w: this process gave no sign of life for too long", ErrLost)

func (l *Lease) check() error {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if err := l.ticket.ended(); err != nil {
		return err
	}
	now, margin := ln.svc.now(), ln.svc.margin
	if now+margin >= l.turn.deadline {
		return fmt.Errorf("%w: held %v of at most %v", ErrLost, (now - l.granted).Round(time.Millisecond), ln.svc.cfg.MaxHold)
	}
	if l.turn.session != "" && !ln.svc.trusted(now+margin) {
		return errDoubt
	}
	return nil
}

// Fence returns the number of this turn. Turns of one sender have rising numbers, so
// that of two the later is known; it belongs in every log line about the turn.
func (l *Lease) Fence() uint64 { return l.turn.fence }

// Strategy returns what decided the order: "redis" or "local".
func (l *Lease) Strategy() string { return l.turn.by.String() }

// Expected returns the sender's next nonce as the lane knows it, now. It is not known
// on a fresh lane, after an invalidation or a lost turn, nor when Redis failed and
// another process may have gone on.
func (l *Lease) Expected() (nonce uint64, known bool) { return l.nextNonce(false) }

// Likely is Expected, and also what this process alone concludes while Redis is away and another
// may have gone on. It says who goes before whom, and is no reason to refuse anything.
func (l *Lease) Likely() (nonce uint64, known bool) { return l.nextNonce(true) }

func (l *Lease) nextNonce(alone bool) (nonce uint64, known bool) {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding || !ln.know.known || l.turn.open && !alone {
		return 0, false
	}
	return ln.know.expected, true
}

// Certain tells whether Expected comes from this lane's own transactions. If not, it is
// what the mirror node showed, and a higher nonce may be right all the same.
func (l *Lease) Certain() bool {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	return l.ticket.state == holding && !l.turn.open && ln.know.known && ln.know.sure
}

// Last returns the sender's most recent accepted submission, if the lane remembers one.
// One that another process made is Open for all this process knows.
func (l *Lease) Last() (Submission, bool) {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding || ln.know.lastFence == 0 {
		return Submission{}, false
	}
	return ln.know.last, true
}

// Advance tells the lane that the holder's transaction was accepted, and which nonce
// comes next. It returns false, and does nothing, if the turn is over.
func (l *Lease) Advance(next uint64, sub Submission) bool {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding {
		return false
	}
	ln.know.advance(next, l.turn.fence, sub)
	ln.accepted = max(ln.accepted, next)
	l.advanced = true
	return true
}

// Forget tells the lane that the holder does not know what became of its submission,
// so that the next one takes the expected nonce from elsewhere. It returns false, and
// does nothing, if the turn is over.
func (l *Lease) Forget() bool {
	ln := l.ticket.lane
	ln.mu.Lock()
	defer ln.unlock()
	if l.ticket.state != holding {
		return false
	}
	ln.know.forget()
	l.unsure = true
	return true
}

// Release ends the turn and gives it to the next. It is idempotent, does nothing if the
// turn was lost, never blocks on the network, and is safe in a defer while panicking.
func (l *Lease) Release() {
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
