package main

import (
	"fmt"
)

// contest is a row of bursts: the same load for each of the cases, in turns.
type contest struct {
	senders, count int
	cases          []contender
}

// contender is a relay, or several on one Redis, or the baseline in its place.
type contender struct {
	label     string
	naive     bool
	relays    int
	redis     bool
	settings  []string
	webSocket bool
	runs      int // at most; 0: as many as there are
	pace      bool
	// What the TypeScript relay showed.
	rate, wrong, cpu, commands, p50, p99 string
	fast                                 *bound // of its rate
	share                                *bound // of the time that the node gives
}

// run takes the figures.
func (k contest) run(s *scenario) {
	redis := false
	for _, c := range k.cases {
		redis = redis || c.redis
		if c.naive {
			continue
		}
		s.want(c.label+"accepted", "tx/s", c.fast, c.rate)
		if c.pace {
			s.want(c.label+"share of 1/(submit latency)", "%", c.share, "")
			s.want(c.label+"hand-off p50, at the node", "ms", nil, c.p50)
			s.want(c.label+"hand-off p99, at the node", "ms", nil, c.p99)
		}
		s.want(c.label+"CPU of the relay", "µs/tx", nil, c.cpu)
		if c.redis {
			s.want(c.label+"Redis commands", "/tx", nil, c.commands)
		}
		wantCounts(s.table, c.label, k.senders*k.count, c.wrong)
	}
	b := s.fleet(redis, 0)
	relays := make([][]*relay, len(k.cases))
	for i, c := range k.cases {
		relays[i] = b.start(max(c.relays, 1), c.naive, c.redis, c.settings...)
	}
	for run := range s.runs {
		for i, c := range k.cases {
			if c.runs > 0 && run >= c.runs {
				continue
			}
			o := b.fire(load{
				name: fmt.Sprintf("%s %s%s", s.ID, c.label, relays[i][0].name), relays: relays[i], state: relays[0][0], redis: c.redis,
				senders: k.senders, count: k.count, spacing: apart, webSocket: c.webSocket,
			})
			o.costs(s.table, c.naive, c.label)
			if c.pace {
				o.pace(s.table, c.naive, c.label)
			}
			o.counts(s.table, c.naive, c.label)
		}
	}
}

const heldBack = "NONCE_GAP_HOLD_MS=5000"

// burst is one sender who sends all at once.
var burst = contest{senders: 1, count: 100, cases: []contender{
	{label: "local, ", pace: true, share: atLeast(90), rate: "18.4", p50: "38.5", p99: "52", cpu: "26,000", wrong: "0"},
	{label: "local, ", pace: true, naive: true},
	{label: "Redis, ", pace: true, share: atLeast(90), rate: "16.2", p50: "42", p99: "91", cpu: "28,000", wrong: "0", commands: "213", redis: true},
	{label: "Redis, ", pace: true, naive: true, redis: true},
}}

// twoRelays is the case no queue in order of arrival can get right: consecutive nonces take different ways.
var twoRelays = contest{senders: 1, count: 100, cases: []contender{
	{pace: true, relays: 2, redis: true, settings: []string{heldBack}, rate: "0.3", wrong: "93–99"},
	{pace: true, relays: 2, redis: true, naive: true, runs: 3},
}}

// fifty is many senders at once. The load arrives within 20 ms, far faster than a machine can take it, so that it is also
// about the order in which the relay gets to its requests; the hold-back window makes it independent of that, and so does
// a WebSocket, on which the transactions of a sender cannot overtake each other.
var fifty = contest{senders: 50, count: 20, cases: []contender{
	{label: "local, ", fast: atLeast(1500), rate: "76.8", wrong: "0", cpu: "13,900"},
	{label: "local, ", naive: true, runs: 1},
	{label: "local, hold-back, ", fast: atLeast(1500), settings: []string{heldBack}},
	{label: "local, WebSocket, ", fast: atLeast(1500), webSocket: true},
	{label: "Redis, ", fast: atLeast(1500), rate: "76.7", wrong: "0–214", cpu: "13,800", commands: "96", redis: true},
	{label: "Redis, ", naive: true, runs: 1, redis: true},
	{label: "Redis, hold-back, ", fast: atLeast(1500), settings: []string{heldBack}, redis: true},
	{label: "Redis, WebSocket, ", fast: atLeast(1500), webSocket: true, redis: true},
}}
