package submit

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

// gates keep a sender's transactions in their order of arrival ahead of the lock while one of them has its call
// data put into a file. Every piece waits for consensus, which takes longer than a turn may last, so it must not
// happen in the turn. But later transactions must not overtake it either. So a transaction with a file, and all
// that come after it, draw their tickets when the file is there, in the order in which they came.
//
// Senders without such a transaction have no gate. The order holds in this process; other
// relays see the tickets when they are drawn.
type gates struct {
	limit int // maximum of entries of a sender; 0: no limit

	mu     sync.Mutex
	queues map[common.Address][]*Entry // in order of arrival; guarded by mu
}

func newGates(limit int) *gates { return &gates{queues: map[common.Address][]*Entry{}, limit: limit} }

// gate is an entry's place in front of the lock.
type gate struct {
	open  chan struct{} // closed when the entry has passed, or will never pass
	err   error         // why it has no ticket
	state gateState     // guarded by gates.mu
}

// gateState is how far an entry at its gate is.
type gateState uint8

const (
	storing gateState = iota // its call data is being put into a file
	ready                    // it waits for those before it
	passed                   // it has its ticket
	refused                  // the lock gave it none
	gone                     // it does not want one any more
)

// enter draws the entry's ticket, or lets it wait until those before it, and its own
// file, are ready. The errors are those of lock.Service.Enter.
func (d *gates) enter(e *Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, needsFile := e.tx.From(), e.needsFile()
	queue := d.queues[from]
	if len(queue) == 0 && !needsFile {
		if err := e.draw(); err != nil {
			return err
		}
		e.way = direct
		return nil
	}
	if d.limit > 0 && len(queue) >= d.limit {
		return &lock.QueueFullError{Length: len(queue)}
	}
	e.way, e.gate = gated, &gate{open: make(chan struct{})}
	if !needsFile {
		e.gate.state = ready
	}
	d.queues[from] = append(queue, e)
	return nil
}

// ready says that an entry's call data is in its file, or will not be.
func (d *gates) ready(e *Entry) {
	if e.way != gated {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.gate.state == storing {
		e.gate.state = ready
	}
	d.advance(e.tx.From())
}

// leave gives up the place at the gate, if the entry is still there. It tells whether the entry has a
// ticket.
func (d *gates) leave(e *Entry) bool {
	if e.way != gated {
		return e.way == direct
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.gate.state == storing || e.gate.state == ready {
		e.gate.state = gone
		d.advance(e.tx.From())
	}
	return e.gate.state == passed
}

// advance lets entries pass that wait neither for a file nor for others. d.mu must be held.
func (d *gates) advance(from common.Address) {
	queue := d.queues[from]
	for len(queue) > 0 && queue[0].gate.state != storing {
		first := queue[0]
		queue[0], queue = nil, queue[1:]
		first.gate.pass(first)
		close(first.gate.open)
	}
	if len(queue) == 0 {
		delete(d.queues, from)
		return
	}
	d.queues[from] = queue
}

// pass draws the ticket of the first in front of the lock.
func (g *gate) pass(e *Entry) {
	if g.state == gone {
		g.err = lock.ErrLeft
		return
	}
	g.state = passed
	if g.err = e.draw(); g.err != nil {
		g.state = refused
	}
}

// draw takes the entry's place in the sender's line.
func (e *Entry) draw() (err error) {
	s, stay := e.s, lock.Stay{Admitted: e.takenOver}
	switch {
	case s.cfg.Async: // its hash will be promised
		stay.Window, stay.Kept, stay.Promised = s.ordering.Promise.Duration(), true, true
	case !s.cfg.SkipLookUps: // else nobody could tell what comes before it
		stay.Window = s.ordering.Window.Duration()
	}
	e.ticket, err = s.locks.EnterFor(e.tx.From(), e.tx.Nonce(), stay)
	return err
}

// waitAtGate waits until the entry has its ticket. An entry without a file of its own waits there for no longer
// than it would for its turn.
func (e *Entry) waitAtGate(ctx context.Context) error {
	if e.way != gated {
		return nil
	}
	if !e.s.ordering.CancelOnDisconnect || e.promised() {
		ctx = context.WithoutCancel(ctx)
	}
	var limit <-chan time.Time
	if !e.needsFile() && !e.promised() {
		timer := time.NewTimer(e.mayWait())
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-e.gate.open:
		if e.needsFile() {
			e.inLineSince = time.Now()
		}
		return e.gate.err
	case <-ctx.Done():
		e.leave()
		return context.Cause(ctx)
	case <-limit:
		e.leave()
		return lock.ErrInVain
	}
}
