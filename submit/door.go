package submit

import (
	"context"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

// doors keep a sender's transactions in their order of arrival ahead of the lock while
// one of them has its call data put into a file. That takes a consensus for every piece,
// longer than a turn may last, so it must not happen in the turn; but whoever came
// later must not overtake it either. So a transaction with a file, and all that come
// after it, draw their tickets when the file is there, in the order in which they came.
//
// Senders without such a transaction have no door. The order holds in this process; other
// relays see the tickets when they are drawn.
type doors struct {
	limit int // most entries of a sender; 0: no limit

	mu     sync.Mutex
	queues map[common.Address][]*Entry // in order of arrival; guarded by mu
}

func newDoors(limit int) *doors { return &doors{queues: map[common.Address][]*Entry{}, limit: limit} }

// door is an entry's place in front of the lock.
type door struct {
	open chan struct{} // closed when the entry's ticket, or err, is final
	err  error         // why there is no ticket

	ready, left bool // guarded by doors.mu: it waits for nothing of its own; it wants no ticket any more
}

// enter draws the entry's ticket, or lets it wait until those before it, and its own
// file, are ready. The errors are those of lock.Service.Enter.
func (d *doors) enter(e *Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, needsFile := e.tx.From(), e.needsFile()
	queue := d.queues[from]
	if len(queue) == 0 && !needsFile {
		return e.draw()
	}
	if d.limit > 0 && len(queue) >= d.limit {
		return &lock.QueueFullError{Length: len(queue)}
	}
	e.door = &door{ready: !needsFile, open: make(chan struct{})}
	d.queues[from] = append(queue, e)
	return nil
}

// ready says that an entry waits for nothing of its own any more.
func (d *doors) ready(e *Entry) {
	if e.door == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.door.ready = true
	d.advance(e.tx.From())
}

// leave gives up the place of an entry, if it has not drawn its ticket.
func (d *doors) leave(e *Entry) {
	if e.door == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.door.ready, e.door.left = true, true
	d.advance(e.tx.From())
}

// advance lets go on to the lock who waits for nothing. d.mu must be held.
func (d *doors) advance(from common.Address) {
	queue := d.queues[from]
	for len(queue) > 0 && queue[0].door.ready {
		first := queue[0]
		queue[0], queue = nil, queue[1:]
		if !first.door.left {
			first.door.err = first.draw()
		}
		close(first.door.open)
	}
	if len(queue) == 0 {
		delete(d.queues, from)
		return
	}
	d.queues[from] = queue
}

// draw takes the entry's place in the sender's line.
func (e *Entry) draw() (err error) {
	e.ticket, err = e.s.locks.Enter(e.tx.From(), e.tx.Nonce())
	return err
}

// waitAtDoor waits until the entry has its ticket.
func (e *Entry) waitAtDoor(ctx context.Context) error {
	if e.door == nil {
		return nil
	}
	select {
	case <-e.door.open:
		return e.door.err
	case <-ctx.Done():
		e.leave()
		return context.Cause(ctx)
	}
}
