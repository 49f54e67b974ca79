package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/sleep"
)

// healing puts fleets through one short failure each while clients send, and judges by the network's own
// log and by every client's answer. Each run has a network, a Redis and relays of its own.
func healing(s *scenario) {
	s.Columns = []string{"sent", "executed, %", "twice", "wrong order", "told false", "broken", "paid", "seconds", "slowest"}
	chosen := slices.DeleteFunc(shortFailures(), func(h shortFailure) bool {
		return s.cases != "" && !strings.Contains(","+s.cases+",", ","+h.id+",")
	})
	if len(chosen) == 0 {
		s.must(fmt.Errorf("there is no case of %q", s.cases))
	}
	for _, h := range chosen {
		if s.short {
			h = h.shortened()
		}
		holes := h.senders // that the failure makes at least: each may cost each relay one rejection
		if h.one {
			holes = 1
		}
		for name, b := range map[string]*bound{
			"executed, %": {"≥ 99", func(s *spread) bool { return s.Min >= 99 }},
			"twice":       never(0), "wrong order": never(0), "told false": never(0), "broken": never(0),
			"paid": never(float64(h.relays * holes)), "slowest": never(60),
		} {
			s.want(h.id+": "+name, "", b, "")
		}
		for run := range s.runs {
			s.say("  %s, run %d …\n", h.id, run+1)
			var v verdict
			s.part(func(s *scenario) { v = s.suffer(h) })
			for i, value := range []float64{
				float64(v.sent), v.share(), float64(v.twice), float64(v.disorder), float64(v.toldFalse), float64(v.broken),
				float64(v.paid), v.took.Seconds(), v.slowest.Seconds(),
			} {
				s.ours(h.id+": "+s.Columns[i], "", value)
			}
			for said, n := range v.answers {
				s.count(h.id+" answered: "+said, n)
			}
		}
	}
	s.note("executed: of what was sent, without what was refused for lack of room and what followed that, and, where nothing is sent again, without what the killed relay did not answer. paid: refused by consensus, which the operator pays for.")
	s.note("told false: a client heard that its transaction failed, and it was executed. broken: a client got a hash, and it was never executed.")
	s.note("A run lasts until nothing is executed any more; seconds are to the last answer and the last execution, slowest is the longest wait for an answer.")
}

// shortFailure is one case.
type shortFailure struct {
	id       string
	relays   int // more than one share a Redis
	settings []string
	senders  int
	count    int           // of each sender
	tested   bool          // the tests run it, shortened
	one      bool          // it befalls one transaction
	sticky   bool          // each sender keeps to a relay; else its transactions alternate
	resend   resend        // what clients send again
	unheard  bool          // what a relay did not answer was in its hands alone, and is not counted
	lasts    time.Duration // the trouble
	quiet    time.Duration // how long nothing must be executed for the run to be over; 0: quietTime
	rules    string        // of spoiled calls, from the start; %v is lasts
	trouble  func(s *scenario, b *fleet, lasts time.Duration)
}

// resend is what clients send again, to the next relay.
type resend uint8

const (
	nothingAgain resend = iota
	unanswered          // what got no answer
	noRoom              // what found the queue full, and what followed that
)

const (
	quietTime = 3 * time.Second
	async     = "USE_ASYNC_TX_PROCESSING=true"
	smallRoom = "LOCK_MAX_QUEUE_PER_SENDER=100"
)

