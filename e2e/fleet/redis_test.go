package fleet

import (
	"testing"
	"time"

	"lockstep/internal/redistest"
)

// TestRedisTrouble sends from several senders while Redis is in trouble. Nobody waits
// for Redis and nothing fails because of it. Senders whose transactions arrive at
// one relay keep their order throughout, without a window; one who goes from relay to
// relay, and waits for each answer before the next, is never refused for what a relay
// has missed. When the trouble is over, the order between relays holds again by itself.
func TestRedisTrouble(t *testing.T) {
	t.Parallel()
	for _, f := range troubles() {
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

// TestCluster runs the relays on a cluster of three servers, one of which dies and comes back: the others go on with the senders whose keys
// they have, and the order of arrival over both relays holds again afterwards.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	n := newNetwork(t, append(alert(), "REDIS_URL="+cluster.URL())...)
	n.store = redistest.Dial(t, cluster.URL())
	n.startRelays(2)
	n.sufferAndRecover(fault{
		begin:     func(*storm) { cluster.Nodes[1].Kill() },
		end:       func(*storm) { cluster.Nodes[1].Restart() },
		unnoticed: true,
	})
}
