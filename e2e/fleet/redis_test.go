package fleet

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
)

// trouble is something that happens to Redis, or to the lines that lead to it, in
// the middle of a burst.
type trouble struct {
	name       string
	begin, end func(*network)
	// during is done again and again in between.
	during func(*network)
	// noticed is the metric of relay A that shows that the trouble was real; empty if
	// a relay may well not notice.
	noticed string
	brief   bool // it ends by itself
}

// failures counts the calls to Redis that failed.
const failures = "rpc_relay_lock_redis_errors_total"

// line makes trouble on the line of relay A alone.
func line(name, noticed string, begin func(*link)) trouble {
	return trouble{
		name:    name + " line",
		begin:   func(n *network) { begin(n.relays[0].redis) },
		end:     func(n *network) { n.relays[0].redis.heal() },
		noticed: noticed,
	}
}

// do runs a command on Redis.
func do(args ...any) func(*network) {
	return func(n *network) {
		n.t.Helper()
		if err := n.store.Do(n.t.Context(), args...).Err(); err != nil {
			n.t.Fatalf("%v: %v", args, err)
		}
	}
}

// together does several things, one after the other.
func together(all ...func(*network)) func(*network) {
	return func(n *network) {
		n.t.Helper()
		for _, f := range all {
			f(n)
		}
	}
}

func troubles() []trouble {
	return []trouble{
		{
			// L8: new connections are refused at once. L6, L11: what comes back is empty.
			name:    "killed, and back without data",
			begin:   func(n *network) { n.redis.Kill() },
			end:     func(n *network) { n.redis.Restart() },
			noticed: failures,
		},
		{
			// L8: connections stay, nothing answers, there is no error.
			name:    "frozen",
			begin:   func(n *network) { n.redis.Pause() },
			end:     func(n *network) { n.redis.Resume() },
			noticed: failures,
		},
		{name: "client pause", begin: do("CLIENT", "PAUSE", 900, "ALL"), noticed: failures, brief: true},
		// L11: a failover or an eviction that forgets who holds what.
		{name: "flushed", during: do("FLUSHALL")},
		{name: "evicting", during: evict},
		{name: "scripts flushed", during: do("SCRIPT", "FLUSH")},
		{name: "read-only", begin: do("REPLICAOF", "127.0.0.1", "1"), end: do("REPLICAOF", "NO", "ONE"), noticed: failures},
		{
			name:    "out of memory",
			begin:   do("CONFIG", "SET", "maxmemory", "1"),
			end:     do("CONFIG", "SET", "maxmemory", "0"),
			noticed: failures,
		},
		// L7, L9: a call may have happened although its reply is lost.
		{name: "connections killed", during: together(do("CLIENT", "KILL", "TYPE", "normal"), do("CLIENT", "KILL", "TYPE", "pubsub"))},
		line("slow", "", func(l *link) { l.spoil("latency", "downstream", `"latency":40,"jitter":30`) }),
		line("narrow", "", func(l *link) { l.spoil("bandwidth", "upstream", `"rate":1`) }),
		line("crumbling", "", func(l *link) { l.spoil("slicer", "upstream", `"average_size":20,"size_variation":10,"delay":50`) }),
		line("half-open", failures, (*link).swallow),
		line("silent", failures, (*link).mute),
		line("resetting", failures, func(l *link) { l.spoil("reset_peer", "downstream", `"timeout":20`) }),
		{
			name:    "cut line",
			begin:   func(n *network) { n.relays[0].redis.cut() },
			end:     func(n *network) { n.relays[0].redis.repair() },
			noticed: failures,
		},
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
	for _, tr := range troubles() {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, alert()...)
			n.startRelays(2)
			n.sufferAndRecover(tr)
			n.checkTidy()
		})
	}
}

// sufferAndRecover is the scenario of TestRedisTrouble.
func (n *network) sufferAndRecover(tr trouble) {
	n.t.Helper()
	faithful, wandering := newBurst(n), newBurst(n)
	senders := n.newSenders(4)
	sockets := make([]*socket, len(senders))
	for i := range senders {
		sockets[i] = faithful.dial(n.relays[i%2])
	}
	arrive := wandering.travel(n.newSender(), n.relays)
	const count, from, to = 80, 15, 60
	before := n.relays[0].failed(tr)
	pace(20*time.Millisecond, count, func(i int) {
		switch {
		case i == from && tr.begin != nil:
			tr.begin(n)
		case i == to:
			n.notice(tr, before)
			if tr.end != nil {
				tr.end(n)
			}
		case i >= from && i < to && i%3 == 0 && tr.during != nil:
			tr.during(n)
		}
		for j, s := range senders {
			sockets[j].send(s.pay(1)...)
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

// failed gives the metric that shows the trouble, if one does.
func (r *relay) failed(tr trouble) float64 {
	r.net.t.Helper()
	if tr.noticed == "" {
		return 0
	}
	return r.metric(tr.noticed)
}

// notice waits until relay A has noticed the trouble, if it must: the relay, too, may have stood still.
func (n *network) notice(tr trouble, before float64) {
	n.t.Helper()
	if tr.noticed == "" {
		return
	}
	until(n.t, normal, "relay A notices the trouble", func() bool {
		if n.relays[0].failed(tr) > before {
			return true
		}
		if tr.brief {
			tr.begin(n)
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
	n.store = look(t, sentinel.Master)
	n.startRelays(2)
	n.sufferAndRecover(trouble{
		begin: func(*network) { sentinel.Failover() },
		end:   func(n *network) { n.store = look(t, sentinel.Replica) }, // which decides the order afterwards
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
	addrs := []string{}
	for _, server := range cluster.Nodes {
		addrs = append(addrs, server.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true, ReadTimeout: normal})
	t.Cleanup(func() { client.Close() })
	n.store = client
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
