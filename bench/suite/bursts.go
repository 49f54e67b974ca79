package main

import (
	"context"
	"errors"
	"math"
	"time"
)

// apart is the time between two transactions of one sender, the same as in the figures
// of the TypeScript relay.
const apart = time.Millisecond

// bed is what a row stands on. close ends it all.
type bed struct {
	lab    *lab
	net    *network
	redis  *redisServer // nil without
	relays []*relay
}

// bed starts a network and, if wanted, a Redis.
func (l *lab) bed(ctx context.Context, withRedis bool, network ...string) (*bed, error) {
	n, err := l.network(ctx, network...)
	if err != nil {
		return nil, err
	}
	b := &bed{lab: l, net: n}
	if withRedis {
		if b.redis, err = l.redis(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b *bed) close() {
	for _, r := range b.relays {
		r.kill()
	}
	if b.redis != nil {
		b.redis.close()
	}
	b.net.kill()
}

// relay starts one of our relays, over Redis or not.
func (b *bed) relay(ctx context.Context, r *redisServer, env ...string) (*relay, error) {
	made, err := b.lab.relay(ctx, b.net, r, env...)
	if err == nil {
		b.relays = append(b.relays, made)
	}
	return made, err
}

// naive starts a baseline, over Redis or not.
func (b *bed) naive(ctx context.Context, r *redisServer) (*relay, error) {
	made, err := b.lab.baseline(ctx, b.net, r)
	if err == nil {
		b.relays = append(b.relays, made)
	}
	return made, err
}

// pair starts two of a kind.
func pair(make func() (*relay, error)) ([]*relay, error) {
	one, err := make()
	if err != nil {
		return nil, err
	}
	two, err := make()
	return []*relay{one, two}, err
}

// four are a relay and a baseline, each with both strategies.
func (b *bed) four(ctx context.Context) (local, shared, plain, polling *relay, err error) {
	var errs [4]error
	local, errs[0] = b.relay(ctx, nil)
	shared, errs[1] = b.relay(ctx, b.redis)
	plain, errs[2] = b.naive(ctx, nil)
	polling, errs[3] = b.naive(ctx, b.redis)
	return local, shared, plain, polling, errors.Join(errs[:]...)
}

// pace adds what the order costs in time.
func (o outcome) pace(t *table, naive bool, label string) {
	t.add(naive, label+"accepted", "tx/s", o.rate())
	span, busy := o.span()
	if o.Planned == len(o.arrivals) && o.submit > 0 {
		t.add(naive, label+"share of 1/(submit latency)", "%", 100*o.submit*float64(len(o.arrivals))/span)
	}
	t.add(naive, label+"share of time at the node", "%", 100*busy/span)
	gaps := o.handoffs()
	t.add(naive, label+"hand-off p50, at the node", "ms", quantile(gaps, .5))
	t.add(naive, label+"hand-off p99, at the node", "ms", quantile(gaps, .99))
	o.costs(t, naive, label)
}

// costs adds what a transaction costs in other things.
func (o outcome) costs(t *table, naive bool, label string) {
	t.add(naive, label+"CPU of the relay", "µs/tx", o.perTransaction(o.cpu)*1e6)
	t.add(naive, label+"Redis commands", "/tx", o.perTransaction(o.commands))
}

// burst is one sender who sends all at once.
func burst(ctx context.Context, l *lab, t *table, runs int) error {
	const count = 100
	wantPace(t, "local, ", "18.4", "38.5", "52", 26)
	wantPace(t, "Redis, ", "16.2", "42", "91", 28)
	t.want("Redis, Redis commands", "/tx", nil, "213")
	wantCounts(t, "local, ", count, "0")
	wantCounts(t, "Redis, ", count, "0")
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	local, shared, plain, polling, err := b.four(ctx)
	if err != nil {
		return err
	}
	for range runs {
		for _, c := range []struct {
			label string
			relay *relay
			redis *redisServer
		}{{"local, ", local, nil}, {"local, ", plain, nil}, {"Redis, ", shared, b.redis}, {"Redis, ", polling, b.redis}} {
			name := "burst " + c.label + c.relay.name
			o, err := l.fire(ctx, b.net, c.redis, load{
				name: name, relays: []*relay{c.relay}, state: local, senders: 1, count: count,
				spacing: apart, conduct: usual(),
			})
			if err != nil {
				return err
			}
			o.pace(t, c.relay.naive, c.label)
			o.failures(t, c.relay.naive, c.label)
		}
	}
	return nil
}

func wantPace(t *table, label, rate, p50, p99 string, cpu float64) {
	t.want(label+"accepted", "tx/s", nil, rate)
	t.want(label+"share of 1/(submit latency)", "%", atLeast(90, "90"), "")
	t.want(label+"share of time at the node", "%", nil, "")
	t.want(label+"hand-off p50, at the node", "ms", nil, p50)
	t.want(label+"hand-off p99, at the node", "ms", nil, p99)
	t.want(label+"CPU of the relay", "µs/tx", nil, number(cpu*1000))
}

// twoRelays is the case no queue in order of arrival can get right: consecutive nonces
// take different ways.
func twoRelays(ctx context.Context, l *lab, t *table, runs int) error {
	const count, naiveRuns = 100, 3
	t.want("accepted", "tx/s", nil, "0.3")
	wantCounts(t, "", count, "93–99")
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	ours, err := pair(func() (*relay, error) { return b.relay(ctx, b.redis, "NONCE_GAP_HOLD_MS=5000") })
	if err != nil {
		return err
	}
	naive, err := pair(func() (*relay, error) { return b.naive(ctx, b.redis) })
	if err != nil {
		return err
	}
	for i := range runs {
		for _, relays := range [][]*relay{ours, naive} {
			if relays[0].naive && i >= naiveRuns {
				continue
			}
			o, err := l.fire(ctx, b.net, b.redis, load{
				name: "two " + relays[0].name, relays: relays, state: ours[0], senders: 1, count: count,
				spacing: apart, conduct: usual(),
			})
			if err != nil {
				return err
			}
			o.pace(t, relays[0].naive, "")
			o.failures(t, relays[0].naive, "")
		}
	}
	return nil
}

// fifty is many senders at once. The load arrives within 20 ms, far faster than a machine
// can take it, so that it is also about the order in which the relay gets to its requests;
// the hold-back window makes it independent of that, and so does a WebSocket, on which the
// transactions of a sender cannot overtake each other.
func fifty(ctx context.Context, l *lab, t *table, runs int) error {
	const senders, count, naiveRuns = 50, 20, 1
	const holdBack = "NONCE_GAP_HOLD_MS=5000"
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	local, shared, plain, polling, err := b.four(ctx)
	if err != nil {
		return err
	}
	localHeld, err := b.relay(ctx, nil, holdBack)
	if err != nil {
		return err
	}
	sharedHeld, err := b.relay(ctx, b.redis, holdBack)
	if err != nil {
		return err
	}
	cases := []struct {
		label string
		relay *relay
		redis *redisServer
		rate  string // of the TypeScript relay, and what failed there
		wrong string
		ws    bool
	}{
		{"local, ", local, nil, "76.8", "0", false},
		{"local, ", plain, nil, "", "", false},
		{"local, hold-back, ", localHeld, nil, "", "", false},
		{"local, WebSocket, ", local, nil, "", "", true},
		{"Redis, ", shared, b.redis, "76.7", "0–214", false},
		{"Redis, ", polling, b.redis, "", "", false},
		{"Redis, hold-back, ", sharedHeld, b.redis, "", "", false},
		{"Redis, WebSocket, ", shared, b.redis, "", "", true},
	}
	for _, c := range cases {
		if !c.relay.naive {
			t.want(c.label+"accepted", "tx/s", atLeast(1500, "1,500"), c.rate)
			t.want(c.label+"CPU of the relay", "µs/tx", nil, "")
			wantCounts(t, c.label, senders*count, c.wrong)
		}
	}
	t.want("local, CPU of the relay", "µs/tx", nil, "13,900")
	t.want("Redis, CPU of the relay", "µs/tx", nil, "13,800")
	t.want("Redis, Redis commands", "/tx", nil, "96")
	for i := range runs {
		for _, c := range cases {
			if c.relay.naive && i >= naiveRuns {
				continue
			}
			o, err := l.fire(ctx, b.net, c.redis, load{
				name: "fifty " + c.label + c.relay.name, relays: []*relay{c.relay}, state: local,
				senders: senders, count: count, spacing: apart, webSocket: c.ws, conduct: usual(),
			})
			if err != nil {
				return err
			}
			t.add(c.relay.naive, c.label+"accepted", "tx/s", o.rate())
			o.costs(t, c.relay.naive, c.label)
			o.failures(t, c.relay.naive, c.label)
		}
	}
	t.note("The relay shares the machine's CPUs with the network, Redis and the load generator.")
	return nil
}

// slowConsensus shows what is inside the lock: with three seconds to consensus a burst
// takes a hundred submissions or a hundred rounds.
func slowConsensus(ctx context.Context, l *lab, t *table, runs int) error {
	const count, naiveCount, naiveRuns = 100, 5, 1
	t.want("last acceptance after the first", "s", nil, "")
	t.want("beyond 100 × one submit", "s", atMost(1, "1"), "")
	t.want("accepted by the node", "tx/s", nil, "0.3")
	wantCounts(t, "", count, "0")
	b, err := l.bed(ctx, false, "-consensus-latency", "3s")
	if err != nil {
		return err
	}
	defer b.close()
	ours, err := b.relay(ctx, nil)
	if err != nil {
		return err
	}
	naive, err := b.naive(ctx, nil)
	if err != nil {
		return err
	}
	for i := range runs {
		for _, r := range []*relay{ours, naive} {
			many := count
			if r.naive {
				many = naiveCount
			}
			if r.naive && i >= naiveRuns {
				continue
			}
			o, err := l.fire(ctx, b.net, nil, load{
				name: "slow " + r.name, relays: []*relay{r}, state: ours, senders: 1, count: many,
				spacing: apart, conduct: usual(),
			})
			if err != nil {
				return err
			}
			span, _ := o.span()
			if len(o.arrivals) == many { // else it is no burst of so many
				t.add(r.naive, "accepted by the node", "tx/s", float64(many)/span)
			}
			if r.naive {
				continue
			}
			if len(o.arrivals) == many {
				t.ours("last acceptance after the first", "s", span)
				t.ours("beyond 100 × one submit", "s", math.Max(0, span-o.submit*count))
			}
			o.failures(t, false, "")
		}
	}
	t.note("The baseline sends 5: it would need five minutes for 100.")
	return nil
}
