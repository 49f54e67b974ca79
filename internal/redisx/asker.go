package redisx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrResting says that Redis failed a moment ago and is not asked.
var ErrResting = errors.New("redis failed a moment ago")

// Asker makes round trips with a deadline. After a failure none is tried for a while, and then one
// caller finds out whether Redis is back, so that a dead server costs next to nothing.
type Asker struct {
	client         redis.UniversalClient
	timeout, pause time.Duration
	rest           atomic.Int64 // Unix nanoseconds until which Redis is left alone; 0: it answered last
}

// NewAsker makes an Asker. The timeout is that of a round trip, the pause how long Redis is
// left alone after a failure.
func NewAsker(client redis.UniversalClient, timeout, pause time.Duration) *Asker {
	return &Asker{client: client, timeout: timeout, pause: pause}
}

// Ask makes a round trip with a deadline, or returns ErrResting. That there is no such
// key is no failure of Redis; what was asked returns it.
func (a *Asker) Ask(ctx context.Context, ask func(context.Context, redis.UniversalClient) error) error {
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
	case errors.As(err, &answered):
		a.rest.Store(0)
		err = fmt.Errorf("redis: %w", err)
	case ctx.Err() != nil: // the caller's end says nothing of Redis: if this was the one that tries, another does
		a.rest.CompareAndSwap(trial, now.UnixNano())
	default:
		a.rest.Store(time.Now().Add(a.pause).UnixNano())
		err = fmt.Errorf("redis: %w", err)
	}
	return err
}
