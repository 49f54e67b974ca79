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
	"lockstep/internal/sleep"
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
	return hearing{relays: 6, each: 16_667, heads: 12, pace: 6 * time.Second, settle: true}
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

// hall is who tells the listeners: relays and the chain that they follow, or speakers.
type hall struct {
	relays []*relay
	first  int64                                                         // number of the first head
	head   func(ctx context.Context, number int64) (at int64, err error) // at: Unix milliseconds from which a delivery counts
	close  func()
}

// relayHall starts relays in front of a library.
func (l *lab) relayHall(ctx context.Context, h hearing) (*hall, error) {
	chain, err := l.library(ctx, 1)
	if err != nil {
		return nil, err
	}
	s := &hall{first: chain.blocks.First + int64(len(chain.blocks.Transactions))}
	s.close = func() { s.kill(); chain.kill() }
	s.head = func(ctx context.Context, number int64) (int64, error) {
		made, err := chain.add(ctx, 1, blockSize)
		if err == nil && made.First != number {
			err = fmt.Errorf("block %d came where %d was to come", made.First, number)
		}
		return made.Visible, err
	}
	return s, s.start(h, func() (*relay, error) { return l.relay(ctx, chain.network, nil, h.settings()...) })
}

// speakerHall starts speakers.
func (l *lab) speakerHall(ctx context.Context, h hearing) (*hall, error) {
	s := &hall{first: 1}
	s.close = s.kill
	s.head = func(ctx context.Context, number int64) (int64, error) {
		began, err := sayAll(ctx, s.relays, number)
		return began.UnixMilli(), err
	}
	return s, s.start(h, func() (*relay, error) { return l.speaker(ctx) })
}

func (s *hall) start(h hearing, one func() (*relay, error)) error {
	for range h.relays {
		r, err := one()
		if err != nil {
			s.close()
			return err
		}
		s.relays = append(s.relays, r)
	}
	return nil
}

func (s *hall) kill() {
	for _, r := range s.relays {
		r.kill()
	}
}

// hear runs a hearing with relays.
func (l *lab) hear(ctx context.Context, h hearing) (*heard, error) {
	s, err := l.relayHall(ctx, h)
	if err != nil {
		return nil, err
	}
	defer s.close()
	live, err := memoryOf(ctx, s.relays) // it takes memory the first time, so it comes first
	if err != nil {
		return nil, err
	}
	resident := residentOf(s.relays)
	audiences, err := l.assemble(ctx, h, s)
	defer dismiss(audiences)
	if err != nil {
		return nil, err
	}
	if h.settle {
		settle(ctx, s.relays)
	}
	out := &heard{resident: residentOf(s.relays) - resident}
	l.take(ctx, s.relays[0], "listeners")
	if err := out.tell(ctx, h, s, audiences); err != nil {
		return nil, err
	}
	l.profiling.Wait() // the relay is ended next
	out.afterward = residentOf(s.relays) - resident
	after, err := memoryOf(ctx, s.relays)
	if err != nil {
		return nil, err
	}
	out.live = after - live
	l.profileHeap(ctx, s.relays, "listeners")
	return out, nil
}

// hearSpeakers runs a hearing with speakers.
func (l *lab) hearSpeakers(ctx context.Context, h hearing) (*heard, error) {
	s, err := l.speakerHall(ctx, h)
	if err != nil {
		return nil, err
	}
	defer s.close()
	audiences, err := l.assemble(ctx, h, s)
	defer dismiss(audiences)
	if err != nil {
		return nil, err
	}
	out := new(heard)
	return out, out.tell(ctx, h, s, audiences)
}

// assemble starts an audience for each relay, and waits until all connections have their subscriptions.
func (l *lab) assemble(ctx context.Context, h hearing, s *hall) (audiences []*audience, err error) {
	for i, r := range s.relays {
		a, err := l.audience(ctx, r, i, h.each)
		if err != nil {
			return audiences, err
		}
		audiences = append(audiences, a)
	}
	return audiences, l.seated(ctx, audiences)
}

func dismiss(audiences []*audience) {
	for _, a := range audiences {
		a.kill()
	}
}

// settle waits until the relays have given back what the handshakes took: until they hold no less for some seconds.
func settle(ctx context.Context, relays []*relay) {
	const steady, longest = 5, 60 // seconds
	least, since := residentOf(relays), 0
	for range longest {
		if since == steady {
			return
		}
		sleep.For(ctx, time.Second)
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
func (o *heard) tell(ctx context.Context, h hearing, s *hall, audiences []*audience) error {
	for _, a := range audiences {
		if err := a.expect(ctx, s.first, h.heads); err != nil {
			return err
		}
	}
	before := cpuOf(s.relays)
	defer func() { o.cpu = cpuOf(s.relays) - before }()
	start := time.Now()
	for i := range h.heads {
		sleep.For(ctx, time.Until(start.Add(time.Duration(i)*h.pace)))
		at, err := s.head(ctx, s.first+int64(i))
		if err != nil {
			return err
		}
		o.made = append(o.made, at)
	}
	sleep.For(ctx, h.pace)
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
		floor, err := l.hearSpeakers(ctx, h)
		if err != nil {
			return err
		}
		t.ours("connections with a subscription", "", all)
		o.counts(t.ours)
		floor.counts(t.naive)
		o.times(h, t.ours)
		floor.times(h, t.naive)
		t.ours("resident memory per connection", "KB", o.resident/all/1024)
		t.ours("resident memory per connection, when the heads are told", "KB", o.afterward/all/1024)
		t.ours("heap and stacks per connection", "KB", o.live/all/1024)
	}
	t.note(fmt.Sprintf("%d relays with %d connections each, and as many clients' processes, which share the processors; %d blocks of %d transactions, one every %v.",
		h.relays, h.each, h.heads, blockSize, h.pace))
	t.note("Naive is the plainest program that writes heads of this length to so many connections: it checks nothing, follows no chain, and begins to write when the head is there. It shows what the machine and the clients' processes need.")
	t.note("Delivered: from the moment at which the mirror node has the block until the client has read the notification. The relay asks for new blocks every 500 ms (WS_POLLING_INTERVAL), and more often while one is due, which is part of it.")
	t.note("What else ran on the machine: its load average was " + before + " before the row began. A delivery is a matter of processors, so the times mean something only of a machine that does nothing else.")
	t.note("Resident memory is that of the relays' processes, without the pages of the program itself, with all connections and subscriptions, once what the handshakes took is given back, less what it was before. Heap and stacks are after a collection.")
	return nil
}

// counts adds what became of the heads to a table.
func (o *heard) counts(add func(name, unit string, value float64)) {
	add("missing", "", float64(o.Missing))
	add("twice, or not to come", "", float64(o.Twice+o.Other))
	add("out of order", "", float64(o.Disordered))
	add("connections that broke", "", float64(o.Closed))
}

// times adds how long the heads took, and what they cost.
func (o *heard) times(h hearing, add func(name, unit string, value float64)) {
	millis := func(d time.Duration) float64 { return float64(d.Milliseconds()) }
	add("delivered p50", "ms", millis(o.delivery.Quantile(.5)))
	add("delivered p99", "ms", millis(o.delivery.Quantile(.99)))
	add("delivered at the latest", "ms", millis(o.delivery.Max()))
	add("from the relay's first listener, p99", "ms", millis(o.fanOut.Quantile(.99)))
	add("CPU of the relays per head delivered", "µs", o.cpu/float64(h.connections()*h.heads)*1e6)
}
