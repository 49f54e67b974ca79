package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// thousand is a crowd over two relays: first as fast as it comes, then with the network
// holding everything back, to see what those that wait need.
func thousand(ctx context.Context, l *lab, t *table, runs int) error {
	const senders, count = 1000, 20
	t.want("accepted", "tx/s", nil, "")
	wantCounts(t, "", senders*count, "")
	t.figure("unanswered", "tx").peer = "200 of 1,800 hang, 600 senders"
	t.want("memory per waiting transaction, WebSocket", "KB", atMost(8, "8"), "")
	t.want("memory per transaction, those at a node included, WebSocket", "KB", nil, "")
	t.want("memory per transaction, HTTP with its connection", "KB", nil, "")
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	relays, err := pair(func() (*relay, error) { return b.relay(ctx, b.redis, "NONCE_GAP_HOLD_MS=30000") })
	if err != nil {
		return err
	}
	for range runs {
		o, err := l.fire(ctx, b.net, b.redis, load{
			name: "thousand", relays: relays, senders: senders, count: count, spacing: apart, conduct: usual(),
		})
		if err != nil {
			return err
		}
		t.ours("accepted", "tx/s", o.rate())
		o.costs(t, false, "")
		o.failures(t, false, "")
		held := func(how string, count int, webSocket bool) (before, meanwhile float64, err error) {
			return l.held(ctx, b, relays, t, how, load{
				name: "thousand", relays: relays, senders: senders, count: count, webSocket: webSocket,
			})
		}
		const few, many = 2, 10
		_, less, err := held("WebSocket", few, true)
		if err != nil {
			return err
		}
		before, more, err := held("WebSocket", many, true)
		if err != nil {
			return err
		}
		t.ours("memory per waiting transaction, WebSocket", "KB", (more-less)/(senders*(many-few))/1024)
		t.ours("memory per transaction, those at a node included, WebSocket", "KB", (more-before)/(senders*many)/1024)
		if before, more, err = held("HTTP with its connection", few, false); err != nil {
			return err
		}
		t.ours("memory per transaction, HTTP with its connection", "KB", (more-before)/(senders*few)/1024)
	}
	t.note("Memory is the live heap after a collection, and the stacks, while the network takes nothing. One transaction of each sender is at a node then: what one that waits needs is the difference between ten of each sender and two. The other figures are less what there was before the load connected; over HTTP each has a connection of its own.")
	t.note("The baseline is left out: 20,000 waiters that poll every 50 ms are 400,000 polls a second.")
	return nil
}

// held holds a load back at the network and returns the relays' memory before that and
// meanwhile.
func (l *lab) held(ctx context.Context, b *bed, relays []*relay, t *table, how string, q load) (before, meanwhile float64, err error) {
	total := q.senders * q.count
	if before, err = memoryOf(ctx, relays); err != nil {
		return 0, 0, err
	}
	q.conduct = conduct{Hold: true}
	q.during = func(ctx context.Context) error {
		err := inProgress(ctx, relays, total)
		if err == nil {
			if meanwhile, err = memoryOf(ctx, relays); err == nil {
				l.profileHeap(ctx, relays, fmt.Sprintf("%s, %d each", how, q.count))
			}
		}
		if openErr := b.net.behave(ctx, conduct{}); openErr != nil {
			return openErr
		}
		return err
	}
	o, err := l.fire(ctx, b.net, b.redis, q)
	if err != nil {
		return 0, 0, err
	}
	if !o.Clean() {
		t.note(fmt.Sprintf("Held back over %s: %d wrong nonce, %d unanswered, %d executed of %d.",
			how, o.Chain.WrongNonce, o.Unanswered, o.Chain.Executed, total))
	}
	return before, meanwhile, nil
}

// profileHeap keeps what the relays' heaps and goroutines are, if that is wanted.
func (l *lab) profileHeap(ctx context.Context, relays []*relay, how string) {
	if l.profiles == "" {
		return
	}
	for i, r := range relays {
		for name, path := range map[string]string{"heap": "heap?gc=1", "heap.txt": "heap?gc=1&debug=1", "goroutines.txt": "goroutine?debug=1"} {
			var text string
			err := request(ctx, http.MethodGet, r.admin+"/debug/pprof/"+path, "", &text)
			if err == nil {
				err = os.WriteFile(filepath.Join(l.profiles, fmt.Sprintf("waiting %s-%d.%s", how, i, name)), []byte(text), 0o600)
			}
			if err != nil {
				l.say("no profile of %s: %v\n", how, err)
			}
		}
	}
}

func memoryOf(ctx context.Context, relays []*relay) (live float64, err error) {
	for _, r := range relays {
		m, err := r.memory(ctx)
		if err != nil {
			return 0, err
		}
		live += m
	}
	return live, nil
}

// inProgress waits until the relays have that many transactions in hand.
func inProgress(ctx context.Context, relays []*relay, total int) error {
	return inProgressWithin(ctx, 15*time.Second, relays, total)
}

func inProgressWithin(ctx context.Context, limit time.Duration, relays []*relay, total int) error {
	return poll(ctx, limit, 20*time.Millisecond, func() error {
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
