package locksim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"lockstep/lock"
)

// What clients do with a window: nonces decide, so there is a network that judges them, and a mirror node that shows them late.
// follow does what package submit does with a transaction, in few lines.

// Turn is one turn of a transaction, which may have several with a window. What it has from Transaction was so in this turn.
type Turn struct {
	Transaction
	of *Transaction

	place Moment // when the place was taken that the turn came from
	given Moment // when Redis gave the turn; never, if Redis did not
	step  lock.Step
}

// ledger is what the network has of one sender.
type ledger struct {
	next     uint64 // the nonce that is executed next
	verdicts map[uint64]chan struct{}
	past     []shown
}

type shown struct {
	at   time.Duration
	next uint64
}

var (
	errTooHigh = errors.New("nonce too high")
	errTooLow  = errors.New("nonce too low")
	errInVain  = errors.New("what it follows was not executed in time")
)

// shown is what the mirror node shows of a sender now.
func (w *world) shown(sender int) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := firstNonce(sender)
	for _, s := range w.chains[sender].past {
		if s.at+w.scenario.MirrorLag <= w.now() {
			next = s.next
		}
	}
	return next
}

// judged has the network judge a transaction.
func (w *world) judged(sender int, nonce uint64) lock.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &w.chains[sender]
	v := lock.Verdict{Reached: true, Executed: c.next == nonce, TooHigh: c.next < nonce}
	if v.Executed {
		c.next++
		c.past = append(c.past, shown{w.now(), c.next})
	}
	return v
}

func (w *world) gave(fence string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, err := strconv.ParseUint(fence, 10, 64); err == nil && w.given[n] == (Moment{}) {
		w.given[n] = w.moment()
	}
}

// began notes a turn.
func (w *world) began(t *Transaction, lease *lock.Lease) *Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Granted, t.Fence, t.Strategy = w.moment(), lease.Turn().Fence, lease.Turn().Strategy
	t.Sent, t.Released, t.Waits = Moment{}, Moment{}, Moment{} // of the turn before
	turn := &Turn{Transaction: *t, of: t, place: w.latest[t.Nonce], given: w.given[t.Fence]}
	delete(w.latest, t.Nonce) // a turn without Redis has no place: not that of the turn before (seed 9549)
	w.turns = append(w.turns, turn)
	return turn
}

// client is a transaction at its relay.
type client struct {
	*Transaction
	w      *world
	r      *relay
	ticket *lock.Ticket
	ahead  time.Duration // it went ahead and came back: until when it is kept; 0 = it did not
	tries  int
}

// pause lets time pass in which the relay may be stopped.
func (c *client) pause(d time.Duration) {
	<-time.After(d)
	c.r.stand()
}

// left is how much longer it may be kept for its predecessor.
func (c *client) left() time.Duration {
	end := c.Entered.At + recovery
	if c.ahead != 0 {
		end = min(end, c.ahead)
	}
	return end - c.w.now()
}

// follow is the life of a transaction from its first ticket on.
func (w *world) follow(ctx context.Context, r *relay, t *Transaction, ticket *lock.Ticket) {
	c := &client{Transaction: t, w: w, r: r, ticket: ticket}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.Leaves > 0 {
		quit := time.AfterFunc(t.Leaves, func() {
			r.stand()
			w.note(&t.Left)
			cancel()
		})
		defer quit.Stop()
	}
	looked := make(chan struct{})
	w.clients.Go(func() {
		defer close(looked)
		c.pause(t.Looks)
		ticket.Observe(w.shown(t.Sender))
		w.note(&t.Looked)
	})
	for {
		lease, err := c.wait(ctx)
		if err == nil {
			err = c.turn(ctx, lease, looked)
		}
		w.inspect(r)
		if err == nil && c.ticket != nil {
			continue
		}
		if errors.Is(err, lock.ErrLost) && !r.isDead() && c.rejoin() {
			continue
		}
		w.finish(t, err)
		return
	}
}

// wait waits for the turn. Meanwhile it looks the nonce up from time to time, as the learner of submit does.
func (c *client) wait(ctx context.Context) (*lock.Lease, error) {
	const pace = 250 * time.Millisecond
	over, ticket := make(chan struct{}), c.ticket
	defer close(over)
	c.w.clients.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(pace):
			}
			c.r.stand()
			if c.r.isDead() {
				return
			}
			if ticket.FirstInLine() {
				c.pause(c.Looks)
				ticket.Observe(c.w.shown(c.Sender))
			}
		}
	})
	// This is WaitWithin, whose own timer would take the lane in hand while the process stands still.
	ctx, cancel := context.WithCancelCause(ctx) // the lease's context is derived from it
	limit := time.AfterFunc(max(c.Entered.At+recovery-c.w.now(), 0)+time.Second, func() {
		c.r.stand()
		cancel(lock.ErrInVain)
	})
	defer limit.Stop()
	return ticket.Wait(ctx)
}

