package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockstep/bench"
	"lockstep/internal/proctest"
)

// listening is the row: so many connections that each is told of every block. A process may have 20,000 open files on the
// machines that this was made for, and a connection is one at both ends: so six relays and six processes of clients share them.
func listening(s *scenario) {
	h := listenPlan{relays: 6, each: 16_667, heads: 12, pace: 6 * time.Second}
	if s.short {
		h = listenPlan{relays: 2, each: 150, heads: 4} // lasts seconds
	}
	for range s.runs {
		s.part(h.run)
	}
	s.note("%d relays with %d connections each, and as many clients' processes, which share the processors; %d blocks of %d transactions, one every %v.",
		h.relays, h.each, h.heads, blockSize, h.pace)
	s.note("Delivered: from the moment at which the mirror node has the block until the client has read the notification. The relay asks for new blocks every 500 ms (WS_POLLING_INTERVAL), and more often while one is due, which is part of it.")
	s.note("Resident memory is that of the relays' processes, without the pages of the program itself, with all connections and subscriptions, once what the handshakes took is given back, less what it was before. Heap and stacks are after a collection.")
}

// listenPlan is one measurement of listeners: clients over WebSocket that subscribe to newHeads.
type listenPlan struct {
	relays int           // each with a process of clients of its own
	each   int           // connections of a relay
	heads  int           // blocks that the listeners are told of
	pace   time.Duration // from one block to the next
}

// run puts relays in front of an archive, and starts the processes of their clients.
func (h listenPlan) run(s *scenario) {
	chain := s.archive(1)
	b := &fleet{scenario: s, net: chain.network}
	limit := strconv.Itoa(h.each + 100)
	relays := b.start(h.relays, false, false, "HTTP_CONNECTION_LIMIT="+limit, "HTTP_CONNECTION_LIMIT_PER_IP="+limit,
		"WS_CONNECTION_LIMIT="+limit, "WS_CONNECTION_LIMIT_PER_IP="+limit, "WS_MAX_IN_FLIGHT=128")
	liveBefore := s.live(relays) // it takes memory the first time, so it comes first
	before := memoryOf(relays, proctest.Anonymous)
	var clients []*relay
	const firstNetwork = 16
	for i, r := range relays {
		clients = append(clients, s.role(nil, "listeners", r.ws, strconv.Itoa(h.each), strconv.Itoa(firstNetwork+i)))
	}
	var broken error
	s.until(20*time.Minute, func() error { // for a hundred thousand handshakes
		var all tally
		if all, _, broken = counted(s.ctx, clients); broken == nil && all.Closed > 0 {
			broken = fmt.Errorf("%d connections broke before all were there", all.Closed)
		}
		if broken == nil && all.Subscribed < h.each*h.relays {
			return fmt.Errorf("%d of %d connections have a subscription", all.Subscribed, h.each*h.relays)
		}
		return nil
	})
	s.must(broken)
	if h.pace > 0 {
		s.settle(relays)
	}
	all, cpu := float64(h.relays*h.each), cpuOf(relays)
	s.ours("connections with a subscription", "", all, atLeast(100_000))
	s.ours("resident memory per connection", "KB", (memoryOf(relays, proctest.Anonymous)-before)/all/1024, atMost(12))
	h.deliver(s, chain, clients)
	s.ours("CPU of the relays per head delivered", "µs", (cpuOf(relays)-cpu)/all/float64(h.heads)*1e6)
	s.ours("heap and stacks per connection", "KB", (s.live(relays)-liveBefore)/all/1024)
}

// deliver makes the blocks and waits until everybody has been told of them, or will not be.
func (h listenPlan) deliver(s *scenario, chain *archive, clients []*relay) {
	for _, one := range clients {
		_, err := request(s.ctx, http.MethodPut, one.url, fmt.Sprintf(`{"first":%d,"heads":%d}`, chain.next, h.heads))
		s.must(err)
	}
	var made []int64 // Unix milliseconds at which each block could be seen at the mirror node
	for i, start := 0, time.Now(); i < h.heads; i++ {
		s.pause(time.Until(start.Add(time.Duration(i) * h.pace)))
		made = append(made, s.addBlock(chain).UnixMilli())
	}
	s.pause(h.pace)
	var all tally
	var each []tally
	var broken error
	_ = proctest.Until(s.ctx, startLimit, func() error { // what is missing then is counted, and no reason to show nothing
		if all, each, broken = counted(s.ctx, clients); broken == nil && all.Missing > 0 {
			return errors.New("heads are missing")
		}
		return nil
	})
	s.must(broken)
	var delivery, fanOut bench.Histogram // the second from the first listener of a relay that had the head
	for _, one := range each {
		for i, arrivals := range one.Arrivals {
			if len(arrivals) == 0 {
				continue
			}
			earliest := slices.Min(slices.Collect(maps.Keys(arrivals)))
			for at, n := range arrivals {
				for range n {
					delivery.Record(time.Duration(at-made[i]) * time.Millisecond)
					fanOut.Record(time.Duration(at-earliest) * time.Millisecond)
				}
			}
		}
	}
	s.ours("missing", "", float64(all.Missing), always(0))
	s.ours("twice, or not to come", "", float64(all.Twice+all.Other), always(0))
	s.ours("out of order", "", float64(all.Disordered), always(0))
	s.ours("connections that broke", "", float64(all.Closed), always(0))
	s.ours("delivered p50", "ms", float64(delivery.Quantile(.5).Milliseconds()))
	s.ours("delivered p99", "ms", float64(delivery.Quantile(.99).Milliseconds()), atMost(1500))
	s.ours("delivered at the latest", "ms", float64(delivery.Max().Milliseconds()))
	s.ours("from the relay's first listener, p99", "ms", float64(fanOut.Quantile(.99).Milliseconds()))
}

