package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// queued is the row of clients that wait over HTTP, each with a connection of its own, for the turn of their transaction:
// the node keeps the first of each sender until all are there.
func queued(ctx context.Context, l *lab, t *table, runs int) error {
	senders, count := 50, 200
	if l.short {
		senders, count = 20, 10
	}
	all := senders * count
	t.want("connections with a transaction", "", atLeast(10_000), "")
	wantCounts(t, "", all, "")
	t.want("resident memory per connection", "KB", atMost(20), "")
	t.want("heap and stacks per connection", "KB", nil, "")
	for range runs {
		if err := l.queue(ctx, t, senders, count); err != nil {
			return err
		}
		t.ours("connections with a transaction", "", float64(all))
	}
	t.note("%d senders with %d transactions each, over as many connections; the node keeps the first of each sender until all wait.", senders, count)
	t.note("Resident memory is that of the relay's process, without the pages of the program itself, less what it was before anybody connected. Heap and stacks are after a collection.")
	return nil
}

// queue is one run. It has a relay of its own: memory that one has taken is not given back at once.
func (l *lab) queue(ctx context.Context, t *table, senders, count int) error {
	b, err := l.fleet(ctx, false)
	if err != nil {
		return err
	}
	defer b.close()
	all := senders * count
	// Clients wait for as long as the machine needs to bring all of them there.
	relays, err := b.start(ctx, 1, false, nil, fmt.Sprint("HTTP_CONNECTION_LIMIT=", all+1000), fmt.Sprint("HTTP_CONNECTION_LIMIT_PER_IP=", all+1000),
		"SERVER_REQUEST_TIMEOUT_MS=600000", "SDK_REQUEST_TIMEOUT=300s", "LOCK_MAX_HOLD_MS=300000", "NONCE_GAP_HOLD_MS=300000")
	if err != nil {
		return err
	}
	if _, err := b.fire(ctx, load{name: "queued, before", relays: relays, senders: 10, count: 2}); err != nil {
		return err
	}
	before, err := live(ctx, relays)
	if err != nil {
		return err
	}
	taken := memoryOf(relays, proctest.Anonymous)
	o, err := b.fire(ctx, load{
		name: "queued", relays: relays, senders: senders, count: count, connections: all, timeout: 10 * time.Minute, hold: true,
		during: func(ctx context.Context) error {
			err := errors.Join(inProgress(ctx, relays, all), atRest(ctx, relays)) // what is looked up for them takes longer
			if err == nil {
				settle(ctx, relays)
				t.ours("resident memory per connection", "KB", (memoryOf(relays, proctest.Anonymous)-taken)/float64(all)/1024)
				var now float64
				now, err = live(ctx, relays)
				t.ours("heap and stacks per connection", "KB", (now-before)/float64(all)/1024)
			}
			return errors.Join(err, b.net.behave(ctx, conduct{}))
		},
	})
	if err == nil {
		o.counts(t, false, "")
	}
	return err
}

// inProgress waits until the relays have that many transactions in hand.
func inProgress(ctx context.Context, relays []*relay, total int) error {
	return proctest.Until(ctx, 5*time.Minute, func() error {
		have := 0.0
		for _, r := range relays {
			m, err := r.metrics(ctx)
			if err != nil {
				return err
			}
			have += m.sum("rpc_relay_tx_in_progress")
		}
		if int(have) < total {
			return fmt.Errorf("%.0f of %d transactions wait", have, total)
		}
		return nil
	})
}

// atRest waits until the relays use next to no processor time: all that is left of what was under way waits for something.
func atRest(ctx context.Context, relays []*relay) error {
	const (
		look  = 500 * time.Millisecond
		least = 0.2 // of a processor
	)
	return proctest.Until(ctx, time.Minute, func() error {
		before := cpuOf(relays)
		sleep.For(ctx, look)
		if used := (cpuOf(relays) - before) / look.Seconds(); used > least {
			return fmt.Errorf("the relays still use %.2f processors", used)
		}
		return nil
	})
}

// settle waits until the relays have given back what connecting took: until they hold no less for some seconds.
func settle(ctx context.Context, relays []*relay) {
	const steady, longest = 5, 60 // seconds
	least, since := memoryOf(relays, proctest.Anonymous), 0
	for i := 0; i < longest && since < steady; i++ {
		sleep.For(ctx, time.Second)
		since++
		if now := memoryOf(relays, proctest.Anonymous); now < 0.99*least {
			least, since = now, 0
		}
	}
}
