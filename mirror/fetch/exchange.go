package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/sleep"
)

// Do sends a request to the best mirror node. If that does not answer, another one is asked at once; when none is
// left the request is repeated where configured. While all healthy ones throttle, Do waits. All requests are
// reads, simulated calls included, so that each may be made twice.
func (f *Fetcher) Do(ctx context.Context, q Request, read Read) (any, error) {
	f.retryBudget.deposit()
	retries := max(q.Retries, f.config.Retries)
	var asked tried
	end := time.Now().Add(f.config.Timeout.Duration())
	for attempt := 1; ; {
		i, err := f.choose(ctx, q.Service, asked)
		chosen := err == nil
		var value any
		if chosen {
			if value, err = f.hedged(ctx, i, q, read); err == nil {
				return value, nil
			}
		}
		asked |= 1 << i
		if f.fault(q, err) && f.left(q.Service, asked) {
			if !f.repeat("failover") {
				return nil, err
			}
			continue
		}
		if throttled(err) && f.waitForThrottle(ctx, q.Service, end, chosen) {
			asked = 0
			continue
		}
		if !chosen || attempt > retries || !f.retryable(err) || !f.repeat("retry") {
			return nil, err
		}
		delay := jitter(time.Duration(attempt) * f.config.RetryDelay.Duration())
		if resumes, well := f.resumes(q.Service); well {
			delay = max(delay, time.Until(resumes))
		}
		f.deps.Log.DebugContext(ctx, "repeating a mirror node request", "path", q.Label, "attempt", attempt, "error", err)
		if delay > f.config.Timeout.Duration() || !sleep.For(ctx, delay) {
			return nil, err
		}
		asked = 0
		attempt++
	}
}

// throttled tells whether the error says that a mirror node throttles.
func throttled(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.retryAfter > 0
}

// maxWaiting bounds the requests that wait for mirror nodes that throttle.
const maxWaiting = 1024

// waitForThrottle waits until a mirror node that throttled may be asked again, and tells whether the request is
// to be made then. It is not if that would be too late, if too many wait, or, for a request that was made
// already, if the budget forbids it.
func (f *Fetcher) waitForThrottle(ctx context.Context, s Service, end time.Time, made bool) bool {
	now := time.Now()
	until, well := f.resumes(s)
	pause := max(until.Sub(now), 0)
	pause += rand.N(pause/4 + 1) // waiting requests must not come all at once
	if !well || now.Add(pause).After(end) {
		return false
	}
	if made && !f.repeat("retry") {
		return false
	}
	defer f.waiting.Add(-1)
	return f.waiting.Add(1) <= maxWaiting && sleep.For(ctx, pause)
}

// repeat takes a further request from the budget.
func (f *Fetcher) repeat(kind string) bool {
	if !f.retryBudget.take() {
		kind = "denied"
	}
	f.metrics.repeated.WithLabelValues(kind).Inc()
	return kind != "denied"
}

// fault tells whether an error is the mirror node's own, so that another one may answer. The error of a
// simulation may be the simulation's own fault.
func (f *Fetcher) fault(q Request, err error) bool {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrTooLong) || aboutUs(err) {
		return false
	}
	return e.Status == http.StatusTooManyRequests || ill(q, e)
}

