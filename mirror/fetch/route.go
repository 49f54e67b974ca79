package fetch

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tried is a set of upstreams, by their place in the list.
type tried uint32

func (t tried) has(i int) bool { return t&(1<<i) != 0 }

// choose finds the mirror node for a request, among those that were not tried for it yet. It is the first of the
// list that answers, that is not far behind another, and that has the head floor: reads that follow each other
// must not go back in time. If none has it, the nearest one gets some time. With an error it returns the mirror
// node that caused it.
func (f *Fetcher) choose(ctx context.Context, s Service, not tried) (int, error) {
	now := time.Now()
	if len(f.upstreams) == 1 {
		return 0, f.upstreams[0].address(s).enter(now)
	}
	floor, best := f.floor.number.Load(), f.best(now)
	nearest := -1
	for i, u := range f.upstreams {
		if not.has(i) || !f.takes(u, s, now) {
			continue
		}
		head := u.head.Load()
		if head >= floor && head+f.config.MaxLag >= best {
			return i, nil
		}
		if nearest < 0 || head > f.upstreams[nearest].head.Load() {
			nearest = i
		}
	}
	if nearest < 0 {
		var err error
		if nearest, err = f.anyAddress(s, not, now); err != nil {
			return nearest, err
		}
	}
	return nearest, f.catchUp(ctx, f.upstreams[nearest])
}

// takes tells whether an upstream takes a request when others may do so as well. Only requests can find out
// whether a web3 service is back.
func (f *Fetcher) takes(u *upstream, s Service, now time.Time) bool {
	d := u.address(s)
	return d.healthy(now) || s == Web3 && d != u.rest && d.enter(now) == nil
}

// anyAddress finds an upstream that may be tried although it failed.
func (f *Fetcher) anyAddress(s Service, not tried, now time.Time) (found int, err error) {
	for i, u := range f.upstreams {
		if not.has(i) {
			continue
		}
		if found, err = i, u.address(s).enter(now); err == nil {
			return i, nil
		}
	}
	return found, err
}

// best is the highest block of the mirror nodes that answer.
func (f *Fetcher) best(now time.Time) (best uint64) {
	for _, u := range f.upstreams {
		if u.rest.healthy(now) {
			best = max(best, u.head.Load())
		}
	}
	return best
}

// left tells whether there is an upstream that was not tried and that answers.
func (f *Fetcher) left(s Service, not tried) bool {
	now := time.Now()
	for i, u := range f.upstreams {
		if !not.has(i) && u.address(s).healthy(now) {
			return true
		}
	}
	return false
}

// resumes returns when the first healthy mirror node may be asked again after it throttled. The time has passed
// if one may be asked now. well is false if none is healthy.
func (f *Fetcher) resumes(s Service) (first time.Time, well bool) {
	for _, u := range f.upstreams {
		if at, ok := u.address(s).resumes(); ok && (!well || at.Before(first)) {
			first, well = at, true
		}
	}
	return first, well
}

// errBehind says that a mirror node does not know yet what another one has told, so that its lists could lack
// something.
func errBehind() error {
	return &Error{Status: http.StatusServiceUnavailable, Message: "the mirror node is behind what was answered before"}
}

// catchUp returns when the mirror node has the head floor. All callers share one wait.
func (f *Fetcher) catchUp(ctx context.Context, u *upstream) error {
	if u.head.Load() >= f.floor.number.Load() {
		return nil
	}
	_, err := f.catchingUp.Do(ctx, u.name, func(ctx context.Context) (any, error) {
		const pause = 200 * time.Millisecond
		for end := time.Now().Add(f.config.CatchUp.Duration()); ; {
			if err := f.probe(ctx, u); err != nil {
				return nil, err
			}
			switch {
			case u.head.Load() >= f.floor.number.Load():
				return nil, nil
			case f.ChainReset(ctx, u.head.Load()):
				return nil, nil
			case time.Now().After(end):
				return nil, errBehind()
			}
			if !Pause(ctx, pause) {
				return nil, ctx.Err()
			}
		}
	})
	return err
}

// probe asks a mirror node for its newest block. The result is noted like that of any request.
func (f *Fetcher) probe(ctx context.Context, u *upstream) error {
	_, err := f.attempt(ctx, u, Request{Label: "blocks", Path: NewestBlock, probe: true}, f.newest)
	if err == ErrNotFound { //nolint:errorlint // attempt returns it bare
		return nil
	}
	return err
}

// probeFor is probe with a time limit, if the mirror node does not answer requests at present: an answer that
// takes longer does not show that it is back.
func (f *Fetcher) probeFor(ctx context.Context, u *upstream, limit time.Duration) error {
	if u.rest.healthy(time.Now()) {
		return f.probe(ctx, u)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f.probe(ctx, u)
}

// Run watches the mirror nodes until the context ends. When there are several, it asks each for its newest block
// in every interval. It asks a single one only while that does not answer, to notice its return.
func (f *Fetcher) Run(ctx context.Context) error {
	done := make(chan struct{})
	for _, u := range f.upstreams {
		go func() {
			f.watch(ctx, u)
			done <- struct{}{}
		}()
	}
	for range f.upstreams {
		<-done
	}
	return ctx.Err()
}

func (f *Fetcher) watch(ctx context.Context, u *upstream) {
	interval := f.config.HealthInterval.Duration()
	var probes sync.WaitGroup
	defer probes.Wait()
	var probing atomic.Bool
	// It looks twice in an interval, so that with jitter and all the return of a mirror node is noticed within one.
	for look := 1; Pause(ctx, interval/2); look++ {
		now := time.Now()
		if u.rest.resting(now) {
			continue
		}
		// While it is healthy, every second look is enough, and one probe at a time. If it is not, a probe that hangs
		// must not keep the next one back: that may be the first one that is answered. Their time bounds their number.
		if u.rest.healthy(now) && (len(f.upstreams) == 1 || look%2 != 0 || probing.Load()) {
			continue
		}
		probing.Store(true)
		probes.Go(func() {
			defer probing.Store(false)
			if err := f.probeFor(ctx, u, interval); err != nil {
				f.log.DebugContext(ctx, "mirror node probe failed", "upstream", u.name, "error", err)
			}
		})
	}
}