// shortFailures are all cases, in the order in which they are measured; docs/internals/FAULTS.md says what each is.
func shortFailures() []shortFailure {
	const second = time.Second
	one := func(id, rule string, lasts time.Duration, settings ...string) shortFailure {
		return shortFailure{
			id: id, relays: 1, senders: 1, count: 100, one: true, tested: id == "vanished-two-open", lasts: lasts, quiet: lasts + quietTime, settings: settings,
			rules: `[{"at":"submit","body":"ethereumTransaction","skip":10,"times":1,` + rule + `}]`,
		}
	}
	mirror := func(id, rule string) shortFailure {
		return shortFailure{id: id, relays: 1, tested: id == "mirror-503", senders: 8, count: 50, lasts: 5 * second, trouble: spoilMirror(`[{"at":"mirror",` + rule + `}]`)}
	}
	return []shortFailure{
		{id: "calm", relays: 2, senders: 8, count: 100},
		one("vanished", `"vanish":true`, 0),
		one("vanished-two-open", `"vanish":true`, 0, "NONCE_ORDERING_MAX_OPEN=2"),
		one("hangs", `"delay":"1h"`, 0),
		one("dropped", `"dropBefore":true`, 0),
		one("answer-lost", `"dropAfter":true`, 0),
		one("late", `"delay":"%v"`, 15*second),
		{id: "killed", tested: true, relays: 2, senders: 8, count: 250, resend: unanswered, trouble: killRelay},
		{id: "killed-not-resent", relays: 2, senders: 8, count: 250, sticky: true, unheard: true, trouble: killRelay},
		{id: "stopped", tested: true, relays: 2, senders: 8, count: 100, lasts: 40 * second, trouble: stopRelay},
		{id: "stopped-sticky", relays: 2, senders: 8, count: 100, sticky: true, lasts: 40 * second, trouble: stopRelay},
		{id: "redis-3s", tested: true, relays: 2, senders: 8, count: 100, lasts: 3 * second, trouble: stopRedis},
		{id: "redis-1.5s", relays: 2, senders: 8, count: 150, lasts: 3 * second / 2, trouble: stopRedis},
		{id: "overflow", relays: 1, senders: 1, count: 1000, settings: []string{smallRoom}},
		{id: "overflow-resent", tested: true, relays: 1, senders: 1, count: 1000, resend: noRoom, settings: []string{smallRoom}},
		{id: "async-redis", tested: true, relays: 2, senders: 1, count: 100, lasts: 2 * second, settings: []string{async, "NONCE_GAP_HOLD_MS=2000"}, trouble: stopRedis},
		{id: "async-no-window", relays: 2, senders: 1, count: 100, settings: []string{async, "NONCE_GAP_HOLD_MS=0"}},
		{id: "async-killed", tested: true, relays: 2, senders: 8, count: 100, resend: unanswered, quiet: 15 * second, settings: []string{async}, trouble: killRelay},
		mirror("mirror-503", `"httpStatus":503`),
		mirror("mirror-429", `"httpStatus":429,"retryAfter":"1s"`),
		mirror("mirror-hangs", `"hang":true`),
	}
}

func killRelay(_ *scenario, b *fleet, _ time.Duration) { b.relays[0].Kill() }

func stopRelay(s *scenario, b *fleet, lasts time.Duration) { s.stop(b.relays[0].process, lasts) }

func stopRedis(s *scenario, b *fleet, lasts time.Duration) { s.stop(b.redis.process, lasts) }

// stop lets a process stand still for a while.
func (s *scenario) stop(p *process, lasts time.Duration) {
	s.must(p.Freeze())
	s.pause(lasts)
	s.must(p.Thaw())
}

func spoilMirror(rules string) func(*scenario, *fleet, time.Duration) {
	return func(s *scenario, b *fleet, lasts time.Duration) {
		s.must(b.net.rules.Set([]byte(rules)))
		s.pause(lasts)
		s.must(b.net.rules.Set([]byte("[]")))
	}
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
	if i := slices.Index(h.settings, smallRoom); i >= 0 {
		h.settings[i] = "LOCK_MAX_QUEUE_PER_SENDER=20"
	}
	return h
}

// sending is one transaction and what its client heard.
type sending struct {
	raw    string
	hash   common.Hash
	sender common.Address
	nonce  uint64
	relay  int    // that it goes to first
	answer string // "hash", what the relay said, or "no answer"
	again  bool   // it was sent more than once
	waited time.Duration
	refuse bool // there was no room for it
	gone   bool // it was in the hands of a relay that is gone
}

const (
	gotHash = "hash"
	nothing = "no answer"
)

