package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/bench/naive"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
	"lockstep/lock"
)

// member is one lock service on Redis: what the lock of one relay is. Two of them share
// nothing but Redis, though they live in the suite's process.
type member struct {
	svc    *lock.Service
	client redis.UniversalClient
	sent   *counter
	cancel context.CancelFunc
	ended  chan error
}

// join starts a member and waits until Redis decides its order.
func join(ctx context.Context, server *redisServer, cfg lock.Config) (*member, error) {
	client, err := redisx.Open(server.url(), redisx.Options{Timeout: cfg.RedisTimeout.Duration()})
	if err != nil {
		return nil, err
	}
	m := &member{client: client, sent: new(counter), ended: make(chan error, 1)}
	client.AddHook(m.sent)
	if m.svc, err = lock.New(cfg, lock.Deps{Redis: client}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	run, cancel := context.WithCancel(ctx)
	m.cancel = cancel
	go func() { m.ended <- m.svc.Run(run) }()
	err = poll(ctx, startLimit, 10*time.Millisecond, func() error {
		ticket, err := m.svc.Enter(bob, 1)
		if err != nil {
			return &fatal{err}
		}
		defer ticket.Leave()
		ticket.Observe(1)
		lease, err := ticket.Wait(ctx)
		if err != nil {
			return &fatal{err}
		}
		if lease.Turn().Strategy != "redis" {
			return errNotOnRedis
		}
		return nil
	})
	if err != nil {
		m.leave()
		return nil, err
	}
	// The scripts are loaded now, and the subscription needs a moment.
	sleep.For(ctx, 200*time.Millisecond)
	return m, nil
}

// bob is the sender that warm-ups use.
var bob = common.HexToAddress("0xb0b0000000000000000000000000000000000002")

func (m *member) leave() {
	m.cancel()
	_, _ = <-m.ended, m.client.Close() // what they say changes no figure
}

// counter counts the round trips of a client and the commands in them.
type counter struct{ trips, commands atomic.Int64 }

// DialHook implements redis.Hook.
func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.commands.Add(1)
		c.trips.Add(1) // afterwards, so that who sees the count knows that the answer is there
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		c.commands.Add(int64(len(cmds)))
		c.trips.Add(1)
		return err
	}
}

// placed waits until n places of a sender are taken in Redis. The key is the one that
// package lock documents.
func placed(ctx context.Context, server *redisServer, sender common.Address, n int64) error {
	key := "lock:waiting:{" + strings.ToLower(sender.Hex()) + "}"
	return poll(ctx, startLimit, 200*time.Microsecond, func() error {
		have, err := server.admin.ZCard(ctx, key).Result()
		if err == nil && have != n {
			err = fmt.Errorf("%d of %d places are taken", have, n)
		}
		return err
	})
}

func queued(ctx context.Context, server *redisServer, n int64) error {
	key := "naive:queue:{" + strings.ToLower(alice.Hex()) + "}"
	return poll(ctx, startLimit, 200*time.Microsecond, func() error {
		// By a command that nobody else uses, since the suite's own are not counted.
		have, err := server.admin.SortRO(ctx, key, &redis.Sort{By: "nosort"}).Result()
		if err == nil && len(have) != int(n) {
			err = fmt.Errorf("%d of %d wait", len(have), n)
		}
		return err
	})
}

