package lock

import (
	"context"
	"time"
)

type ticketState uint8

const (
	waiting ticketState = iota
	granted
	over // released, lost, left or closed
)

// Ticket is a place in a sender's queue, taken by Service.Enter. Its order is fixed at
// that moment. End it with Leave, or with Release of the lease that Wait returns.
// All methods may be called from any goroutine.
type Ticket struct {
	lane  *lane
	nonce uint64

	// Guarded by lane.mu.

	prev, next *Ticket
	state      ticketState
	err        error // why it is over
	counted    strategy
	entered    time.Duration
	until      time.Duration   // end of its hold-back window; 0 = no window
	ready      chan struct{}   // closed when it stops waiting; made by the first Wait
	notify     func()          // called when it stops waiting; see Notify
	limit      *time.Timer     // of Notify
	session    string          // its key in Redis; empty until it is needed
	place      place           // its place in the queue in Redis
	parent     context.Context // of the first Wait for this turn, from its beginning on
	lease      *Lease          // of its turn, or its last one; nil: it had none
	first      Lease           // its first one
	follows    bool            // others were in the lane when it entered, or it let one go first
	passedBy   uint64          // 1 + the nonce it last let go first; 0 = none
	kept       bool            // it has been held back, or was promised: a gap is no reason to refuse it
	late       bool            // it has waited for what comes late
	promised   bool            // see Stay

	blocked   bool // a lower nonce before it failed
	blockedBy uint64
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
	if t.state == waiting {
		if t.ready == nil {
			t.ready = make(chan struct{})
		}
		ready := t.ready
		l.unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			t.Leave()
			return nil, &leftError{cause: context.Cause(ctx)}
		case <-limit:
			t.giveUp()
		}
		l.mu.Lock()
	}
	if t.state == over {
		defer l.unlock()
		return nil, t.err
	}
	length, lease := l.length, t.lease
	if first {
		lease.parent = ctx
	}
	t.countWait(ctx)
	l.unlock()
	if first {
		l.svc.logAcquired(ctx, lease, length)
	}
	return lease, nil
}

// countWait counts the wait for the turn, once. That is when a request takes the turn, whose trace the metric then
// names; or at the turn's end, if none took it. lane.mu must be held.
func (t *Ticket) countWait(ctx context.Context) {
	if !t.lease.waited {
		t.lease.waited = true
		t.lane.svc.metrics.waited(ctx, t.lease.turn.by, t.lease.granted-t.entered)
	}
}

// Notify calls f, once and in a goroutine of its own, when the ticket stops waiting, so that a Wait does not
// block then. It is for callers with thousands of tickets, each of which would need a goroutine to wait. Like
// WaitWithin it gives up the place after a while. It returns false, and f is not called, if the ticket does not
// wait now. The latest call counts.
func (t *Ticket) Notify(limit time.Duration, f func()) bool {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.state != waiting {
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
	if !l.drop(t, ErrLeft) {
		l.end(t, ErrReleased)
	}
}

// giveUp leaves the queue because the ticket waited for too long, unless its turn has come.
func (t *Ticket) giveUp() {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	l.drop(t, &leftError{cause: ErrInVain})
}

// leftError is ErrLeft with the reason.
type leftError struct{ cause error }

func (e *leftError) Error() string   { return ErrLeft.Error() + ": " + e.cause.Error() }
func (e *leftError) Unwrap() []error { return []error{ErrLeft, e.cause} }

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

// followed tells whether the sender's transactions before this one came this way: others were in the lane when it entered, or had
// turns since.
func (t *Ticket) followed() bool {
	turn := max(t.lane.advancedAt, t.lane.sharedAt)
	return t.follows || turn != 0 && turn >= t.entered
}

// heldBack tells whether the ticket waits for what is missing.
func (t *Ticket) heldBack() bool { return t.kept || t.late }

func (t *Ticket) letPass(nonce uint64) { t.passedBy, t.follows = nonce+1, true }