// turn is what happens in a turn, and after it. It leaves the next ticket in c, if there is one.
func (c *client) turn(ctx context.Context, lease *lock.Lease, looked <-chan struct{}) error {
	w, r := c.w, c.r
	turn := w.began(c.Transaction, lease)
	w.inspect(r)
	release := sync.OnceFunc(func() {
		w.note(&turn.Released)
		lease.Release()
	})
	defer release()
	<-looked
	c.pause(c.Thinks)
	next := c.ask(lease)
	w.mu.Lock()
	turn.step = next.Step
	w.mu.Unlock()
	ticket := c.ticket
	c.ticket = nil
	switch step := next.Step; {
	case step == lock.Go && c.Nonce < next.Nonce:
		return errTooLow
	case step == lock.Refuse:
		return errTooHigh
	case step.Waits(), step == lock.Await, c.ahead != 0 && c.Nonce > next.Nonce:
		wait := c.left()
		if next.Within > 0 {
			wait = min(wait, next.Within)
		}
		if !step.Stays() && wait <= 0 {
			return errInVain
		}
		if !lease.PutBack(wait) {
			return lock.ErrLost
		}
		w.note(&c.Waits)
		c.ticket = ticket
		return nil
	}
	r.checks.Add(1)
	err := lease.Check()
	r.checks.Add(-1)
	if err != nil {
		return err
	}
	if r.isDead() {
		return lock.ErrClosed
	}
	w.mu.Lock() // the bytes leave with the check
	turn.Sent = w.moment()
	c.Sent = turn.Sent
	w.sent = append(w.sent, c.Transaction)
	verdict := make(chan struct{})
	w.chains[c.Sender].verdicts[c.Fence] = verdict
	w.mu.Unlock()
	judged := make(chan lock.Verdict, 1)
	w.clients.Go(func() {
		<-time.After(w.scenario.Consensus)
		judged <- w.judged(c.Sender, c.Nonce)
		close(verdict)
	})
	c.pause(c.Holds)
	if r.isDead() {
		return lock.ErrClosed
	}
	sent := lease.Report(lock.Report{Submission: lock.Submission{Node: "0.0.3", TxID: fmt.Sprint(c.Fence), Open: true}})
	release()
	w.inspect(r)
	v := <-judged
	r.stand()
	if r.isDead() {
		return lock.ErrClosed
	}
	sent.Conclude(ctx, v)
	r.stand()
	w.inspect(r)
	if v.Executed {
		return nil
	}
	w.mu.Lock()
	c.Refused++
	w.mu.Unlock()
	if next.Certainty != lock.Chained || next.Nonce != c.Nonce { // no lane had led to it
		c.ahead = w.now() + w.scenario.config().Late()
	}
	if c.tries >= 4 || !c.rejoin() {
		return errTooHigh
	}
	c.tries++
	return nil
}

// ask asks the lane what to do, with a new look before the transaction is held back, and waits for a verdict if told to.
func (c *client) ask(lease *lock.Lease) (next lock.Next) {
	for range 3 {
		next = lease.Next(lock.Known{Shown: c.w.shown(c.Sender), Looked: true, Fresh: true, Fleet: true})
		if next.Step != lock.Await {
			return next
		}
		decided := next.Decided
		if decided == nil {
			c.w.mu.Lock()
			fence, _ := strconv.ParseUint(next.Predecessor.TxID, 10, 64)
			decided = c.w.chains[c.Sender].verdicts[fence]
			c.w.mu.Unlock()
		}
		limit := time.NewTimer(c.w.scenario.MaxHold / 2)
		select {
		case <-decided:
			limit.Stop()
		case <-limit.C:
			c.r.stand()
			return next
		}
		c.r.stand()
		lease.Report(lock.Report{Outcome: lock.NotAwaited, Submission: next.Predecessor})
	}
	return next
}

// rejoin takes a new place in the line, unless there is no time left for it.
func (c *client) rejoin() bool {
	c.ticket = nil
	stay := lock.Stay{Window: c.left(), OutlastsGap: true, Admitted: true}
	if stay.Window <= 0 {
		return false
	}
	ticket, err := c.r.svc.EnterFor(address(c.Sender), c.Nonce, stay)
	if err != nil {
		return false
	}
	c.w.note(&c.Waits)
	c.ticket = ticket
	return true
}