// ill tells whether a failure means that a service is not healthy.
func ill(q Request, e *Error) bool {
	if q.Body != nil && e.cause == nil && e.Status == http.StatusInternalServerError {
		return false
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// retryable tells whether there was no answer, or one that the settings name.
func (f *Fetcher) retryable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == StatusNoAnswer || e.cause != nil && e.Status == StatusTimeout || f.retryCodes[e.Status]
}

// settle tells the upstream's breaker how a request ended that began then. A caller that gave up says nothing about it.
func (f *Fetcher) settle(ctx context.Context, u *upstream, q Request, began time.Time, err error) {
	d, now := u.address(q.Service), time.Now()
	var e *Error
	switch isError := errors.As(err, &e); {
	case err == nil || err == ErrNotFound: //nolint:errorlint // made in attempt, never wrapped
		d.succeeded(now)
		d.outage.Up(ctx)
	case !isError || errors.Is(err, ErrTooLong) || aboutUs(err):
	case e.retryAfter > 0:
		d.throttled(now.Add(e.retryAfter), e)
	case !ill(q, e):
		d.succeeded(now)
		d.outage.Up(ctx)
	case d.failed(began, now, e), f.config.BreakerFailures == 0:
		d.outage.Down(ctx, e)
	}
}

// hedged makes a request. If there is no answer in the usual time, it makes the same request to another mirror
// node or, if there is none, over another connection. The first answer counts and ends the other request.
func (f *Fetcher) hedged(ctx context.Context, first int, q Request, read Read) (any, error) {
	delay := f.hedgeDelay(f.upstreams[first], q)
	if delay == 0 {
		return f.attempt(ctx, f.upstreams[first], q, read)
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		value any
		err   error
	}
	outcomes := make(chan outcome, 2)
	try := func(i int) {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					f.deps.Log.Error("panic while reading from the mirror node", "panic", p, "stack", string(debug.Stack()))
					outcomes <- outcome{err: ErrPanic}
				}
			}()
			started := time.Now()
			value, err := f.attempt(ctx, f.upstreams[i], q, read)
			if caller.Err() == nil && (err == nil || errors.Is(err, ErrNotFound) || ctx.Err() != nil) {
				f.upstreams[i].note(q.Label, time.Since(started))
			}
			outcomes <- outcome{value, err}
		}()
	}
	try(first)
	running := 1
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case o := <-outcomes:
			if running--; o.err == nil || running == 0 || !f.fault(q, o.err) {
				return o.value, o.err
			}
		case <-timer.C:
			if second, err := f.second(ctx, first, q.Service); err == nil && f.repeat("hedge") {
				try(second)
				running++
			}
		}
	}
}

// second finds a mirror node for a hedge.
func (f *Fetcher) second(ctx context.Context, first int, s Service) (int, error) {
	if len(f.upstreams) == 1 {
		return first, nil
	}
	return f.choose(ctx, s, 1<<first)
}

// usualThrottle is how long a mirror node is not asked that throttles without naming a time.
const usualThrottle = 500 * time.Millisecond

// longestThrottle bounds the time that a mirror node can ask for by Retry-After.
const longestThrottle = time.Minute

// jitter spreads a delay over 75 % to 125 % of it.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d*3/4 + rand.N(d/2+1)
}

// Pause waits for about d, up to a quarter more or less, or until the context ends: then it returns false.
func Pause(ctx context.Context, d time.Duration) bool { return sleep.For(ctx, jitter(d)) }

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
	_, err := f.attempt(ctx, u, Request{Label: "blocks", Path: NewestBlock, probe: true}, f.deps.Newest)
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
		if at, _ := u.rest.resumes(); now.Before(at) {
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
				f.deps.Log.DebugContext(ctx, "mirror node probe failed", "upstream", u.name, "error", err)
			}
		})
	}
}

// headFloor is the highest block that any answer named. No later answer may come from a mirror node that does not
// have it.
type headFloor struct {
	number atomic.Uint64
	seenAt atomic.Int64 // when an answer last named that block, in Unix nanoseconds
}

// saw notes the highest block that an answer named, and whether a caller learns it.
func (h *headFloor) saw(number uint64, told bool) {
	if told {
		raise(&h.number, number)
	}
	if number >= h.number.Load() {
		h.seenAt.Store(time.Now().UnixNano())
	}
}

// lower forgets the blocks above a number.
func (h *headFloor) lower(number uint64) {
	h.number.Store(number)
	h.seenAt.Store(time.Now().UnixNano())
}

// Raise notes a block that later answers must have, though no mirror node named it.
func (f *Fetcher) Raise(number uint64) { f.floor.saw(number, true) }

