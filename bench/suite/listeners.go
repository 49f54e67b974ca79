package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// mostHeads is how many heads a listener keeps apart: a bit for each.
const mostHeads = 64

// listener is one connection with a subscription to newHeads.
type listener struct {
	upgraded   bool
	subscribed bool
	rest       []byte // of a message that is not complete
	seen       uint64 // a bit for each head that is expected
	last       int64  // number of the newest head
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
	ls.tally = tally{Subscribed: ls.Subscribed, Closed: ls.Closed, Arrivals: make([]map[int64]int, heads)}
	for i := range ls.Arrivals {
		ls.Arrivals[i] = map[int64]int{}
	}
	for _, c := range ls.all {
		c.seen, c.last = 0, 0
	}
}

// fail notes why listening cannot go on.
func (ls *listeners) fail(err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.Failure = err.Error()
}

// state is what was counted by now, with the times of arrival if they are wanted: they take a while.
func (ls *listeners) state(times bool) tally {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	t := ls.tally
	t.Missing = ls.heads*len(ls.all) - ls.delivered
	t.Arrivals = nil
	for _, arrivals := range ls.Arrivals {
		if times {
			t.Arrivals = append(t.Arrivals, maps.Clone(arrivals))
		}
	}
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

// serverFrame cuts a frame of a server off, if it is there in full.
func serverFrame(in []byte) (opcode byte, payload, rest []byte, whole bool) {
	if len(in) < 2 {
		return 0, nil, in, false
	}
	size, at, extended := uint64(in[1]&0x7f), 2, 0
	switch size {
	case 126:
		extended = 2
	case 127:
		extended = 8
	}
	if len(in) < at+extended {
		return 0, nil, in, false
	}
	if extended > 0 {
		size = 0
		for _, b := range in[at : at+extended] {
			size = size<<8 | uint64(b)
		}
		at += extended
	}
	if uint64(len(in)-at) < size {
		return 0, nil, in, false
	}
	return in[0] & 0x0f, in[at : at+int(size)], in[at+int(size):], true
}

var (
	noticeStart = []byte(`{"jsonrpc":"2.0","method":"eth_subscription"`)
	numberField = []byte(`"number":"0x`)
)

// headNumber is the number in a notification of newHeads.
func headNumber(text []byte) (number int64, isHead bool) {
	if !bytes.HasPrefix(text, noticeStart) {
		return 0, false
	}
	_, rest, _ := bytes.Cut(text, numberField)
	digits, _, found := bytes.Cut(rest, []byte(`"`))
	number, err := strconv.ParseInt(string(digits), 16, 64)
	return number, found && err == nil
}

// listenersReady is the line that says where a process of listeners is.
type listenersReady struct {
	Listeners bool   `json:"listeners"`
	URL       string `json:"url"`
}

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
	mux.HandleFunc("PUT /suite/heads", ls.putHeads)
	mux.HandleFunc("GET /suite/heads", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(ls.state(r.URL.Query().Has("times"))) // the suite went away
	})
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(listenersReady{Listeners: true, URL: "http://" + l.Addr().String()}); err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: startLimit}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		// Whoever asks is told of a failure.
		if err := ls.listen(ctx, *relay, *count, *network); err != nil {
			ls.fail(err)
		}
		return nil
	})
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return group.Wait()
}

// putHeads says which heads are to come: ?first= and ?count=.
func (ls *listeners) putHeads(w http.ResponseWriter, r *http.Request) {
	first, err1 := strconv.ParseInt(r.URL.Query().Get("first"), 10, 64)
	count, err2 := strconv.Atoi(r.URL.Query().Get("count"))
	if err := errors.Join(err1, err2); err != nil || count < 0 || count > mostHeads {
		http.Error(w, fmt.Sprintf("want first, and a count up to %d", mostHeads), http.StatusBadRequest)
		return
	}
	ls.expect(first, count)
}

// audience is a process of listeners as the suite sees it.
type audience struct {
	*process
	url   string
	count int
}

// audience starts the listeners of a relay, the number-th.
func (l *lab) audience(ctx context.Context, r *relay, number, count int) (*audience, error) {
	const firstNetwork = 16
	p, err := l.start("listeners", nil, l.self, "listeners", "-relay", strings.TrimPrefix(r.ws, "ws://"),
		"-count", strconv.Itoa(count), "-network", strconv.Itoa(firstNetwork+number))
	if err != nil {
		return nil, err
	}
	a := &audience{process: p, count: count}
	err = p.ready(ctx, func(line []byte) bool {
		var ready listenersReady
		if json.Unmarshal(line, &ready) != nil || !ready.Listeners {
			return false
		}
		a.url = ready.URL
		return true
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return a, nil
}

// tally asks for what was counted, of the query "?times" with the times of arrival.
func (a *audience) tally(ctx context.Context, query string) (t tally, err error) {
	err = request(ctx, http.MethodGet, a.url+"/suite/heads"+query, "", &t)
	if err == nil && t.Failure != "" {
		err = fmt.Errorf("%s: %s", a.name, t.Failure)
	}
	return t, err
}

// seated fails until all connections have their subscriptions.
func (a *audience) seated(ctx context.Context) error {
	t, err := a.tally(ctx, "")
	switch {
	case err != nil:
		return &fatal{err}
	case t.Closed > 0:
		return &fatal{fmt.Errorf("%d connections broke before all were there", t.Closed)}
	case t.Subscribed < a.count:
		return fmt.Errorf("%d of %d connections have a subscription", t.Subscribed, a.count)
	}
	return nil
}

func (a *audience) expect(ctx context.Context, first int64, heads int) error {
	return request(ctx, http.MethodPut, fmt.Sprintf("%s/suite/heads?first=%d&count=%d", a.url, first, heads), "", nil)
}
