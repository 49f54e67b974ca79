package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// ask makes a request and decodes the answer into a value of its own for every
// attempt, since two may be under way at once.
func ask[T any](ctx context.Context, c *Client, q request, read func(*reader, *T)) (*T, error) {
	value, err := c.exchange(ctx, q, func(r *reader) any {
		value := new(T)
		read(r, value)
		return value
	})
	if err != nil {
		return nil, err
	}
	return value.(*T), nil
}

// exchange makes a request of the best mirror node. If that does not answer, another
// one is asked at once; when none is left it is repeated where configured. While all that
// are well have asked not to be asked, it waits. All requests are reads, simulated calls
// included, so that each may be made twice.
func (c *Client) exchange(ctx context.Context, q request, read func(*reader) any) (any, error) {
	c.budget.deposit()
	retries := max(q.retries, c.config.Retries)
	var asked tried
	patience := time.Now().Add(c.config.Timeout.Duration())
	for attempt := 1; ; {
		i, err := c.choose(ctx, q.service, asked)
		chosen := err == nil
		var value any
		if chosen {
			if value, err = c.hedged(ctx, i, q, read); err == nil {
				return value, nil
			}
		}
		asked |= 1 << i
		if c.fault(q, err) && c.left(q.service, asked) {
			if !c.repeat("failover") {
				return nil, err
			}
			continue
		}
		if throttled(err) && c.sitOut(ctx, q.service, patience, chosen) {
			asked = 0
			continue
		}
		if !chosen || attempt > retries || !c.retryable(err) || !c.repeat("retry") {
			return nil, err
		}
		delay := jitter(time.Duration(attempt) * c.config.RetryDelay.Duration())
		if resumes, well := c.resumes(q.service); well {
			delay = max(delay, time.Until(resumes))
		}
		c.log.DebugContext(ctx, "repeating a mirror node request", "path", q.label, "attempt", attempt, "error", err)
		if delay > c.config.Timeout.Duration() || wait(ctx, delay) != nil {
			return nil, err
		}
		asked = 0
		attempt++
	}
}

// throttled tells whether a mirror node asked not to be asked for a while.
func throttled(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.retryAfter > 0
}

// mostWaiting bounds the requests that wait for mirror nodes that throttle.
const mostWaiting = 1024

// sitOut waits until a mirror node that throttled may be asked again, and tells whether the
// request is to be made then. It is not if that would be too late, if too many wait, or, for
// one that was made already, if the budget forbids.
func (c *Client) sitOut(ctx context.Context, s service, patience time.Time, made bool) bool {
	now := time.Now()
	until, well := c.resumes(s)
	pause := max(until.Sub(now), 0)
	pause += rand.N(pause/4 + 1) // who waited does not come all at once
	if !well || now.Add(pause).After(patience) {
		return false
	}
	if made && !c.repeat("retry") {
		return false
	}
	defer c.waiting.Add(-1)
	return c.waiting.Add(1) <= mostWaiting && wait(ctx, pause) == nil
}

// repeat takes a further request from the budget.
func (c *Client) repeat(kind string) bool {
	if !c.budget.take() {
		kind = "denied"
	}
	c.metrics.repeated.WithLabelValues(kind).Inc()
	return kind != "denied"
}

// fault tells whether an error is the mirror node's own: another one may well answer.
// What a simulation did to it may be the simulation's doing.
func (c *Client) fault(q request, err error) bool {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrTooLong) {
		return false
	}
	return e.Status == http.StatusTooManyRequests || ill(q, e)
}

// ill tells whether a failure says that a service is not well.
func ill(q request, e *Error) bool {
	if q.body != nil && e.cause == nil && e.Status == http.StatusInternalServerError {
		return false
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// retryable: nothing was answered, or what the settings say.
func (c *Client) retryable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == StatusNoAnswer || e.cause != nil && e.Status == StatusTimeout || c.retryCodes[e.Status]
}

// settle tells the upstream's breaker how a request went. That the caller gave up
// says nothing.
func (c *Client) settle(ctx context.Context, u *upstream, q request, err error) {
	d := u.door(q.service)
	var e *Error
	switch isError := errors.As(err, &e); {
	case err == nil || err == ErrNotFound: //nolint:errorlint // made in attempt, never wrapped
		d.succeeded()
	case !isError || errors.Is(err, ErrTooLong):
	case e.retryAfter > 0:
		d.throttled(time.Now().Add(e.retryAfter), e)
	case !ill(q, e):
		d.succeeded()
	case d.failed(time.Now(), e):
		c.log.WarnContext(ctx, "a mirror node does not answer; it is asked seldom until it does", "upstream", u.name, "service", q.service.String(), "error", err)
	}
}

// hedged makes a request and, if there is no answer in the usual time, the same of
// another mirror node or, if there is none, over another connection. The first answer
// counts and ends the other request.
func (c *Client) hedged(ctx context.Context, first int, q request, read func(*reader) any) (any, error) {
	delay := c.patience(c.upstreams[first], q)
	if delay == 0 {
		return c.attempt(ctx, c.upstreams[first], q, read)
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
					c.log.Error("panic while reading from the mirror node", "panic", p, "stack", string(debug.Stack()))
					outcomes <- outcome{err: errPanic}
				}
			}()
			started := time.Now()
			value, err := c.attempt(ctx, c.upstreams[i], q, read)
			if caller.Err() == nil && (err == nil || errors.Is(err, ErrNotFound) || ctx.Err() != nil) {
				c.upstreams[i].note(q.label, time.Since(started))
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
			if running--; o.err == nil || running == 0 || !c.fault(q, o.err) {
				return o.value, o.err
			}
		case <-timer.C:
			if second, err := c.second(ctx, first, q.service); err == nil && c.repeat("hedge") {
				try(second)
				running++
			}
		}
	}
}

// second finds a mirror node for a hedge.
func (c *Client) second(ctx context.Context, first int, s service) (int, error) {
	if len(c.upstreams) == 1 {
		return first, nil
	}
	return c.choose(ctx, s, 1<<first)
}

// longestThrottle bounds how long a mirror node can keep requests away by Retry-After.
const longestThrottle = time.Minute

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, longestThrottle)
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(date.Sub(now), 0), longestThrottle)
	}
	return 0
}

// jitter spreads a delay over 75 % to 125 % of it.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d*3/4 + rand.N(d/2+1)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
