package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/bench"
	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// listening is the row: so many connections that each is told of every block. A process may have 20,000 open files on the
// machines that this was made for, and a connection is one at both ends: so six relays and six processes of clients share them.
func listening(ctx context.Context, l *lab, t *table, runs int) error {
	h := listenPlan{relays: 6, each: 16_667, heads: 12, pace: 6 * time.Second}
	if l.short {
		h = shortListening
	}
	all := float64(h.relays * h.each)
	t.want("connections with a subscription", "", atLeast(100_000), "")
	for _, name := range []string{"missing", "twice, or not to come", "out of order", "connections that broke"} {
		t.want(name, "", always(0), "")
	}
	t.want("delivered p50", "ms", nil, "")
	t.want("delivered p99", "ms", atMost(1500), "")
	t.want("delivered at the latest", "ms", nil, "")
	t.want("from the relay's first listener, p99", "ms", nil, "")
	t.want("resident memory per connection", "KB", atMost(12), "")
	for range runs {
		o, err := l.listenTo(ctx, h)
		if err != nil {
			return err
		}
		t.ours("connections with a subscription", "", all)
		t.ours("missing", "", float64(o.Missing))
		t.ours("twice, or not to come", "", float64(o.Twice+o.Other))
		t.ours("out of order", "", float64(o.Disordered))
		t.ours("connections that broke", "", float64(o.Closed))
		t.ours("delivered p50", "ms", float64(o.delivery.Quantile(.5).Milliseconds()))
		t.ours("delivered p99", "ms", float64(o.delivery.Quantile(.99).Milliseconds()))
		t.ours("delivered at the latest", "ms", float64(o.delivery.Max().Milliseconds()))
		t.ours("from the relay's first listener, p99", "ms", float64(o.fanOut.Quantile(.99).Milliseconds()))
		t.ours("resident memory per connection", "KB", o.resident/all/1024)
		t.ours("heap and stacks per connection", "KB", o.live/all/1024)
		t.ours("CPU of the relays per head delivered", "µs", o.cpu/all/float64(h.heads)*1e6)
	}
	t.note("%d relays with %d connections each, and as many clients' processes, which share the processors; %d blocks of %d transactions, one every %v.",
		h.relays, h.each, h.heads, blockSize, h.pace)
	t.note("Delivered: from the moment at which the mirror node has the block until the client has read the notification. The relay asks for new blocks every 500 ms (WS_POLLING_INTERVAL), and more often while one is due, which is part of it.")
	t.note("Resident memory is that of the relays' processes, without the pages of the program itself, with all connections and subscriptions, once what the handshakes took is given back, less what it was before. Heap and stacks are after a collection.")
	return nil
}

// listenPlan is one measurement of listeners: clients over WebSocket that subscribe to newHeads.
type listenPlan struct {
	relays int           // each with a process of clients of its own
	each   int           // connections of a relay
	heads  int           // blocks that the listeners are told of
	pace   time.Duration // from one block to the next
}

// shortListening lasts seconds.
var shortListening = listenPlan{relays: 2, each: 150, heads: 4}

// listenResult is what a listenPlan showed.
type listenResult struct {
	tally
	delivery bench.Histogram
	fanOut   bench.Histogram // from the first listener of a relay that had the head
	resident float64         // bytes of all relays, less what they had before
	live     float64         // bytes of heap and stacks of all relays, less what they had before
	cpu      float64         // seconds of all relays while the heads were told
}

