package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
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