// handoffRedis hands a turn to and fro between two members, with a PING between any two.
func handoffRedis(ctx context.Context, l *lab, t *table, runs int) error {
	const rounds, naiveRounds = 1000, 60
	t.want("PING p50", "µs", nil, "")
	t.want("hand-off p50", "µs", nil, "42,000, as the network saw it")
	t.want("hand-off p99", "µs", nil, "91,000, as the network saw it")
	t.want("p50 ÷ PING p50", "×", atMost(2.5, "2.5"), "")
	t.want("inside one process, p50 ÷ PING p50", "×", nil, "")
	t.want("a script of the lock inside Redis, mean", "µs", nil, "")
	t.want("least script and message, p50", "µs", nil, "")
	t.want("least script and message, p50 ÷ PING p50", "×", nil, "")
	t.want("least script inside Redis, mean", "µs", nil, "")
	server, err := l.redis(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	cfg := lock.DefaultConfig()
	cfg.Window = 0 // as above
	one, err := join(ctx, server, cfg)
	if err != nil {
		return err
	}
	defer one.leave()
	two, err := join(ctx, server, cfg)
	if err != nil {
		return err
	}
	defer two.leave()
	for range runs {
		across, pings, inRedis, err := inScripts(ctx, server, func() ([]float64, []float64, error) {
			return handOver(ctx, server, []*member{one, two}, rounds)
		})
		if err != nil {
			return err
		}
		t.ours("a script of the lock inside Redis, mean", "µs", inRedis*1e6)
		ping := quantile(pings, .5)
		t.ours("PING p50", "µs", ping*1e6)
		t.ours("hand-off p50", "µs", quantile(across, .5)*1e6)
		t.ours("hand-off p99", "µs", quantile(across, .99)*1e6)
		t.ours("p50 ÷ PING p50", "×", quantile(across, .5)/ping)
		inside, pings, err := handOver(ctx, server, []*member{one}, rounds)
		if err != nil {
			return err
		}
		t.ours("inside one process, p50 ÷ PING p50", "×", quantile(inside, .5)/quantile(pings, .5))
		least, pings, inRedis, err := inScripts(ctx, server, func() ([]float64, []float64, error) {
			return leastHandOver(ctx, server, rounds)
		})
		if err != nil {
			return err
		}
		t.ours("least script inside Redis, mean", "µs", inRedis*1e6)
		t.ours("least script and message, p50", "µs", quantile(least, .5)*1e6)
		t.ours("least script and message, p50 ÷ PING p50", "×", quantile(least, .5)/quantile(pings, .5))
		slow, pings, err := naiveHandOver(ctx, server, naiveRounds)
		if err != nil {
			return err
		}
		t.naive("PING p50", "µs", quantile(pings, .5)*1e6)
		t.naive("hand-off p50", "µs", quantile(slow, .5)*1e6)
		t.naive("hand-off p99", "µs", quantile(slow, .99)*1e6)
		t.naive("p50 ÷ PING p50", "×", quantile(slow, .5)/quantile(pings, .5))
	}
	t.note("The least is what no lock of this design can be faster than: a script that takes a name off a list, makes it the owner and publishes it, until a goroutine that waits for the message goes on. It keeps no state, checks nothing and a message that is lost stays lost. A third of what the lock needs beyond it is its script, with seven commands on owner, state, queue and places; the rest is what the two members do. All are idle between two hand-offs and run from cold caches: without a pause a hand-off takes about half as long, and the script a third.")
	return nil
}

// inScripts has hand-offs made, and also returns the mean seconds that their scripts took inside Redis.
func inScripts(ctx context.Context, server *redisServer, run func() (handoffs, pings []float64, err error)) (handoffs, pings []float64, mean float64, err error) {
	if err = server.reset(ctx); err == nil {
		handoffs, pings, err = run()
	}
	if err == nil {
		mean, err = server.scriptTime(ctx)
	}
	return handoffs, pings, mean, err
}

// leastScript passes a lock on, and does nothing else that a lock needs.
var leastScript = redis.NewScript(`
local next = redis.call('LPOP', KEYS[1])
redis.call('SET', KEYS[2], next, 'PX', 30000)
redis.call('PUBLISH', ARGV[1], next)
return next`)

// leastHandOver is handOffs with the least script, sent by one client to another.
func leastHandOver(ctx context.Context, server *redisServer, rounds int) (handoffs, pings []float64, err error) {
	const queue, owner, channel = "least:queue:{a}", "least:{a}", "least:grants"
	var clients [2]redis.UniversalClient
	for i := range clients {
		if clients[i], err = redisx.Open(server.url(), redisx.Options{}); err != nil {
			return nil, nil, err
		}
		defer func() { _ = clients[i].Close() }()
	}
	sub := clients[1].Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		return nil, nil, err
	}
	woken := make(chan error)
	waiter := make(chan struct{})
	go func() { // the reader of the subscription wakes the one that waits, as in the lock
		defer close(waiter)
		for {
			if _, err := sub.ReceiveMessage(ctx); err != nil {
				return
			}
			waiter <- struct{}{}
		}
	}()
	lineUp := func(int) error { return server.admin.RPush(ctx, queue, "next").Err() }
	return handOffs(ctx, server, rounds, lineUp, func() (time.Time, error) {
		go func() { woken <- leastScript.Run(ctx, clients[0], []string{queue, owner}, channel).Err() }()
		<-waiter
		return time.Now(), <-woken
	})
}

// ping returns the seconds of one round trip.
func (s *redisServer) ping(ctx context.Context) (float64, error) {
	start := time.Now()
	err := s.admin.Ping(ctx).Err()
	return time.Since(start).Seconds(), err
}

// handOffs returns the seconds of hand-offs, and of PINGs between them. lineUp lets the
// i-th one wait, and pass gives the turn to it and returns when it came.
func handOffs(ctx context.Context, server *redisServer, rounds int, lineUp func(i int) error, pass func() (time.Time, error)) (handoffs, pings []float64, err error) {
	for i := range rounds {
		if err := lineUp(i); err != nil {
			return nil, nil, err
		}
		rtt, err := server.ping(ctx)
		if err != nil {
			return nil, nil, err
		}
		start := time.Now()
		at, err := pass()
		if err != nil {
			return nil, nil, err
		}
		handoffs, pings = append(handoffs, at.Sub(start).Seconds()), append(pings, rtt)
	}
	return handoffs, pings, nil
}