// listenTo runs a plan: relays in front of an archive, and the processes of their clients.
func (l *lab) listenTo(ctx context.Context, h listenPlan) (*listenResult, error) {
	chain, err := l.archive(ctx, 1)
	if err != nil {
		return nil, err
	}
	b := &fleet{lab: l, net: chain}
	defer b.close()
	limit := strconv.Itoa(h.each + 100)
	relays, err := b.start(ctx, h.relays, false, nil, "HTTP_CONNECTION_LIMIT="+limit, "HTTP_CONNECTION_LIMIT_PER_IP="+limit,
		"WS_CONNECTION_LIMIT="+limit, "WS_CONNECTION_LIMIT_PER_IP="+limit, "WS_MAX_IN_FLIGHT=128")
	if err != nil {
		return nil, err
	}
	before, err := live(ctx, relays) // it takes memory the first time, so it comes first
	if err != nil {
		return nil, err
	}
	taken := memoryOf(relays, proctest.Anonymous)
	var clients []*relay
	defer func() {
		for _, c := range clients {
			c.Kill()
		}
	}()
	const firstNetwork = 16
	for i, r := range relays {
		p, at, err := l.role(ctx, nil, "listeners", "-relay", strings.TrimPrefix(r.ws, "ws://"), "-count", strconv.Itoa(h.each), "-network", strconv.Itoa(firstNetwork+i))
		if err != nil {
			return nil, err
		}
		clients = append(clients, &relay{process: p, url: at.URL})
	}
	var broken error
	err = proctest.Until(ctx, 20*time.Minute, func() error { // for a hundred thousand handshakes
		var all tally
		if all, _, broken = talliesOf(ctx, clients, ""); broken == nil && all.Closed > 0 {
			broken = fmt.Errorf("%d connections broke before all were there", all.Closed)
		}
		if broken == nil && all.Subscribed < h.each*h.relays {
			return fmt.Errorf("%d of %d connections have a subscription", all.Subscribed, h.each*h.relays)
		}
		return nil
	})
	if err = errors.Join(err, broken); err != nil {
		return nil, err
	}
	if h.pace > 0 {
		settle(ctx, relays)
	}
	out := &listenResult{resident: memoryOf(relays, proctest.Anonymous) - taken}
	cpu := cpuOf(relays)
	if err := out.deliver(ctx, h, chain, clients); err != nil {
		return nil, err
	}
	out.cpu = cpuOf(relays) - cpu
	after, err := live(ctx, relays)
	out.live = after - before
	return out, err
}

// deliver makes the blocks and waits until everybody has been told of them, or will not be.
func (o *listenResult) deliver(ctx context.Context, h listenPlan, chain *network, clients []*relay) error {
	first := chain.blocks.First + int64(len(chain.blocks.Transactions))
	for _, c := range clients {
		if err := request(ctx, http.MethodPut, fmt.Sprintf("%s/suite/heads?first=%d&count=%d", c.url, first, h.heads), "", nil); err != nil {
			return err
		}
	}
	var made []int64 // Unix milliseconds at which each block could be seen at the mirror node
	for i, start := 0, time.Now(); i < h.heads; i++ {
		sleep.For(ctx, time.Until(start.Add(time.Duration(i)*h.pace)))
		block, err := chain.add(ctx, 1)
		if err == nil && block.First != first+int64(i) {
			err = fmt.Errorf("block %d came where %d was to come", block.First, first+int64(i))
		}
		if err != nil {
			return err
		}
		made = append(made, block.Visible)
	}
	sleep.For(ctx, h.pace)
	var broken error
	_ = proctest.Until(ctx, startLimit, func() error { // what is missing then is counted, and no reason to show nothing
		var all tally
		if all, _, broken = talliesOf(ctx, clients, ""); broken == nil && all.Missing > 0 {
			return errors.New("heads are missing")
		}
		return nil
	})
	all, each, err := talliesOf(ctx, clients, "?times")
	o.tally = all
	for _, t := range each {
		for i, arrivals := range t.Arrivals {
			earliest := int64(math.MaxInt64)
			for at := range arrivals {
				earliest = min(earliest, at)
			}
			for at, n := range arrivals {
				for range n {
					o.delivery.Record(time.Duration(at-made[i]) * time.Millisecond)
					o.fanOut.Record(time.Duration(at-earliest) * time.Millisecond)
				}
			}
		}
	}
	return errors.Join(broken, err)
}