// counted asks for what was counted, in sum and of each.
func counted(ctx context.Context, clients []*relay) (total tally, each []tally, err error) {
	for _, one := range clients {
		var t tally
		text, err := request(ctx, http.MethodGet, one.url, "")
		if err == nil {
			err = json.Unmarshal(text, &t)
		}
		if err == nil && t.Failure != "" {
			err = errors.New(t.Failure)
		}
		if err != nil {
			return total, nil, err
		}
		each = append(each, t)
		total.Missing += t.Missing
		total.Twice += t.Twice
		total.Disordered += t.Disordered
		total.Other += t.Other
		total.Closed += t.Closed
		total.Subscribed += t.Subscribed
	}
	return total, each, nil
}

// tally is what a process of listeners has counted.
type tally struct {
	Missing    int // heads that a connection has not had
	Twice      int // heads that a connection had before
	Disordered int // heads behind a newer one
	Other      int // heads that were not to come
	Closed     int // connections that the relay ended

	Subscribed int             // connections
	Arrivals   []map[int64]int // of each head, how many connections had it in which millisecond of Unix time
	Failure    string
}

// listener is one connection with a subscription to newHeads.
type listener struct {
	subscribed bool
	rest       []byte // of a message that is not complete
	seen       uint64 // a bit for each head that is expected
	last       int64  // number of the newest head
}

// listeners are the connections of one process.
type listeners struct {
	mu       sync.Mutex // guards all below, and every listener
	all      []*listener
	expected struct {
		First int64 // number of the first head
		Heads int   // of each listener; 64 at most
	}
	tally
}

// add makes a listener. The caller holds mu.
func (ls *listeners) add() *listener {
	ls.all = append(ls.all, new(listener))
	return ls.all[len(ls.all)-1]
}

// begin forgets what was counted. The caller holds mu.
func (ls *listeners) begin() {
	ls.tally = tally{Subscribed: ls.Subscribed, Closed: ls.Closed, Missing: ls.expected.Heads * len(ls.all), Failure: ls.Failure}
	for range ls.expected.Heads {
		ls.Arrivals = append(ls.Arrivals, map[int64]int{})
	}
	for _, c := range ls.all {
		c.seen, c.last = 0, 0
	}
}

// take reads what has come for a connection. The caller holds mu.
func (ls *listeners) take(c *listener, in []byte, now time.Time) error {
	if len(c.rest) > 0 {
		in = append(c.rest, in...)
	}
	for opcode, message, rest, whole := serverFrame(in); whole; opcode, message, rest, whole = serverFrame(in) {
		in = rest
		if err := ls.message(c, opcode, message, now); err != nil {
			return err
		}
	}
	c.rest = bytes.Clone(in)
	return nil
}

// message counts one message. Those of the relay that keep the connection alive say nothing.
func (ls *listeners) message(c *listener, opcode byte, text []byte, now time.Time) error {
	const closing, textual = 8, 1
	switch head, isHead := headNumber(text); {
	case opcode == closing:
		return fmt.Errorf("the relay closed with %.100q", text)
	case opcode != textual:
	case isHead:
		ls.head(c, head, now)
	case c.subscribed || !bytes.Contains(text, []byte(`"id":1`)):
	case !bytes.Contains(text, []byte(`"result":"0x`)):
		return fmt.Errorf("no subscription: %.200s", text)
	default:
		c.subscribed = true
		ls.Subscribed++
	}
	return nil
}

func (ls *listeners) head(c *listener, number int64, now time.Time) {
	i := number - ls.expected.First
	switch {
	case i < 0 || i >= int64(ls.expected.Heads):
		ls.Other++
		return
	case c.seen&(1<<i) != 0:
		ls.Twice++
		return
	case number < c.last:
		ls.Disordered++
	}
	c.seen |= 1 << i
	c.last = max(c.last, number)
	ls.Missing--
	ls.Arrivals[i][now.UnixMilli()]++
}

// serverFrame cuts a frame of a server off, if it is there in full and shorter than 64 KB.
func serverFrame(in []byte) (opcode byte, payload, rest []byte, whole bool) {
	at, size := 2, 0
	if len(in) >= at {
		if size = int(in[1] & 0x7f); size == 126 { // the size follows
			if at = 4; len(in) >= at {
				size = int(binary.BigEndian.Uint16(in[2:]))
			}
		}
	}
	if len(in) < at+size {
		return 0, nil, in, false
	}
	return in[0] & 0x0f, in[at : at+size], in[at+size:], true
}

// headNumber is the number in a notification of newHeads.
func headNumber(text []byte) (number int64, isHead bool) {
	if !bytes.HasPrefix(text, []byte(`{"jsonrpc":"2.0","method":"eth_subscription"`)) {
		return 0, false
	}
	_, rest, _ := bytes.Cut(text, []byte(`"number":"0x`))
	digits, _, found := bytes.Cut(rest, []byte(`"`))
	number, err := strconv.ParseInt(string(digits), 16, 64)
	return number, found && err == nil
}
