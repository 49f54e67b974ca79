package main

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/proctest"
)

// queued is the row of clients that wait over HTTP, each with a connection of its own, for the turn of their transaction:
// the node keeps the first of each sender until all are there.
func queued(s *scenario) {
	senders, count := 50, 200
	if s.short {
		senders, count = 20, 10
	}
	wantCounts(s.table, "", senders*count, "")
	for range s.runs { // each with a relay of its own: memory that one has taken is not given back at once
		s.part(func(s *scenario) { s.queue(senders, count) })
	}
	s.note("%d senders with %d transactions each, over as many connections; the node keeps the first of each sender until all wait.", senders, count)
	s.note("Resident memory is that of the relay's process, without the pages of the program itself, less what it was before anybody connected. Heap and stacks are after a collection.")
}

// queue is one run.
func (s *scenario) queue(senders, count int) {
	b := s.fleet(false, 0)
	all := senders * count
	// Clients wait for as long as the machine needs to bring all of them there.
	relays := b.start(1, false, false, fmt.Sprint("HTTP_CONNECTION_LIMIT=", all+1000), fmt.Sprint("HTTP_CONNECTION_LIMIT_PER_IP=", all+1000),
		"SERVER_REQUEST_TIMEOUT_MS=600000", "SDK_REQUEST_TIMEOUT=300s", "LOCK_MAX_HOLD_MS=300000", "NONCE_GAP_HOLD_MS=300000")
	b.fire(load{name: "queued, before", relays: relays, senders: 10, count: 2})
	before, taken := s.live(relays), memoryOf(relays, proctest.Anonymous)
	o := b.fire(load{
		name: "queued", relays: relays, senders: senders, count: count, connections: all, timeout: 10 * time.Minute, hold: true,
		during: func(ctx context.Context) error {
			defer b.net.behave(conduct{})
			return s.play(ctx, s.table, 1, func(s *scenario) {
				s.inProgress(relays, all)
				s.atRest(relays) // what is looked up for them takes longer
				s.settle(relays)
				s.ours("resident memory per connection", "KB", (memoryOf(relays, proctest.Anonymous)-taken)/float64(all)/1024, atMost(20))
				s.ours("heap and stacks per connection", "KB", (s.live(relays)-before)/float64(all)/1024)
			})
		},
	})
	o.counts(s.table, false, "")
	s.ours("connections with a transaction", "", float64(all), atLeast(10_000))
}

// inProgress waits until the relays have that many transactions in hand.
func (s *scenario) inProgress(relays []*relay, total int) {
	s.until(5*time.Minute, func() error {
		have := 0.0
		for _, r := range relays {
			n, err := r.metric(s.ctx, "rpc_relay_tx_in_progress")
			if err != nil {
				return err
			}
			have += n
		}
		if int(have) < total {
			return fmt.Errorf("%.0f of %d transactions wait", have, total)
		}
		return nil
	})
}

// atRest waits until the relays use next to no processor time: all that is left of what was under way waits for something.
func (s *scenario) atRest(relays []*relay) {
	const (
		look  = 500 * time.Millisecond
		least = 0.2 // of a processor
	)
	s.until(time.Minute, func() error {
		before := cpuOf(relays)
		s.pause(look)
		if used := (cpuOf(relays) - before) / look.Seconds(); used > least {
			return fmt.Errorf("the relays still use %.2f processors", used)
		}
		return nil
	})
}

// settle waits until the relays have given back what connecting took: until they hold no less for some seconds.
func (s *scenario) settle(relays []*relay) {
	const steady, longest = 5, 60 // seconds
	least, since := memoryOf(relays, proctest.Anonymous), 0
	for i := 0; i < longest && since < steady; i++ {
		s.pause(time.Second)
		since++
		if now := memoryOf(relays, proctest.Anonymous); now < 0.99*least {
			least, since = now, 0
		}
	}
}
