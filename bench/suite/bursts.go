package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/bench"
	"lockstep/internal/proctest"
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

// redisKilled kills Redis when 40 of 100 transactions have arrived at the node, and starts it again when the burst is over.
func redisKilled(s *scenario) {
	const count = 100
	s.want("answered", "tx", always(count), "17")
	s.want("time for all ÷ undisturbed", "×", atMost(2), "hangs until 60 s")
	s.want("last answer after the kill", "s", nil, "60")
	wantCounts(s.table, "", count, "83 hang")
	b := s.fleet(true, 0)
	ours, naive := b.start(2, false, true), b.start(1, true, true)
	for range s.runs {
		for _, r := range []*relay{ours[0], naive[0]} {
			one := load{name: "killed " + r.name, relays: []*relay{r}, state: ours[0], redis: true, senders: 1, count: count, spacing: apart}
			calm := b.fire(one)
			o, since := b.withoutRedis(one, 40)
			s.add(r.naive, "answered", "tx", float64(o.Accepted+o.Refused))
			s.add(r.naive, "time for all ÷ undisturbed", "×", o.total.Seconds()/calm.total.Seconds())
			s.add(r.naive, "last answer after the kill", "s", since.Seconds())
			o.counts(s.table, r.naive, "")
			b.redisReturns(ours)
		}
		o, _ := b.withoutRedis(load{
			name: "killed two", relays: ours, redis: true, senders: 20, count: 20, sticky: true, webSocket: true, spacing: 5 * time.Millisecond,
		}, 160)
		s.ours("two relays, wrong nonce", "tx", float64(o.Chain.WrongNonce), always(0))
		s.ours("two relays, unanswered", "tx", float64(o.Unanswered), always(0))
		b.redisReturns(ours)
	}
	s.note("With two relays 20 senders send 20 each, every sender to one of the relays over one WebSocket.")
}

// withoutRedis sends a load and kills Redis when so many have arrived. since is from the kill to the last answer.
func (b *fleet) withoutRedis(q load, arrived int) (o outcome, since time.Duration) {
	var killed time.Time
	q.during = func(ctx context.Context) error {
		_ = b.net.reached(ctx, arrived, 5*time.Second) // where fewer arrive, because of wrong nonces, it is killed at the latest now
		b.redis.Kill()
		killed = time.Now()
		return ctx.Err()
	}
	o = b.fire(q)
	return o, o.ended.Sub(killed)
}

// redisReturns starts Redis again and waits until our relays use it, without a restart.
func (b *fleet) redisReturns(ours []*relay) {
	b.launch(b.redis)
	start := time.Now()
	for _, r := range ours {
		b.ready(r.process, func() error { return r.onRedis(b.ctx) })
	}
	b.ours("Redis orders again after its return", "s", time.Since(start).Seconds())
}

// holderKilled kills the relay whose submission is at the node, while another relay has the
// same transaction and nine more of the sender.
func holderKilled(s *scenario) {
	s.want("next waiter proceeds after", "s", never(3), "30")
	s.want("executed", "tx", always(waitersBehind), "")
	b := s.fleet(true, 0)
	account := firstSender
	for run := range s.runs {
		ours := b.start(2, false, true)
		b.killHolder(ours, ours[1], account)
		if account++; run == 0 {
			b.killHolder(b.start(2, true, true), ours[1], account)
			account++
		}
	}
	s.note("The client of the killed relay has sent its transaction to the other relay too, with %d more.", waitersBehind-1)
}

// waitersBehind are queued at the relay that survives.
const waitersBehind = 10

// killHolder takes the time from the kill of relays[0] to the first submission of relays[1]. state lives.
func (b *fleet) killHolder(relays []*relay, state *relay, account int) {
	raw, hashes := b.signed(state, account, waitersBehind)
	b.net.mark()
	b.net.behave(conduct{Hold: true})
	send := func(r *relay, raw string) error {
		var hash string
		_, err := call(b.ctx, http.DefaultClient, r.url, ask("eth_sendRawTransaction", raw), &hash)
		return err
	}
	go func() { _ = send(relays[0], raw[0]) }() // its relay dies
	b.must(b.net.reached(b.ctx, 1, startLimit))
	answers := make(chan error, len(raw))
	for _, tx := range raw {
		go func() { answers <- send(relays[1], tx) }()
		b.pause(20 * time.Millisecond) // so that they arrive in this order
	}
	b.pause(300 * time.Millisecond)
	killed := time.Now()
	relays[0].Kill()
	b.must(b.net.reached(b.ctx, 2, startLimit))
	b.add(relays[1].naive, "next waiter proceeds after", "s", b.net.arrived()[1].At.Sub(killed).Seconds())
	b.net.behave(conduct{})
	for range raw {
		if err := <-answers; err != nil {
			b.count(relays[1].name+" answered: "+err.Error(), 1)
		}
	}
	done := 0
	for _, hash := range hashes {
		var receipt *struct{}
		if _, err := call(b.ctx, http.DefaultClient, state.url, ask("eth_getTransactionReceipt", hash.Hex()), &receipt); err == nil && receipt != nil {
			done++
		}
	}
	b.add(relays[1].naive, "executed", "tx", float64(done))
}

// reached waits for the n-th arrival of the run.
func (n *network) reached(ctx context.Context, count int, limit time.Duration) error {
	return proctest.Until(ctx, limit, func() error {
		if have := len(n.arrived()); have < count {
			return fmt.Errorf("%d of %d submissions are at the node", have, count)
		}
		return nil
	})
}

// signed makes consecutive transfers of an account.
func (b *fleet) signed(state *relay, account, n int) (raw []string, hashes []common.Hash) {
	if account >= len(b.net.Accounts) {
		b.must(errors.New("there are not enough accounts for so many senders"))
	}
	key, err := bench.ParseKey(b.net.Accounts[account].PrivateKey)
	b.must(err)
	to := common.HexToAddress(b.net.Accounts[funderAccount].Address)
	var price hexutil.Big
	_, err = call(b.ctx, http.DefaultClient, state.url, ask("eth_gasPrice"), &price)
	b.must(err)
	for i := range n {
		hash, text, err := sign(key, &types.DynamicFeeTx{
			Nonce: uint64(i), Gas: 21_000, GasFeeCap: new(big.Int).Mul(price.ToInt(), big.NewInt(2)), To: &to, Value: big.NewInt(1e10),
		})
		b.must(err)
		raw, hashes = append(raw, hexutil.Encode(text)), append(hashes, hash)
	}
	return raw, hashes
}