// talliesOf asks for what was counted, in sum and of each; of the query "?times" with the times of arrival.
func talliesOf(ctx context.Context, clients []*relay, query string) (total tally, each []tally, err error) {
	for _, c := range clients {
		var t tally
		err := request(ctx, http.MethodGet, c.url+"/suite/heads"+query, "", &t)
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
	Missing    int `json:"missing"`    // heads that a connection has not had
	Twice      int `json:"twice"`      // heads that a connection had before
	Disordered int `json:"disordered"` // heads behind a newer one
	Other      int `json:"other"`      // heads that were not to come
	Closed     int `json:"closed"`     // connections that the relay ended

	Subscribed int `json:"subscribed"` // connections
	// Arrivals says of each head how many connections had it in which millisecond of Unix time.
	Arrivals []map[int64]int `json:"arrivals,omitempty"`
	Failure  string          `json:"failure,omitempty"`
}

// listener is one connection with a subscription to newHeads.
type listener struct {
	upgraded   bool
	subscribed bool
	rest       []byte // of a message that is not complete
	seen       uint64 // a bit for each head that is expected
	last       int64  // number of the newest head
}

// mostHeads is how many heads a listener keeps apart: a bit for each.
const mostHeads = 64

// listeners are the connections of one process.
type listeners struct {
	mu    sync.Mutex // guards all below, and every listener
	all   []*listener
	first int64 // number of the first head that is expected
	heads int   // that are expected of each
	tally

	delivered int // heads that were expected
}

const (
	// upgradeCall and subscribeCall are what a listener sends. Its frame has a mask of zeros.
	upgradeCall   = "GET / HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	subscribeText = `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`
)

var subscribeCall = append([]byte{0x81, 0x80 | byte(len(subscribeText)), 0, 0, 0, 0}, subscribeText...)

// listenersRole is the main function of a process of listeners: it opens the connections, subscribes, and tells over HTTP
// what it has counted.
func listenersRole(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("listeners", flag.ContinueOnError)
	relay := flags.String("relay", "", "`address` of the relay's WebSocket port")
	count := flags.Int("count", 1, "connections")
	network := flags.Int("network", 0, "the connections come from 127.`n`.0.0/16")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ls := new(listeners)
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /suite/heads", func(w http.ResponseWriter, r *http.Request) {
		first, err1 := strconv.ParseInt(r.URL.Query().Get("first"), 10, 64)
		count, err2 := strconv.Atoi(r.URL.Query().Get("count"))
		if err := errors.Join(err1, err2); err != nil || count < 0 || count > mostHeads {
			http.Error(w, fmt.Sprintf("want first, and a count up to %d", mostHeads), http.StatusBadRequest)
			return
		}
		ls.expect(first, count)
	})
	mux.HandleFunc("GET /suite/heads", func(w http.ResponseWriter, r *http.Request) {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		t := ls.state()
		if !r.URL.Query().Has("times") {
			t.Arrivals = nil
		}
		_ = json.NewEncoder(w).Encode(t) // the suite went away
	})
	return serve(ctx, out, ready{}, mux, func(ctx context.Context) error {
		if err := ls.listen(ctx, *relay, *count, *network); err != nil { // whoever asks is told
			ls.mu.Lock()
			defer ls.mu.Unlock()
			ls.Failure = err.Error()
		}
		return nil
	})
}

// add makes a listener of a connection that has sent upgradeCall.
func (ls *listeners) add() *listener {
	c := new(listener)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.all = append(ls.all, c)
	return c
}

// expect forgets what was counted, and says which heads are to come.
func (ls *listeners) expect(first int64, heads int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.first, ls.heads, ls.delivered = first, heads, 0
	ls.tally = tally{Subscribed: ls.Subscribed, Closed: ls.Closed}
	for range heads {
		ls.Arrivals = append(ls.Arrivals, map[int64]int{})
	}
	for _, c := range ls.all {
		c.seen, c.last = 0, 0
	}
}

// state is what was counted by now. The caller holds mu.
func (ls *listeners) state() tally {
	t := ls.tally
	t.Missing = ls.heads*len(ls.all) - ls.delivered
	return t
}

// take reads what has come for a connection; reply is what it is to send then. The caller holds mu.
func (ls *listeners) take(c *listener, in []byte, now time.Time) (reply []byte, err error) {
	if len(c.rest) > 0 {
		in = append(c.rest, in...)
		c.rest = nil
	}
	if !c.upgraded {
		head, rest, found := bytes.Cut(in, []byte("\r\n\r\n"))
		if !found {
			c.rest = bytes.Clone(in)
			return nil, nil
		}
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
			return nil, fmt.Errorf("the relay did not upgrade: %.200s", in)
		}
		c.upgraded, in, reply = true, rest, subscribeCall
	}
	for {
		opcode, message, rest, whole := serverFrame(in)
		if !whole {
			break
		}
		in = rest
		if err := ls.message(c, opcode, message, now); err != nil {
			return nil, err
		}
	}
	if len(in) > 0 {
		c.rest = bytes.Clone(in)
	}
	return reply, nil
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
	i := number - ls.first
	switch {
	case i < 0 || i >= int64(ls.heads):
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
	ls.delivered++
	ls.Arrivals[i][now.UnixMilli()]++
}

// serverFrame cuts a frame of a server off, if it is there in full and shorter than 64 KB.
func serverFrame(in []byte) (opcode byte, payload, rest []byte, whole bool) {
	const extended = 126
	at := 2
	if len(in) < at {
		return 0, nil, in, false
	}
	size := int(in[1] & 0x7f)
	if size == extended {
		if at += 2; len(in) < at {
			return 0, nil, in, false
		}
		size = int(binary.BigEndian.Uint16(in[2:]))
	}
	if len(in)-at < size {
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
