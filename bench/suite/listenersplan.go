package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"lockstep/bench"
)

// hearing is one measurement of listeners: clients over WebSocket that subscribe to newHeads.
type hearing struct {
	relays int           // each with an audience of its own
	each   int           // connections of a relay
	heads  int           // blocks that the listeners are told of
	pace   time.Duration // from one block to the next
	settle bool          // wait until the relays have given back what the handshakes took
}

// fullHearing is what the row measures. A process may have 20,000 open files on the machines that this was made for, and a
// connection is one at both ends: so six relays and six audiences share them.
func fullHearing() hearing {
	return hearing{relays: 6, each: 16_667, heads: 30, pace: 2 * time.Second, settle: true}
}

// shortened is a hearing of seconds.
func (h hearing) shortened() hearing {
	h.relays, h.each, h.heads, h.pace, h.settle = 2, 150, 4, 0, false
	return h
}

func (h hearing) connections() int { return h.relays * h.each }

// heard is what a hearing showed.
type heard struct {
	tally
	made      []int64 // Unix milliseconds at which each block could be seen at the mirror node
	delivery  bench.Histogram
	fanOut    bench.Histogram // from the first listener of a relay that had the head
	resident  float64         // bytes of all relays, less what they had before
	live      float64         // bytes of heap and stacks of all relays, less what they had before
	afterward float64         // as resident, when all heads are told
	cpu       float64         // seconds of all relays while the heads were told
}

// settings are those of a relay that takes so many connections.
func (h hearing) settings() []string {
	limit := strconv.Itoa(h.each + 100)
	return []string{
		"HTTP_CONNECTION_LIMIT=" + limit, "HTTP_CONNECTION_LIMIT_PER_IP=" + limit,
		"WS_CONNECTION_LIMIT=" + limit, "WS_CONNECTION_LIMIT_PER_IP=" + limit, "WS_MAX_IN_FLIGHT=128",
	}
}

