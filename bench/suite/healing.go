package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// healing puts fleets through one short failure each while clients send, and judges by the network's own
// log and by every client's answer. Each run has a network, a Redis and relays of its own.
func healing(ctx context.Context, l *lab, t *table, runs int) error {
	var chosen []shortFailure
	for _, h := range shortFailures() {
		if l.cases == "" || strings.Contains(","+l.cases+",", ","+h.id+",") {
			chosen = append(chosen, h)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("there is no case of %q; there are %s", l.cases, strings.Join(shortFailureNames(), ", "))
	}
	for _, h := range chosen {
		if l.short {
			h = h.shortened()
		}
		h.targets(t)
		for run := range runs {
			l.say("  %s, run %d …\n", h.id, run+1)
			v, err := l.suffer(ctx, h)
			if err != nil {
				return fmt.Errorf("%s: %w", h.id, err)
			}
			v.enter(t, h)
		}
	}
	t.grid = healingColumns
	t.note("executed: of what was sent, without what was refused for lack of room and what followed that, and, where nothing is sent again, without what the killed relay did not answer. paid: refused by consensus, which the operator pays for.")
	t.note("told false: a client heard that its transaction failed, and it was executed. broken: a client got a hash, and it was never executed.")
	t.note("A run lasts until nothing is executed any more; seconds are to the last answer and the last execution, slowest is the longest wait for an answer.")
	return nil
}

// The columns of the row of short failures.
const (
	colSent     = "sent"
	colExecuted = "executed, %"
	colTwice    = "twice"
	colOrder    = "wrong order"
	colFalse    = "told false"
	colBroken   = "broken"
	colPaid     = "paid"
	colSeconds  = "seconds"
	colSlowest  = "slowest"
)

var healingColumns = []string{colSent, colExecuted, colTwice, colOrder, colFalse, colBroken, colPaid, colSeconds, colSlowest}

// targets declares what a short failure may cost. A hole may cost each relay one rejection.
func (h shortFailure) targets(t *table) {
	for _, column := range healingColumns {
		var b *bound
		switch column {
		case colExecuted:
			b = &bound{text: "≥ 99", met: func(v []float64) bool { return spreadOf(v).Min >= 99 }}
		case colTwice, colOrder, colFalse, colBroken:
			b = always(0, "0")
		case colPaid:
			b = never(float64(h.fleet*h.holes()), fmt.Sprint(h.fleet*h.holes()))
		case colSlowest:
			b = never(60, "60")
		}
		t.want(cell(h.id, column), "", b, "")
	}
}

// holes is how many holes a short failure makes at least: one in the line of each sender that it befalls.
func (h shortFailure) holes() int {
	if h.one {
		return 1
	}
	return h.senders
}

func cell(id, column string) string { return id + ": " + column }

// enter adds what a run showed.
func (v verdict) enter(t *table, h shortFailure) {
	for name, value := range map[string]float64{
		colSent: float64(v.sent), colExecuted: v.share(), colTwice: float64(v.twice), colOrder: float64(v.disorder),
		colFalse: float64(v.toldFalse), colBroken: float64(v.broken), colPaid: float64(v.paid),
		colSeconds: v.took.Seconds(), colSlowest: v.slowest.Seconds(),
	} {
		t.ours(cell(h.id, name), "", value)
	}
	for said, n := range v.answers {
		t.count(h.id+" answered: "+said, n)
	}
}

// shortFailure is one case.
type shortFailure struct {
	id, title string
	fleet     int // relays; more than one share a Redis
	settings  []string
	senders   int
	count     int           // of each sender
	tested    bool          // the tests run it, shortened
	one       bool          // it befalls one transaction
	sticky    bool          // each sender keeps to a relay; else its transactions alternate
	resend    resend        // what clients send again
	unheard   bool          // what a relay did not answer was in its hands alone, and is not counted
	lasts     time.Duration // the trouble
	quiet     time.Duration // how long nothing must be executed for the run to be over; 0: quietTime
	rules     string        // of spoiled calls, from the start; %v is lasts
	trouble   func(ctx context.Context, s *trial) error
}

// resend is what clients send again, to the next relay.
type resend uint8

const (
	nothingAgain resend = iota
	unanswered          // what got no answer
	noRoom              // what found the queue full, and what followed that
)

const quietTime = 3 * time.Second

// shortFailures are all cases, in the order in which they are measured.
func shortFailures() []shortFailure {
	one := func(id, title, rule string, lasts time.Duration, settings ...string) shortFailure {
		return shortFailure{
			id: id, title: title, fleet: 1, senders: 1, count: 100, one: true, tested: id != "hangs", lasts: lasts, quiet: lasts + quietTime, settings: settings,
			rules: `[{"at":"submit","body":"ethereumTransaction","skip":10,"times":1,` + rule + `}]`,
		}
	}
	mirror := func(id, rule string) shortFailure {
		return shortFailure{
			id: id, title: "the mirror node fails for 5 s", fleet: 1, tested: id == "mirror-503", senders: 8, count: 50, lasts: 5 * time.Second,
			trouble: spoilMirror(`[{"at":"mirror",` + rule + `}]`),
		}
	}
	const second = time.Second
	all := []shortFailure{
		{id: "calm", title: "no trouble", fleet: 2, senders: 8, count: 100},
		one("vanished", "a node takes it, and consensus never sees it", `"vanish":true`, 0),
		one("vanished-two-open", "the same with NONCE_ORDERING_MAX_OPEN=2", `"vanish":true`, 0, "NONCE_ORDERING_MAX_OPEN=2"),
		one("hangs", "the node hangs on one for ever", `"delay":"1h"`, 0),
		one("dropped", "the node drops one", `"dropBefore":true`, 0),
		one("answer-lost", "the node takes one and drops the connection", `"dropAfter":true`, 0),
		one("late", "one is executed 15 s late", `"delay":"%v"`, 15*second),
		{tested: true, id: "killed", title: "kill -9 of one of two relays", fleet: 2, senders: 8, count: 250, resend: unanswered, trouble: killRelay},
		{id: "killed-not-resent", title: "kill -9 of one of two relays, each sender at one; nothing is sent again", fleet: 2, senders: 8, count: 250, sticky: true, unheard: true, trouble: killRelay},
		{tested: true, id: "stopped", title: "SIGSTOP of one of two relays, alternating", fleet: 2, senders: 8, count: 100, lasts: 40 * second, trouble: stopRelay},
		{id: "stopped-sticky", title: "SIGSTOP of one of two relays, each sender at one", fleet: 2, senders: 8, count: 100, sticky: true, lasts: 40 * second, trouble: stopRelay},
		{tested: true, id: "redis-3s", title: "Redis paused for 3 s", fleet: 2, senders: 8, count: 100, lasts: 3 * second, trouble: stopRedis},
		{id: "redis-1.5s", title: "Redis paused for 1.5 s", fleet: 2, senders: 8, count: 150, lasts: 3 * second / 2, trouble: stopRedis},
		{id: "overflow", title: "1,000 of one sender, room for 100", fleet: 1, senders: 1, count: 1000, settings: []string{"LOCK_MAX_QUEUE_PER_SENDER=100"}},
		{tested: true, id: "overflow-resent", title: "the same, clients send again", fleet: 1, senders: 1, count: 1000, resend: noRoom, settings: []string{"LOCK_MAX_QUEUE_PER_SENDER=100"}},
		{tested: true, id: "async-redis", title: "async, window 2 s, Redis paused for 2 s", fleet: 2, senders: 1, count: 100, lasts: 2 * second, settings: []string{async, "NONCE_GAP_HOLD_MS=2000"}, trouble: stopRedis},
		{id: "async-no-window", title: "async, no window, no trouble", fleet: 2, senders: 1, count: 100, settings: []string{async, "NONCE_GAP_HOLD_MS=0"}},
		{tested: true, id: "async-killed", title: "async, kill -9 of one of two relays", fleet: 2, senders: 8, count: 100, resend: unanswered, quiet: 15 * second, settings: []string{async}, trouble: killRelay},
		mirror("mirror-503", `"httpStatus":503`),
		mirror("mirror-429", `"httpStatus":429,"retryAfter":"1s"`),
		mirror("mirror-hangs", `"hang":true`),
	}
	return all
}

const async = "USE_ASYNC_TX_PROCESSING=true"

func shortFailureNames() []string {
	var names []string
	for _, h := range shortFailures() {
		names = append(names, h.id)
	}
	return names
}

// shortened is the case with less to send, less trouble, and less patience in the relays, for a machine that
// may be slow: a run is over early when all is executed, and what clients send at once may arrive in any order.
func (h shortFailure) shortened() shortFailure {
	h.count = max(h.count/5, 20)
	if h.lasts > 0 {
		h.lasts = max(h.lasts/10, time.Second)
	}
	h.quiet = 2 * time.Minute
	settings := []string{"SDK_GRPC_DEADLINE=1000", "SDK_REQUEST_TIMEOUT=8000", "PROMISES_DEAD_AFTER_MS=1500"}
	if h.resend != noRoom { // else those that have room would wait for those that have none
		settings = append(settings, "NONCE_GAP_HOLD_MS=60000")
	}
	h.settings = append(settings, h.settings...)
	for i, s := range h.settings {
		if s == "LOCK_MAX_QUEUE_PER_SENDER=100" {
			h.settings[i] = "LOCK_MAX_QUEUE_PER_SENDER=20"
		}
	}
	return h
}