// suffer runs a short failure once: it sends everything, makes trouble meanwhile, and judges.
func (s *scenario) suffer(h shortFailure) verdict {
	b := s.fleet(h.relays > 1, 100*time.Millisecond)
	b.start(h.relays, false, h.relays > 1, h.settings...)
	var all []*sending
	for i := range h.senders { // everything is signed before, so that signing takes no time from the relays
		raw, hashes := b.signed(b.relays[0], firstSender+i, h.count)
		sender := common.HexToAddress(b.net.Accounts[firstSender+i].Address)
		for nonce := range raw {
			relay := i
			if !h.sticky {
				relay = nonce
			}
			all = append(all, &sending{raw: raw[nonce], hash: hashes[nonce], sender: sender, nonce: uint64(nonce), relay: relay % h.relays})
		}
	}
	if h.rules != "" {
		s.must(b.net.rules.Set([]byte(strings.ReplaceAll(h.rules, "%v", h.lasts.String()))))
	}
	b.net.behave(usual())
	client := &http.Client{Timeout: clientPatience, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	defer client.CloseIdleConnections()
	began := time.Now()
	troubled := make(chan error, 1)
	go func() {
		troubled <- s.play(s.ctx, s.table, 1, func(s *scenario) {
			if h.trouble != nil {
				s.until(startLimit, func() error {
					if have := len(b.net.decisions()); have < len(all)/5 {
						return fmt.Errorf("%d of %d were executed", have, len(all)/5)
					}
					return nil
				})
				h.trouble(s, b, h.lasts)
			}
		})
	}()
	var clients sync.WaitGroup
	for nonce := range h.count {
		for sender := range h.senders {
			clients.Go(func() { h.send(s.ctx, b, client, all[sender*h.count+nonce]) })
		}
		s.pause(time.Millisecond)
	}
	clients.Wait()
	s.must(<-troubled)
	answered := time.Since(began)
	last := b.net.settle(s.ctx, len(all), cmp.Or(h.quiet, quietTime))
	v := judge(b.net.decisions(), all)
	v.took = max(answered, last.Sub(began))
	return v
}

// clientPatience is that of clients, with one request and with all that they send again.
const clientPatience = 100 * time.Second

// send sends one transaction, again if the case says so, until it has an answer.
func (h shortFailure) send(ctx context.Context, b *fleet, client *http.Client, one *sending) {
	end := time.Now().Add(clientPatience)
	for attempt := 0; ; attempt++ {
		began := time.Now()
		var hash string
		answered, err := call(ctx, client, b.relays[(one.relay+attempt)%len(b.relays)].url, ask("eth_sendRawTransaction", one.raw), &hash)
		one.waited, one.again, one.answer = max(one.waited, time.Since(began)), attempt > 0, gotHash
		if err == nil {
			return
		}
		one.refuse = answered && strings.Contains(err.Error(), "Too many transactions of this sender")
		behind := answered && strings.Contains(err.Error(), "Nonce too high") // what had no room
		if answered {
			one.answer = noise.ReplaceAllString(err.Error(), "")
		} else {
			one.answer, one.gone = nothing, h.unheard
		}
		again := !answered && h.resend == unanswered || (one.refuse || behind) && h.resend == noRoom
		if !again || time.Now().After(end) || ctx.Err() != nil {
			return
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
}

// noise is what of an error differs from one to the next.
var noise = regexp.MustCompile(`^\[Request ID: .*?\] |\d`)

// decisions are the transactions as consensus saw them.
func (n *network) decisions() []history.ConsensusEntry {
	return n.chain.MirrorView().ConsensusLog(0, math.MaxInt)
}

// settle waits, for five minutes at most, until everything was executed and half a second passed, or nothing has
// happened for the given time; it returns when the last thing happened.
func (n *network) settle(ctx context.Context, all int, quiet time.Duration) (last time.Time) {
	last = time.Now()
	seen, executed := 0, 0
	for limit := last.Add(5 * time.Minute); time.Now().Before(limit) && ctx.Err() == nil; sleep.For(ctx, 20*time.Millisecond) {
		for _, e := range n.chain.MirrorView().ConsensusLog(int64(seen), math.MaxInt) {
			seen++
			if last = time.Now(); e.Status == hapi.ResponseCodeEnum_SUCCESS {
				executed++
			}
		}
		if idle := time.Since(last); idle >= quiet || idle >= time.Second/2 && executed >= all {
			break
		}
	}
	return last
}

// verdict is what a run showed.
type verdict struct {
	sent, executed int
	refused        int // for lack of room, or behind such a one, or gone with its relay; and not executed
	twice          int
	disorder       int // executed before one with a lower nonce
	toldFalse      int
	broken         int // hashes
	paid           int
	took, slowest  time.Duration
	answers        map[string]int // that are no hashes
}

// share is how much was executed of what the fleet had room for, in percent.
func (v verdict) share() float64 {
	return 100 * float64(v.executed) / float64(max(v.sent-v.refused, 1))
}

// judge compares what clients heard with what the network did.
func judge(log []history.ConsensusEntry, sent []*sending) verdict {
	v := verdict{sent: len(sent), answers: map[string]int{}}
	times := map[common.Hash]int{}
	reached := map[common.Address]uint64{}
	for _, e := range log {
		if e.Status != hapi.ResponseCodeEnum_SUCCESS {
			v.paid++
			continue
		}
		times[e.Hash]++
		if e.Nonce < reached[e.Sender] {
			v.disorder++
		}
		reached[e.Sender] = max(reached[e.Sender], e.Nonce+1)
	}
	lost := map[common.Address]uint64{} // the lowest nonce of each sender for which there was no room
	for _, one := range sent {
		if least, ok := lost[one.sender]; one.refuse && times[one.hash] == 0 && (!ok || one.nonce < least) {
			lost[one.sender] = one.nonce
		}
	}
	for _, one := range sent {
		least, hole := lost[one.sender]
		switch n := times[one.hash]; {
		case n > 1:
			v.twice++
			fallthrough
		case n == 1:
			v.executed++
			if one.saysFailed() {
				v.toldFalse++
			}
		case one.answer == gotHash:
			v.broken++
		case one.gone, hole && one.nonce >= least:
			v.refused++
		}
		if one.answer != gotHash {
			v.answers[one.answer]++
		}
		v.slowest = max(v.slowest, one.waited)
	}
	return v
}

// saysFailed tells whether the answer says that the transaction was not executed. That its nonce is
// spent says no such thing to a client that sent it before; that nothing is known says nothing.
func (s *sending) saysFailed() bool {
	return s.answer != gotHash && s.answer != nothing && !strings.Contains(s.answer, "outcome is not known") &&
		(!s.again || !strings.Contains(s.answer, "Nonce too low"))
}
