package redisx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
	"lockstep/internal/sleep"
)

const (
	hintsTimeout = 5 * time.Second  // of telling one word; nobody waits for it
	hintsAgain   = time.Second      // pause after a failure
	hintsCheck   = 15 * time.Second // how often a silent connection is asked whether it lives
)

// Hints carries words between processes over Pub/Sub, for those who would find out without
// them, but later. Redis keeps nothing of it: when Redis is away, empty or full, a word is late
// or lost, and nothing else happens.
type Hints struct {
	client  redis.UniversalClient
	asker   *Asker
	channel string
	changed func(err error)
}

// NewHints parses the URL of a Redis. It does not connect; the caller closes it. Listen calls
// changed when it cannot hear any more, with the reason, and with nil when it hears again.
func NewHints(rawURL, channel string, changed func(err error)) (*Hints, error) {
	client, err := Open(rawURL, Options{Timeout: hintsTimeout, PoolSize: 4})
	if err != nil {
		return nil, err
	}
	return &Hints{client: client, asker: NewAsker(client, AskerOptions{Timeout: hintsTimeout, Pause: hintsAgain}), channel: channel, changed: changed}, nil
}

// Tell says a word to everyone who listens, in any process. It returns at once while Redis rests
// after a failure.
func (h *Hints) Tell(ctx context.Context, word string) error {
	return h.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error { return c.Publish(ctx, h.channel, word).Err() })
}

// Listen calls heard for every word until ctx ends, on a connection of its own that it makes
// again when it breaks; then it calls heard with "", since words may have been lost.
func (h *Hints) Listen(ctx context.Context, heard func(word string)) {
	deaf := false
	for ctx.Err() == nil {
		err := h.listen(ctx, heard, func() {
			if deaf {
				h.changed(nil)
			}
			deaf = false
		})
		if ctx.Err() == nil && !deaf {
			h.changed(err)
			deaf = true
		}
		sleep.For(ctx, hintsAgain)
	}
}

// listen subscribes and receives until the subscription fails, and returns why.
func (h *Hints) listen(ctx context.Context, heard func(word string), hears func()) error {
	sub := h.client.Subscribe(ctx, h.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // nothing else interrupts a read
	defer func() {
		stop()
		_ = sub.Close()
	}()
	asked := false // whether the connection lives, and it has not answered yet
	for {
		got, err := sub.ReceiveTimeout(ctx, hintsCheck)
		if silence, ok := errors.AsType[net.Error](err); ok && silence.Timeout() && !asked {
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			asked = true
			continue
		}
		if err != nil {
			return err
		}
		asked = false
		switch m := got.(type) {
		case *redis.Subscription:
			hears()
			heard("")
		case *redis.Message:
			heard(m.Payload)
		}
	}
}

// Close ends the connections.
func (h *Hints) Close() error { return h.client.Close() }

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
	o.Pause = cmp.Or(o.Pause, time.Second)
	o.Outage = cmp.Or(o.Outage, new(outage.Log))
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