// ChainReset tells whether the block of the head floor must be gone, because the head was below it for too long:
// a test network can be reset. Then everything known is forgotten.
func (f *Fetcher) ChainReset(ctx context.Context, head uint64) bool {
	hold := f.config.HeadHold.Duration()
	if time.Since(time.Unix(0, f.floor.seenAt.Load())) < hold || head >= f.floor.number.Load() {
		return false
	}
	f.Reset(ctx, head, "no mirror node has shown the newest block for a long time")
	return true
}

// Reset forgets a chain that does not exist any more.
func (f *Fetcher) Reset(ctx context.Context, head uint64, why string) {
	f.deps.Log.WarnContext(ctx, "the network was reset: everything known of it is forgotten", "reason", why, "known", f.floor.number.Load(), "head", head)
	f.lowerFloor(head)
}

// lowerFloor forgets the blocks after a block.
func (f *Fetcher) lowerFloor(head uint64) {
	f.floor.lower(head)
	for _, u := range f.upstreams {
		u.head.Store(0)
	}
	f.deps.Forget()
}

// generationHeader is in the answers of mirror nodes of development networks, which can go back to an earlier
// state. It has the number of the answer's history, which only grows, and the newest block that was left when
// that history began. No other mirror node sends it.
const generationHeader = "Lockstep-Generation"

// errGone means that the answer is from a history that is gone.
var errGone = errors.New("the network went back while the mirror node answered")

// checkGeneration notes the history of an answer. A later one than before means that everything known is out of
// date; an earlier one means that the answer is.
func (f *Fetcher) checkGeneration(h http.Header) error {
	text := h.Get(generationHeader)
	if text == "" {
		return nil
	}
	number, at, _ := strings.Cut(text, ":")
	generation, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // a development network does not send this
	}
	f.generationMu.Lock()
	defer f.generationMu.Unlock()
	known := f.generation
	switch {
	case generation < known:
		return errGone
	case generation == known:
		return nil
	}
	f.generation = generation
	if known == 0 {
		return nil
	}
	block, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		block = 0
	}
	f.deps.Log.Debug("the network went back: everything known of it is forgotten", "block", block)
	f.lowerFloor(block)
	if f.deps.WentBack != nil {
		f.deps.WentBack(block)
	}
	return nil
}

// Generation is the number of the answers' history; 0: the mirror node names none.
func (f *Fetcher) Generation() uint64 {
	f.generationMu.Lock()
	defer f.generationMu.Unlock()
	return f.generation
}

const (
	keptTimes   = 128 // maximum, of recent answers of one kind
	neededTimes = 20  // before they show what is usual
	refreshed   = 8   // answers after which the usual time is computed again
	usualShare  = 95  // percent of the answers come in the usual time
)

// latencies are how long a mirror node's recent answers took, by kind of request. A request that another one
// overtook counts with its time until then.
type latencies struct {
	mu     sync.Mutex
	byKind map[string]*times // guarded by mu
}

type times struct {
	recent [keptTimes]time.Duration // a ring
	noted  int
	usual  time.Duration // 0: not known yet
}

// note adds a time.
func (l *latencies) note(kind string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byKind[kind]
	if t == nil {
		if l.byKind == nil {
			l.byKind = make(map[string]*times)
		}
		t = new(times)
		l.byKind[kind] = t
	}
	t.recent[t.noted%keptTimes] = took
	t.noted++
	if t.noted >= neededTimes && (t.usual == 0 || t.noted%refreshed == 0) {
		sorted := slices.Sorted(slices.Values(t.recent[:min(t.noted, keptTimes)]))
		t.usual = max(1, sorted[len(sorted)*usualShare/100])
	}
}

// usual returns the time in which all but the slowest answers come; 0 if there are too few yet.
func (l *latencies) usual(kind string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.byKind[kind]; t != nil {
		return t.usual
	}
	return 0
}

// hedgeDelay is how long a request waits for its answer until it is made again; 0 means for ever.
func (f *Fetcher) hedgeDelay(u *upstream, q Request) time.Duration {
	least, most := f.config.HedgeDelay.Duration(), f.config.HedgeDelayMax.Duration()
	if least == 0 || q.Waits {
		return 0
	}
	return max(least, min(u.latencies.usual(q.Label), most))
}
