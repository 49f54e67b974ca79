package fetch

import (
	"context"
	"errors"
	"net/url"
)

// errNoPlace says that as many requests as are allowed are under way at a mirror node, and that none of them ended in
// time. The cause is in this process, not in the mirror node.
var errNoPlace = errors.New("too many requests to the mirror node at once")

// places bounds the requests that are under way at one host. A request takes a place before its time begins, so that
// waiting for a place does not look like a mirror node that does not answer.
//
// A tenth of the places is for sends alone: slow reads, such as simulations of long calls, may take all others for as
// long as they like, and a transaction is checked all the same.
type places struct {
	open chan struct{} // has a token for each request in a place for everybody
	kept chan struct{} // the same, of the places for sends
}

// keptShare is the part of the places that is for sends: one in so many.
const keptShare = 10

// newPlaces makes places for so many requests. At least one is for everybody.
func newPlaces(number int) *places {
	kept := min((number+keptShare-1)/keptShare, number-1)
	return &places{open: make(chan struct{}, number-kept), kept: make(chan struct{}, kept)}
}

// take waits for a place until the context ends. It returns where the token is to be taken out again. Who waits
// first has the next place.
func (p *places) take(ctx context.Context, c class) (place chan struct{}, waited bool, err error) {
	select {
	case p.open <- struct{}{}:
		return p.open, false, nil
	default:
	}
	kept := p.kept
	if c != classSend {
		kept = nil
	}
	select {
	case kept <- struct{}{}:
		return kept, false, nil
	default:
	}
	select {
	case p.open <- struct{}{}:
		return p.open, true, nil
	case kept <- struct{}{}:
		return kept, true, nil
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

// free gives a place back.
func free(place chan struct{}) { <-place }

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
func (f *Fetcher) place(ctx context.Context, d *address, q Request) (chan struct{}, error) {
	c := classOf(ctx)
	if q.probe {
		c = classSend
	}
	timed, cancel := context.WithTimeoutCause(ctx, f.config.Timeout.Duration(), errNoPlace)
	defer cancel()
	place, waited, err := d.places.take(timed, c)
	if waited {
		f.metrics.waited.WithLabelValues(c.String()).Inc()
	}
	switch {
	case err == nil:
		return place, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, f.unanswered(ctx, errNoPlace)
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
