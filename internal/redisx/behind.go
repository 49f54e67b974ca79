package redisx

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Behind talks to Redis for those who must not wait for it. Writes go behind the
// caller's back, many in one round trip, and what cannot be written is lost. Reads and
// writes go by way of one Asker.
//
// It is for knowledge that may be lost: whoever writes repeats what matters.
type Behind struct {
	*Asker
	opts BehindOptions
	wake chan struct{}

	mu    sync.Mutex
	queue []Write // guarded by mu
}

// Write is some commands for a pipeline.
type Write struct {
	Name string                                 // for whoever is told that it was lost
	Do   func(context.Context, redis.Pipeliner) // adds the commands; must not wait
}

// BehindOptions shape a Behind.
type BehindOptions struct {
	Timeout time.Duration // of every round trip
	Rest    time.Duration // how long Redis is left alone after a failure
	Queue   int           // maximum number of writes that wait
	Quota   *Quota        // that the writes take from; nil: none
	// Lost is told of a write that was lost; the error is nil if there was no room.
	Lost func(w Write, err error)
}

// batch is how many writes share a round trip.
const batch = 512

// NewBehind makes a Behind. Run does its work.
func NewBehind(client redis.UniversalClient, opts BehindOptions) *Behind {
	return &Behind{Asker: NewAsker(client, opts.Timeout, opts.Rest), opts: opts, wake: make(chan struct{}, 1)}
}

// Put queues a write. It never blocks.
func (b *Behind) Put(w Write) {
	b.mu.Lock()
	room := len(b.queue) < b.opts.Queue
	if room {
		b.queue = append(b.queue, w)
	}
	b.mu.Unlock()
	if !room {
		b.opts.Lost(w, nil)
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and then what is left, once. Its error is nil.
func (b *Behind) Run(ctx context.Context) error {
	writing := context.WithoutCancel(ctx) // every round trip has a deadline of its own
	for {
		select {
		case <-ctx.Done():
			b.flush(writing)
			return nil
		case <-b.wake:
			b.flush(writing)
		}
	}
}

func (b *Behind) flush(ctx context.Context) {
	for {
		writes := b.take()
		if len(writes) == 0 {
			return
		}
		if err := b.write(ctx, writes); err != nil {
			for _, w := range writes {
				b.opts.Lost(w, err)
			}
		}
	}
}

func (b *Behind) take() []Write {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), batch)
	writes := b.queue[:n:n]
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil // releases the array
	}
	return writes
}

func (b *Behind) write(ctx context.Context, writes []Write) error {
	return b.Ask(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, w := range writes {
				w.Do(ctx, p)
			}
			return nil
		})
		if err == nil && b.opts.Quota != nil {
			err = b.opts.Quota.Settle(ctx, client)
		}
		return err
	})
}
