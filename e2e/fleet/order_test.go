package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestWrongOrderIsPunished is the control of all other tests: the same burst that
// they send is rejected by this network when nobody puts it in order.
func TestWrongOrderIsPunished(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "ENABLE_NONCE_ORDERING=false", "WRONG_NONCE_BUDGET=0")
	relays := n.startRelays(2)
	alice := n.newSender()
	txs := alice.pay(50)
	rand.Shuffle(len(txs), func(i, j int) { txs[i], txs[j] = txs[j], txs[i] })
	b := newBurst(n)
	pace(time.Millisecond, len(txs), func(i int) { b.post(relays[i%2], txs[i]) })
	answers := b.wait()
	if found := problems(n.decisions(), answers, allowance{}); len(found) < 10 {
		t.Errorf("a shuffled burst without ordering has only these problems: %q", found)
	}
	punished, counted := 0, 0.0
	for _, d := range n.decisions() {
		if d.Status == wrongNonce {
			punished++
		}
	}
	for _, r := range relays {
		counted += r.metric("rpc_relay_wrong_nonce_errors_total")
	}
	if int(counted) != punished { // L26: a counter that never moves
		t.Errorf("the relays count %v wrong nonces, and the network %d", counted, punished)
	}
	if keys, err := n.store.Keys(t.Context(), "lock:*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("ordering is off, and Redis has %q, %v", keys, err)
	}
}

// TestAlternatingRelays sends consecutive nonces to two relays in turn, 1 ms apart.
// They may arrive in any order; the window puts them in nonce order (L18).
func TestAlternatingRelays(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, patient)
	relays := n.startRelays(2)
	alice := n.newSender()
	for range rounds(t, 4) {
		b := newBurst(n)
		txs := alice.pay(100)
		pace(time.Millisecond, len(txs), func(i int) { b.post(relays[i%2], txs[i]) })
		n.check(b.wait(), allowance{})
	}
	n.checkTidy()
}

// TestLatePredecessor: one transaction comes to its relay after the window of those that follow it, which are at another relay; that
// relay's own transactions lead up to it (L38). It costs time and no transaction.
func TestLatePredecessor(t *testing.T) {
	t.Parallel()
	const late, window = 5, 2 * time.Second // the whole wait is five windows
	n := newNetwork(t, "NONCE_GAP_HOLD_MS=2000")
	relays := n.startRelays(2)
	b := newBurst(n)
	txs := n.newSender().pay(20)
	for i, tx := range txs {
		if i != late {
			b.post(relays[0], tx)
		}
	}
	<-time.After(window + time.Second)
	if got := len(n.decisions()); got != late {
		t.Fatalf("%d transactions are executed before the late one comes", got)
	}
	b.post(relays[1], txs[late])
	n.check(b.wait(), allowance{})
	n.checkTidy()
}

// lineUp makes the nodes answer nobody, sends the sender's transactions to the relays in
// turn, each when the one before has its place, and lets the nodes answer again.
func (n *network) lineUp(b *burst, s *sender, relays []*relay, count int) {
	n.t.Helper()
	for _, r := range relays {
		r.nodes.hold()
	}
	for i, tx := range s.pay(count) {
		b.post(relays[i%len(relays)], tx)
		n.queued(s, i)
	}
	for _, r := range relays {
		r.nodes.heal()
	}
}

// queued waits until the sender's lock is owned and so many places stand behind it.
func (n *network) queued(s *sender, behind int) {
	n.t.Helper()
	until(n.t, normal, fmt.Sprintf("%d wait behind the owner", behind), func() bool {
		return n.owned(s) && n.waiting() == behind
	})
}

// TestCrowd sends from 50 senders at once (a thousand with LOCKSTEP_SOAK), 20 transactions
// each, over two relays: nobody waits for another sender, no relay polls (L14, L15),
// and what a transaction costs Redis, its place in the pool included, does not grow with the queue.
func TestCrowd(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, rare, patient)
	relays := n.startRelays(2)
	const each = 20
	size, limit := 50, 5*normal
	if rounds(t, 1) > 1 {
		size, limit = 1000, 10*normal
	}
	crowd := n.crowd(size, relays[0])
	b := newBurst(n)
	sockets := make([]*socket, 20) // with ports for 20,000 requests at once the machine would be the bottleneck
	for i := range sockets {
		sockets[i] = b.dial(relays[i%2])
	}
	before, begin := n.commands(), time.Now()
	for i := range each {
		for j, s := range crowd {
			sockets[(i+j)%len(sockets)].send(s.pay(1)...)
		}
	}
	answers := b.waitFor(limit)
	took, total := time.Since(begin), each*len(crowd)
	n.check(answers, allowance{slow: limit})
	for _, r := range relays { // however busy the machine was, all lived
		if dead, lost := r.metric("rpc_relay_lock_zombie_cleanups_total"), r.metric("lockstep_lock_lost_total"); dead+lost > 0 {
			t.Errorf("relay %s has taken a living one for dead %v times, and lost %v turns", r.name, dead, lost)
		}
	}
	perTx, by := n.commands().since(before, total)
	t.Logf("%d transactions in %v, %.1f Redis commands each:%s", total, took.Round(time.Millisecond), perTx, by)
	if perTx > 16 {
		t.Errorf("%.1f Redis commands for each transaction, want at most 16", perTx)
	}
	n.checkTidy()
}

// rare makes heartbeats rare: their number goes by the time that a test takes.
const rare = "LOCK_HEARTBEAT_INTERVAL_MS=5000"
