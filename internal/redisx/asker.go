package redisx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
)

// Errors of an Asker that has not asked.
var (
	// ErrResting says that Redis failed a moment ago and is not asked.
	ErrResting = errors.New("redis failed a moment ago")
	// ErrNone says that there is no Redis.
	ErrNone = errors.New("there is no redis")
)

// Asker makes round trips for what a fleet shares in Redis and can do without for a while. It has the one policy for that: a
// round trip has a deadline; after a failure none is tried for a while, and then one caller finds out whether Redis is back, so
// that a dead server costs next to nothing. The nil Asker is that of a process without Redis.
type Asker struct {
	client         redis.UniversalClient
	timeout, pause time.Duration
	outage         *outage.Log
	rest           atomic.Int64 // Unix nanoseconds until which Redis is left alone; 0: it answered last
}

// AskerOptions shape an Asker.
type AskerOptions struct {
	Timeout time.Duration // of a round trip
	Pause   time.Duration // how long Redis is left alone after a failure; 0: a second
	Outage  *outage.Log   // is told when Redis is lost and when it is back; nil: nobody is
}

// NewAsker makes an Asker; nil without a client.
func NewAsker(client redis.UniversalClient, o AskerOptions) *Asker {
	if client == nil {
		return nil
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
	if o.Outage == nil {
		o.Outage = new(outage.Log)
	}
	return &Asker{client: client, timeout: o.Timeout, pause: o.Pause, outage: o.Outage}
}

// Ask makes a round trip with a deadline, or returns ErrResting or ErrNone. That there is no such
// key is no failure of Redis; what was asked returns it.
func (a *Asker) Ask(ctx context.Context, ask func(context.Context, redis.UniversalClient) error) error {
	if a == nil {
		return ErrNone
	}
	until, now := a.rest.Load(), time.Now()
	trial := now.Add(a.timeout).UnixNano()
	if until != 0 && (now.UnixNano() < until || !a.rest.CompareAndSwap(until, trial)) {
		return ErrResting
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	err := ask(limited, a.client)
	var answered redis.Error // the server is there, and did not like the question
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		a.rest.Store(0)
		a.outage.Up(ctx)
		return err
	case ctx.Err() != nil && !errors.As(err, &answered): // the caller's end says nothing of Redis: if this was the one that tries, another does
		a.rest.CompareAndSwap(trial, now.UnixNano())
		return err
	case errors.As(err, &answered):
		a.rest.Store(0)
	default:
		a.rest.Store(time.Now().Add(a.pause).UnixNano())
	}
	err = fmt.Errorf("redis: %w", err)
	a.outage.Down(ctx, err)
	return err
}

// Else returns what Redis answers or, where there is none, or while it is away, what this process decides by itself. The end
// of the caller's context does not end the question: it would look like a Redis that does not answer.
func Else[T any](ctx context.Context, a *Asker, ask func(context.Context, redis.UniversalClient) (T, error), alone func() T) T {
	var answer T
	err := a.Ask(context.WithoutCancel(ctx), func(ctx context.Context, c redis.UniversalClient) (err error) {
		answer, err = ask(ctx, c)
		return err
	})
	if err != nil {
		return alone()
	}
	return answer
}
