package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/internal/sleep"
)

// queue is one measurement of clients that wait over HTTP, each with a connection of its own, for the turn of their
// transaction.
type queue struct {
	senders, count int
}

func fullQueue() queue { return queue{senders: 50, count: 200} }

// shortened is a queue of seconds.
func (queue) shortened() queue { return queue{senders: 20, count: 10} }

func (q queue) connections() int { return q.senders * q.count }

// queuedFor is what a queue showed.
type queuedFor struct {
	outcome
	resident float64 // bytes of the relay while all wait, less what it had before
	live     float64 // bytes of heap and stacks, likewise
}

// settings let a client wait for as long as the machine needs to bring all of them there.
func (q queue) settings() []string {
	limit := fmt.Sprint(q.connections() + 1000)
	return []string{
		"HTTP_CONNECTION_LIMIT=" + limit, "HTTP_CONNECTION_LIMIT_PER_IP=" + limit,
		"SERVER_REQUEST_TIMEOUT_MS=600000", "SDK_REQUEST_TIMEOUT=300s", "LOCK_MAX_HOLD_MS=300000", "NONCE_GAP_HOLD_MS=300000",
	}
}

// wait lets all queue while the node keeps the first transaction of each sender, and then lets them go.
func (q queue) wait(ctx context.Context, l *lab, b *bed, r *relay) (*queuedFor, error) {
	relays := []*relay{r}
	warm := load{name: "queued, before", relays: relays, senders: 10, count: 2, conduct: usual()}
	if _, err := l.fire(ctx, b.net, nil, warm); err != nil {
		return nil, err
	}
	out := new(queuedFor)
	live, err := r.memory(ctx)
	if err != nil {
		return nil, err
	}
	resident := r.anonymous()
	all := load{
		name: "queued", relays: relays, senders: q.senders, count: q.count, connections: q.connections(), timeout: 10 * time.Minute,
		conduct: conduct{Hold: true},
	}
	all.during = func(ctx context.Context) error {
		err := inProgressWithin(ctx, 5*time.Minute, relays, q.connections())
		if err == nil {
			err = atRest(ctx, time.Minute, relays) // all have come; what is looked up for them takes longer
		}
		if err == nil {
			settle(ctx, relays)
			out.resident = r.anonymous() - resident
			if out.live, err = r.memory(ctx); err == nil {
				out.live -= live
				l.profileHeap(ctx, relays, "queued")
			}
		}
		return errors.Join(err, b.net.behave(ctx, conduct{}))
	}
	out.outcome, err = l.fire(ctx, b.net, nil, all)
	return out, err
}

// atRest waits until the relays use next to no processor time: all that is left of what was under way waits for something.
func atRest(ctx context.Context, limit time.Duration, relays []*relay) error {
	const (
		look  = 500 * time.Millisecond
		least = 0.2 // of a processor
	)
	before := cpuOf(relays)
	sleep.For(ctx, look)
	return poll(ctx, limit, look, func() error {
		now := cpuOf(relays)
		used := (now - before) / look.Seconds()
		before = now
		if used > least {
			return fmt.Errorf("the relays still use %.2f processors", used)
		}
		return nil
	})
}

// queuedConnections is the row: so many connections that each have a transaction whose turn has not come.
func queuedConnections(ctx context.Context, l *lab, t *table, runs int) error {
	q := fullQueue()
	if l.short {
		q = q.shortened()
	}
	all := float64(q.connections())
	t.want("connections with a transaction", "", atLeast(10_000, "10,000"), "")
	wantCounts(t, "", q.connections(), "")
	t.want("resident memory per connection", "KB", atMost(20, "20"), "")
	t.want("heap and stacks per connection", "KB", nil, "")
	for range runs {
		// Each run has a relay and a network of its own: memory that one has taken is not given back at once.
		b, err := l.bed(ctx, false)
		if err != nil {
			return err
		}
		o, err := q.run(ctx, l, b)
		b.close()
		if err != nil {
			return err
		}
		t.ours("connections with a transaction", "", all)
		o.failures(t, false, "")
		t.ours("resident memory per connection", "KB", o.resident/all/1024)
		t.ours("heap and stacks per connection", "KB", o.live/all/1024)
	}
	t.note(fmt.Sprintf("%d senders with %d transactions each, over as many connections; the node keeps the first of each sender until all wait.", q.senders, q.count))
	t.note("Resident memory is that of the relay's process, without the pages of the program itself, less what it was before anybody connected. Heap and stacks are after a collection.")
	return nil
}

func (q queue) run(ctx context.Context, l *lab, b *bed) (*queuedFor, error) {
	r, err := b.relay(ctx, nil, q.settings()...)
	if err != nil {
		return nil, err
	}
	return q.wait(ctx, l, b, r)
}
