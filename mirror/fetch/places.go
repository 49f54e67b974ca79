package fetch

import (
	"context"
	"errors"
	"net/url"

	"lockstep/internal/budget"
)

// errNoPlace says that as many requests as are allowed are under way at a mirror node, and that none of them ended in
// time. The cause is in this process, not in the mirror node.
var errNoPlace = errors.New("too many requests to the mirror node at once")

// places bounds the requests that are under way at one host. A request takes a place before its time begins, so that
// waiting for a place does not look like a mirror node that does not answer.
//
// A tenth of the places is for sends alone: slow reads, such as simulations of long calls, may take all others for as
// long as they like, and a transaction is checked all the same. Among the reads each client has its fair share: one
// client alone leaves a quarter of the places to others, and of those that wait goes first who has had least.
type places struct {
	reads *budget.Turns // the order in which reads come to a place for everybody
	open  chan struct{} // has a token for each request in a place for everybody
	kept  chan struct{} // the same, of the places for sends
}

// place is that of one request, until free.
type place struct {
	token chan struct{} // where its token is to be taken out again
	turn  *budget.Turn  // nil: of a send
}

// keptShare is the part of the places that is for sends, and othersShare the part of the rest that one client leaves
// to other clients: one in so many.
const (
	keptShare   = 10
	othersShare = 4
)

// newPlaces makes places for so many requests. At least one is for everybody.
func newPlaces(number int) *places {
	kept := min((number+keptShare-1)/keptShare, number-1)
	open := number - kept
	return &places{
		reads: budget.NewTurns(open, open-open/othersShare),
		open:  make(chan struct{}, open), kept: make(chan struct{}, kept),
	}
}

// take waits for a place until the context ends. Of the sends who waits first has the next place.
func (p *places) take(ctx context.Context, c class) (got place, waited bool, err error) {
	kept := p.kept
	if c != classSend {
		kept = nil
		if got.turn, err = p.reads.Enter(ctx, budget.FromContext(ctx), 1, false); err != nil {
			return place{}, true, err
		}
		waited = got.turn.Waited()
	}
	for _, token := range []chan struct{}{p.open, kept} {
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
	case kept <- struct{}{}:
		got.token = kept
	case <-ctx.Done():
		got.turn.Leave()
		return place{}, true, ctx.Err()
	}
	return got, true, nil
}

// free gives a place back.
func (p place) free() {
	<-p.token
	p.turn.Leave()
}

// class is what a request to a mirror node is for.
type class int

const (
	classRead class = iota // an answer for a client
	classSend              // the submission of a transaction
)

func (c class) String() string { return [...]string{"read", "send"}[c] }

type classKey struct{}

// ForSend says that what is read under a context is for the submission of a transaction. Places are kept for such
// requests, and they do not wait for the same read of somebody else.
func ForSend(ctx context.Context) context.Context {
	return context.WithValue(ctx, classKey{}, classSend)
}

func classOf(ctx context.Context) class {
	c, _ := ctx.Value(classKey{}).(class)
	return c
}

// place waits for a place at a mirror node, as long as a request may take. A probe is like a send: whether a mirror
// node answers must be known when it is most asked.
func (f *Fetcher) place(ctx context.Context, d *address, q Request) (place, error) {
	c := classOf(ctx)
	if q.probe {
		c = classSend
	}
	timed, cancel := context.WithTimeoutCause(ctx, f.config.Timeout.Duration(), errNoPlace)
	defer cancel()
	got, waited, err := d.places.take(timed, c)
	if waited {
		f.metrics.waited.WithLabelValues(c.String()).Inc()
	}
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return place{}, ctx.Err()
	default:
		return place{}, f.unanswered(ctx, errNoPlace)
	}
}

// placesByHost makes places for each host among addresses.
type placesByHost struct {
	number int
	hosts  map[string]*places
}

func (p *placesByHost) at(u *url.URL) *places {
	if p.hosts[u.Host] == nil {
		p.hosts[u.Host] = newPlaces(p.number)
	}
	return p.hosts[u.Host]
}
