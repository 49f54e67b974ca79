package fetch

import (
	"context"
	"errors"

	"lockstep/internal/relay/capacity"
)

// errNoSlot says that as many requests as are allowed are under way at a mirror node, and that none of them ended in
// time. The cause is in this process, not in the mirror node.
var errNoSlot = errors.New("too many requests to the mirror node at once")

// slots bounds the requests that are under way at one host. A request takes a slot before its time begins, so that
// waiting for a slot does not look like a mirror node that does not answer.
//
// A tenth of the slots is for sends alone: slow reads, such as simulations of long calls, may take all others for as
// long as they like, and a transaction is checked all the same. Among the reads each client has its fair share: one
// client alone leaves a quarter of the slots to others, and of those that wait goes first who has had least.
type slots struct {
	reads    *capacity.Permits // the order in which reads come to a slot for everybody
	open     chan struct{}     // has a token for each request in a slot for everybody
	reserved chan struct{}     // the same, of the slots for sends
}

// slot is that of one request, until free.
type slot struct {
	token  chan struct{}    // where its token is to be taken out again
	permit *capacity.Permit // nil: of a send
}

// reservedShare is the part of the slots that is for sends, and othersShare the part of the rest that one client leaves
// to other clients: one in so many.
const (
	reservedShare = 10
	othersShare   = 4
)

// newSlots makes slots for so many requests. At least one is for everybody.
func newSlots(number int) *slots {
	reserved := min((number+reservedShare-1)/reservedShare, number-1)
	open := number - reserved
	return &slots{
		reads: capacity.NewPermits(open, open-open/othersShare),
		open:  make(chan struct{}, open), reserved: make(chan struct{}, reserved),
	}
}

// take waits for a slot until the context ends. Of the sends who waits first has the next slot.
func (p *slots) take(ctx context.Context, c class) (got slot, waited bool, err error) {
	reserved := p.reserved
	if c != classSend {
		reserved = nil
		if got.permit, err = p.reads.Enter(ctx, capacity.FromContext(ctx), 1, false); err != nil {
			return slot{}, true, err
		}
		waited = got.permit.Waited()
	}
	for _, token := range []chan struct{}{p.open, reserved} {
		select {
		case token <- struct{}{}:
			got.token = token
			return got, waited, nil
		default:
		}
	}
	select {
	case p.open <- struct{}{}:
		got.token = p.open
	case reserved <- struct{}{}:
		got.token = reserved
	case <-ctx.Done():
		got.permit.Leave()
		return slot{}, true, ctx.Err()
	}
	return got, true, nil
}

// free gives a slot back.
func (p slot) free() {
	<-p.token
	p.permit.Leave()
}

// class is what a request to a mirror node is for.
type class int

const (
	classRead class = iota // an answer for a client
	classSend              // the submission of a transaction
)

func (c class) String() string { return [...]string{"read", "send"}[c] }

type classKey struct{}

// ForSend says that what is read under a context is for the submission of a transaction. Slots are reserved for such
// requests, and they do not wait for the same read of somebody else.
func ForSend(ctx context.Context) context.Context {
	return context.WithValue(ctx, classKey{}, classSend)
}

func classOf(ctx context.Context) class {
	c, _ := ctx.Value(classKey{}).(class)
	return c
}

// slot waits for a slot at a mirror node, as long as a request may take. A probe is like a send: whether a mirror
// node answers must be known when it is most asked.
func (f *Fetcher) slot(ctx context.Context, d *address, q Request) (slot, error) {
	c := classOf(ctx)
	if q.probe {
		c = classSend
	}
	timed, cancel := context.WithTimeoutCause(ctx, f.config.Timeout.Duration(), errNoSlot)
	defer cancel()
	got, waited, err := d.slots.take(timed, c)
	if waited {
		f.metrics.waited.WithLabelValues(c.String()).Inc()
	}
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return slot{}, ctx.Err()
	default:
		return slot{}, f.unanswered(ctx, errNoSlot)
	}
}
