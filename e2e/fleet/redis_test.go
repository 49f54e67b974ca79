package fleet

import (
	"testing"
	"time"

	"lockstep/internal/redistest"
)

// moreTroubles are those that only TestRedisTrouble has.
func moreTroubles() []fault {
	return []fault{
		{name: "Redis: client pause", begin: func(s *storm) { s.each("CLIENT", "PAUSE", 900, "ALL") }}, // it ends by itself
		{name: "Redis: evicting", during: func(s *storm) { evict(s.net) }},
		command("Redis: read-only", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}),
		lineFault("line to Redis: narrow", unnoticed, func(l *link) { l.spoil("bandwidth", "upstream", `"rate":1`) }),
		lineFault("line to Redis: crumbling", unnoticed, func(l *link) { l.spoil("slicer", "upstream", `"average_size":20,"size_variation":10,"delay":50`) }),
	}
}

// evict removes everything that the locks keep but signs of life.
func evict(n *network) {
	n.t.Helper()
	keys, err := n.store.Keys(n.t.Context(), "lock:*{*").Result()
	if err == nil && len(keys) > 0 {
		err = n.store.Del(n.t.Context(), keys...).Err()
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestRedisTrouble sends from several senders while Redis is in trouble. Nobody waits
// for Redis and nothing fails because of it. Senders whose transactions arrive at
// one relay keep their order throughout, without a window; one who goes from relay to
// relay, and waits for each answer before the next, is never refused for what a relay
// has missed. When the trouble is over, the order between relays holds again by itself.
func TestRedisTrouble(t *testing.T) {
	t.Parallel()
	for _, f := range append(troubles(), moreTroubles()...) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, alert()...)
			n.startRelays(2)
			n.sufferAndRecover(f)
			n.checkTidy()
		})
	}
}

// sufferAndRecover is the scenario of TestRedisTrouble.
func (n *network) sufferAndRecover(f fault) {
	n.t.Helper()
	s := &storm{net: n, servers: []*redistest.Server{n.redis}, fleet: n.relays, apart: map[string]bool{}}
	faithful, wandering := newBurst(n), newBurst(n)
	senders := n.newSenders(4)
	sockets := make([]*socket, len(senders))
	for i := range senders {
		sockets[i] = faithful.dial(n.relays[i%2])
	}
	arrive := wandering.travel(n.newSender(), n.relays)
	const count, from, to = 80, 15, 60
	before := n.relays[0].metric(failures)
	pace(20*time.Millisecond, count, func(i int) {
		switch {
		case i == from && f.begin != nil:
			f.begin(s)
		case i == to:
			s.notice(f, before)
			if f.end != nil {
				f.end(s)
			}
		case i >= from && i < to && i%3 == 0 && f.during != nil:
			f.during(s)
		}
		for j, sender := range senders {
			sockets[j].send(sender.pay(1)...)
		}
	})
	arrive()
	n.check(faithful.wait(), allowance{})
	n.check(wandering.wait(), allowance{})

	for _, r := range n.relays {
		r.sharesOrder()
	}
	after := newBurst(n)
	n.lineUp(after, n.newSender(), n.relays, 12)
	n.check(after.wait(), allowance{})
}

// failures counts the calls to Redis that failed.
const failures = "rpc_relay_lock_redis_errors_total"

// notice waits until the first relay has noticed the fault, if it must: the relay, too, may have stood still.
func (s *storm) notice(f fault, before float64) {
	s.net.t.Helper()
	if f.begin == nil || f.unnoticed {
		return
	}
	until(s.net.t, normal, "relay A notices the trouble", func() bool {
		if s.relay(0).metric(failures) > before {
			return true
		}
		if f.end == nil {
			f.begin(s)
		}
		return false
	})
}

// TestRedisAbsentAtStart: a relay that starts without Redis serves at once, in its own
// order, and shares the order when Redis appears, without a restart.
func TestRedisAbsentAtStart(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, alert()...)
	n.redis.Kill()
	a, b := n.launch("A"), n.launch("B")
	alice := n.newSender()
	early := newBurst(n)
	socket := early.dial(a)
	for range 20 {
		socket.send(alice.pay(1)...)
	}
	n.check(early.wait(), allowance{})
	n.redis.Restart()
	a.sharesOrder()
	b.sharesOrder()
	after := newBurst(n)
	n.lineUp(after, n.newSender(), n.relays, 12)
	n.check(after.wait(), allowance{})
	n.checkTidy()
}

// TestFailover kills the master that the relays found through a Sentinel (L11).
func TestFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	n := newNetwork(t, append(alert(), "REDIS_URL="+sentinel.URL())...)
	n.store = sentinel.Master.Client()
	n.startRelays(2)
	n.sufferAndRecover(fault{
		begin:     func(*storm) { sentinel.Failover() },
		end:       func(*storm) { n.store = sentinel.Replica.Client() }, // which decides the order afterwards
		unnoticed: true,
	})
	n.checkTidy()
}

// TestCluster runs the relays on a cluster of three servers: an order of arrival
// over both relays, for senders whose keys are on different servers; then one server
// dies and comes back.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	n := newNetwork(t, append(alert(), "REDIS_URL="+cluster.URL())...)
	n.store = redistest.Dial(t, cluster.URL())
	relays := n.startRelays(2)
	b := newBurst(n)
	for _, s := range n.newSenders(3) {
		n.lineUp(b, s, relays, 10)
		n.check(b.wait(), allowance{})
	}

	faithful := newBurst(n)
	senders := n.newSenders(4)
	sockets := make([]*socket, len(senders))
	for i := range senders {
		sockets[i] = faithful.dial(relays[i%2])
	}
	pace(20*time.Millisecond, 60, func(i int) {
		if i == 15 {
			cluster.Nodes[1].Kill()
		}
		for j, s := range senders {
			sockets[j].send(s.pay(1)...)
		}
	})
	n.check(faithful.wait(), allowance{})
}