// handOver is handOffs between members, in turn.
func handOver(ctx context.Context, server *redisServer, members []*member, rounds int) (handoffs, pings []float64, err error) {
	enter := func(i int) (*lock.Ticket, error) { return members[i%len(members)].svc.Enter(alice, uint64(i)) }
	ticket, err := enter(0)
	if err != nil {
		return nil, nil, err
	}
	lease, err := ticket.Wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	type turn struct {
		lease *lock.Lease
		at    time.Time
		err   error
	}
	got := make(chan turn, 1)
	lineUp := func(i int) error {
		next, err := enter(i + 1)
		if err != nil {
			return err
		}
		go func() {
			lease, err := next.Wait(ctx)
			got <- turn{lease, time.Now(), err}
		}()
		return placed(ctx, server, alice, 1)
	}
	handoffs, pings, err = handOffs(ctx, server, rounds, lineUp, func() (time.Time, error) {
		lease.Release()
		taken := <-got
		if taken.err == nil && taken.lease.Turn().Strategy != "redis" {
			taken.err = errNotOnRedis
		}
		lease = taken.lease
		return taken.at, taken.err
	})
	if err == nil {
		lease.Release()
	}
	return handoffs, pings, err
}

// naiveHandOver is handOver for the baseline.
func naiveHandOver(ctx context.Context, server *redisServer, rounds int) (handoffs, pings []float64, err error) {
	lock, done, err := naiveLock(server)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	release, err := lock.Acquire(ctx, alice)
	if err != nil {
		return nil, nil, err
	}
	type turn struct {
		release func()
		at      time.Time
		err     error
	}
	got := make(chan turn, 1)
	lineUp := func(int) error {
		go func() {
			release, err := lock.Acquire(ctx, alice)
			got <- turn{release, time.Now(), err}
		}()
		if err := queued(ctx, server, 1); err != nil {
			return err
		}
		// A poll is as likely at any time after the release.
		sleep.For(ctx, rand.N(naive.PollInterval))
		return nil
	}
	handoffs, pings, err = handOffs(ctx, server, rounds, lineUp, func() (time.Time, error) {
		release()
		taken := <-got
		release = taken.release
		return taken.at, taken.err
	})
	if err == nil {
		release()
	}
	return handoffs, pings, err
}

func naiveLock(server *redisServer) (lock naive.Lock, done func(), err error) {
	client, err := redisx.Open(server.url(), redisx.Options{PoolSize: 100})
	if err != nil {
		return nil, nil, err
	}
	return naive.NewRedis(client), func() { _ = client.Close() }, nil
}

// uncontendedRedis counts and times the round trips of a lock nobody else wants.
func uncontendedRedis(ctx context.Context, server *redisServer, t *table) error {
	const rounds = 1000
	m, err := join(ctx, server, quiet())
	if err != nil {
		return err
	}
	defer m.leave()
	var acquired, over time.Duration
	first := m.sent.trips.Load()
	for i := range int64(rounds) {
		start := time.Now()
		ticket, err := m.svc.Enter(alice, 1)
		if err != nil {
			return err
		}
		lease, err := ticket.Wait(ctx)
		if err != nil {
			return err
		}
		acquired += time.Since(start)
		lease.Release()
		end := time.Now().Add(time.Second)
		for m.sent.trips.Load() < first+2*(i+1) && time.Now().Before(end) {
			sleep.For(ctx, 20*time.Microsecond)
		}
		over += time.Since(start)
	}
	t.ours("Redis, round trips", "", float64(m.sent.trips.Load()-first)/rounds)
	t.ours("Redis, until acquired", "µs", acquired.Seconds()/rounds*1e6)
	t.ours("Redis, until given back", "µs", over.Seconds()/rounds*1e6)
	return nil
}

func uncontendedNaive(ctx context.Context, server *redisServer, t *table) error {
	const rounds = 1000
	client, err := redisx.Open(server.url(), redisx.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	count := new(counter)
	client.AddHook(count)
	l := naive.NewRedis(client)
	var acquired, over time.Duration
	for range rounds {
		start := time.Now()
		release, err := l.Acquire(ctx, alice)
		if err != nil {
			return err
		}
		acquired += time.Since(start)
		release()
		over += time.Since(start)
	}
	t.naive("Redis, round trips", "", float64(count.trips.Load())/rounds)
	t.naive("Redis, until acquired", "µs", acquired.Seconds()/rounds*1e6)
	t.naive("Redis, until given back", "µs", over.Seconds()/rounds*1e6)
	return nil
}
