package redisx

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

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
		var silence net.Error
		if errors.As(err, &silence) && silence.Timeout() && !asked {
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
