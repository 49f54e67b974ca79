package mirror

import (
	"context"
	"net/http"
	"time"
)

// tried is a set of upstreams, by their place in the list.
type tried uint32

func (t tried) has(i int) bool { return t&(1<<i) != 0 }

// choose finds the mirror node for a request, among those that were not tried for it
// yet. It is the first of the list that answers, that is not far behind another, and
// that knows everything that any answer has told of: reads that follow each other must
// not go back in time. If none knows it all, the one that is nearest gets some time.
// With an error it returns the one that it is about.
func (c *Client) choose(ctx context.Context, s service, not tried) (int, error) {
	now := time.Now()
	if len(c.upstreams) == 1 {
		return 0, c.upstreams[0].door(s).enter(now)
	}
	floor, best := c.tide.floor.Load(), c.best(now)
	nearest := -1
	for i, u := range c.upstreams {
		if not.has(i) || !c.takes(u, s, now) {
			continue
		}
		head := u.head.Load()
		if head >= floor && head+c.config.MaxLag >= best {
			return i, nil
		}
		if nearest < 0 || head > c.upstreams[nearest].head.Load() {
			nearest = i
		}
	}
	if nearest < 0 {
		var err error
		if nearest, err = c.anyDoor(s, not, now); err != nil {
			return nearest, err
		}
	}
	return nearest, c.catchUp(ctx, c.upstreams[nearest])
}

// takes tells whether an upstream takes a request when others may do so as well.
// Nobody but requests finds out whether a web3 service is back.
func (c *Client) takes(u *upstream, s service, now time.Time) bool {
	d := u.door(s)
	return d.healthy(now) || s == web3 && d != u.rest && d.enter(now) == nil
}

// anyDoor finds an upstream that may be tried though it failed.
func (c *Client) anyDoor(s service, not tried, now time.Time) (found int, err error) {
	for i, u := range c.upstreams {
		if not.has(i) {
			continue
		}
		if found, err = i, u.door(s).enter(now); err == nil {
			return i, nil
		}
	}
	return found, err
}

// best is the highest block of the mirror nodes that answer.
func (c *Client) best(now time.Time) (best uint64) {
	for _, u := range c.upstreams {
		if u.rest.healthy(now) {
			best = max(best, u.head.Load())
		}
	}
	return best
}

// left tells whether there is an upstream that was not tried and that answers.
func (c *Client) left(s service, not tried) bool {
	now := time.Now()
	for i, u := range c.upstreams {
		if !not.has(i) && u.door(s).healthy(now) {
			return true
		}
	}
	return false
}

// resumes returns when the first of the mirror nodes that are well may be asked again
// after it throttled: a time that is over if one may be asked now. None may be well.
func (c *Client) resumes(s service) (first time.Time, well bool) {
	for _, u := range c.upstreams {
		if at, ok := u.door(s).resumes(); ok && (!well || at.Before(first)) {
			first, well = at, true
		}
	}
	return first, well
}

// errBehind says that what was told of by one mirror node is not known by the other
// yet, so that its lists could lack something.
func errBehind() error {
	return &Error{Status: http.StatusServiceUnavailable, Message: "the mirror node is behind what was answered before"}
}

// catchUp returns when the mirror node knows what answers have told of. Callers wait
// together.
func (c *Client) catchUp(ctx context.Context, u *upstream) error {
	if u.head.Load() >= c.tide.floor.Load() {
		return nil
	}
	_, err := c.flights.do(ctx, "catch up "+u.name, func(ctx context.Context) (any, error) {
		const pause = 200 * time.Millisecond
		for patience := time.Now().Add(c.config.CatchUp.Duration()); ; {
			if err := c.probe(ctx, u); err != nil {
				return nil, err
			}
			switch {
			case u.head.Load() >= c.tide.floor.Load():
				return nil, nil
			case c.sank(ctx, u.head.Load()):
				return nil, nil
			case time.Now().After(patience):
				return nil, errBehind()
			}
			if err := wait(ctx, jitter(pause)); err != nil {
				return nil, err
			}
		}
	})
	return err
}

// probe asks a mirror node for its newest block. The answer, or the lack of one, is
// noted like that of any request.
func (c *Client) probe(ctx context.Context, u *upstream) error {
	_, err := c.attempt(ctx, u, request{label: "blocks", path: newestBlock, probe: true}, func(r *reader) any {
		c.blockList("").readPage(r, new(page[Block]))
		return nil
	})
	if err == ErrNotFound { //nolint:errorlint // attempt returns it bare
		return nil
	}
	return err
}

// Run looks after the mirror nodes until the context ends: when there are several,
// each is asked for its newest block in every interval; a single one is asked only
// while it does not answer, to notice when it does again.
func (c *Client) Run(ctx context.Context) error {
	done := make(chan struct{})
	for _, u := range c.upstreams {
		go func() {
			c.watch(ctx, u)
			done <- struct{}{}
		}()
	}
	for range c.upstreams {
		<-done
	}
	return ctx.Err()
}

func (c *Client) watch(ctx context.Context, u *upstream) {
	for wait(ctx, jitter(c.config.HealthInterval.Duration())) == nil {
		if len(c.upstreams) == 1 && u.rest.healthy(time.Now()) || u.rest.resting(time.Now()) {
			continue
		}
		if err := c.probe(ctx, u); err != nil {
			c.log.DebugContext(ctx, "mirror node probe failed", "upstream", u.name, "error", err)
		}
	}
}