// hear runs a hearing.
func (l *lab) hear(ctx context.Context, h hearing) (*heard, error) {
	chain, err := l.library(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer chain.kill()
	var relays []*relay
	defer func() {
		for _, r := range relays {
			r.kill()
		}
	}()
	for range h.relays {
		r, err := l.relay(ctx, chain.network, nil, h.settings()...)
		if err != nil {
			return nil, err
		}
		relays = append(relays, r)
	}
	live, err := memoryOf(ctx, relays) // it takes memory the first time, so it comes first
	if err != nil {
		return nil, err
	}
	resident := residentOf(relays)
	var audiences []*audience
	defer func() {
		for _, a := range audiences {
			a.kill()
		}
	}()
	for i, r := range relays {
		a, err := l.audience(ctx, r, i, h.each)
		if err != nil {
			return nil, err
		}
		audiences = append(audiences, a)
	}
	if err := l.seated(ctx, audiences); err != nil {
		return nil, err
	}
	if h.settle {
		settle(ctx, relays)
	}
	out := &heard{resident: residentOf(relays) - resident}
	l.take(ctx, relays[0], "listeners")
	before := cpuOf(relays)
	if err := out.tell(ctx, h, chain, audiences); err != nil {
		return nil, err
	}
	out.cpu = cpuOf(relays) - before
	l.profiling.Wait() // the relay is ended next
	out.afterward = residentOf(relays) - resident
	after, err := memoryOf(ctx, relays)
	if err != nil {
		return nil, err
	}
	out.live = after - live
	l.profileHeap(ctx, relays, "listeners")
	return out, nil
}

// settle waits until the relays have given back what the handshakes took: until they hold no less for some seconds.
func settle(ctx context.Context, relays []*relay) {
	const steady, longest = 5, 60 // seconds
	least, since := residentOf(relays), 0
	for range longest {
		if since == steady {
			return
		}
		wait(ctx, time.Second)
		since++
		if now := residentOf(relays); now < 0.99*least {
			least, since = now, 0
		}
	}
}

func residentOf(relays []*relay) (total float64) {
	for _, r := range relays {
		total += r.anonymous()
	}
	return total
}

// seated waits until all connections have their subscriptions.
func (l *lab) seated(ctx context.Context, audiences []*audience) error {
	const limit = 20 * time.Minute // for a hundred thousand handshakes
	return poll(ctx, limit, 100*time.Millisecond, func() error {
		for _, a := range audiences {
			if err := a.seated(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// tell makes the blocks and waits until everybody has been told of them, or will not be.
func (o *heard) tell(ctx context.Context, h hearing, chain *library, audiences []*audience) error {
	first := chain.blocks.First + int64(len(chain.blocks.Transactions))
	for _, a := range audiences {
		if err := a.expect(ctx, first, h.heads); err != nil {
			return err
		}
	}
	start := time.Now()
	for i := range h.heads {
		wait(ctx, time.Until(start.Add(time.Duration(i)*h.pace)))
		made, err := chain.add(ctx, 1, blockSize)
		if err != nil {
			return err
		}
		if made.First != first+int64(i) {
			return fmt.Errorf("block %d came where %d was to come", made.First, first+int64(i))
		}
		o.made = append(o.made, made.Visible)
	}
	wait(ctx, h.pace)
	err := poll(ctx, startLimit, 100*time.Millisecond, func() error {
		tallies, err := talliesOf(ctx, audiences, "")
		if err != nil {
			return &fatal{err}
		}
		if missing := sum(tallies).Missing; missing > 0 {
			return &late{missing}
		}
		return nil
	})
	var missing *late // they are counted, and no reason to show nothing
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	tallies, err := talliesOf(ctx, audiences, "?times")
	if err != nil {
		return err
	}
	o.tally = sum(tallies)
	o.judge(tallies)
	return nil
}

func talliesOf(ctx context.Context, audiences []*audience, query string) (all []tally, err error) {
	for _, a := range audiences {
		t, err := a.tally(ctx, query)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

type late struct{ missing int }

func (e *late) Error() string { return fmt.Sprintf("%d heads were not delivered", e.missing) }

func sum(tallies []tally) (total tally) {
	for _, t := range tallies {
		total.Missing += t.Missing
		total.Twice += t.Twice
		total.Disordered += t.Disordered
		total.Other += t.Other
		total.Closed += t.Closed
	}
	return total
}

// judge reads the times of delivery. The audiences say how many had a head in each millisecond.
func (o *heard) judge(tallies []tally) {
	for _, t := range tallies {
		for i, arrivals := range t.Arrivals {
			first := int64(math.MaxInt64)
			for at := range arrivals {
				first = min(first, at)
			}
			for at, n := range arrivals {
				for range n {
					o.delivery.Record(time.Duration(at-o.made[i]) * time.Millisecond)
					o.fanOut.Record(time.Duration(at-first) * time.Millisecond)
				}
			}
		}
	}
}

// loadAverage is how many threads wanted a processor in the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	average, _, found := strings.Cut(string(text), " ")
	if err != nil || !found {
		return "not known"
	}
	return average
}

// listening is the row: so many connections that each is told of every block.
func listening(ctx context.Context, l *lab, t *table, runs int) error {
	h := fullHearing()
	if l.short {
		h = h.shortened()
	}
	all := float64(h.connections())
	t.want("connections with a subscription", "", atLeast(100_000, "100,000"), "")
	for _, name := range []string{"missing", "twice, or not to come", "out of order", "connections that broke"} {
		t.want(name, "", always(0, "0 in every run"), "")
	}
	t.want("delivered p50", "ms", nil, "")
	t.want("delivered p99", "ms", atMost(1000, "1,000"), "")
	t.want("delivered at the latest", "ms", nil, "")
	t.want("from the relay's first listener, p99", "ms", nil, "")
	t.want("resident memory per connection", "KB", atMost(10, "10"), "")
	t.want("resident memory per connection, when the heads are told", "KB", nil, "")
	t.want("heap and stacks per connection", "KB", nil, "")
	t.want("CPU of the relays per head delivered", "µs", nil, "")
	before := loadAverage()
	for range runs {
		o, err := l.hear(ctx, h)
		if err != nil {
			return err
		}
		millis := func(d time.Duration) float64 { return float64(d.Milliseconds()) }
		t.ours("connections with a subscription", "", all)
		t.ours("missing", "", float64(o.Missing))
		t.ours("twice, or not to come", "", float64(o.Twice+o.Other))
		t.ours("out of order", "", float64(o.Disordered))
		t.ours("connections that broke", "", float64(o.Closed))
		t.ours("delivered p50", "ms", millis(o.delivery.Quantile(.5)))
		t.ours("delivered p99", "ms", millis(o.delivery.Quantile(.99)))
		t.ours("delivered at the latest", "ms", millis(o.delivery.Max()))
		t.ours("from the relay's first listener, p99", "ms", millis(o.fanOut.Quantile(.99)))
		t.ours("resident memory per connection", "KB", o.resident/all/1024)
		t.ours("resident memory per connection, when the heads are told", "KB", o.afterward/all/1024)
		t.ours("heap and stacks per connection", "KB", o.live/all/1024)
		t.ours("CPU of the relays per head delivered", "µs", o.cpu/all/float64(h.heads)*1e6)
	}
	t.note(fmt.Sprintf("%d relays with %d connections each, and as many clients' processes, which share the processors; %d blocks of %d transactions, one every %v.",
		h.relays, h.each, h.heads, blockSize, h.pace))
	t.note("Delivered: from the moment at which the mirror node has the block until the client has read the notification. The relay asks for new blocks every 500 ms (WS_POLLING_INTERVAL), which is part of it.")
	t.note("What else ran on the machine: its load average was " + before + " before the row began. A delivery is a matter of processors, so the times mean something only of a machine that does nothing else.")
	t.note("Resident memory is that of the relays' processes, without the pages of the program itself, with all connections and subscriptions, once what the handshakes took is given back, less what it was before. Heap and stacks are after a collection.")
	return nil
}
