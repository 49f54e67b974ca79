package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/e2e/harness"
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

// burst collects the answers to everything a test sends.
type burst struct {
	net *network

	mu      sync.Mutex // guards all below
	answers []answer
	open    map[*transaction]int // sent and not answered
	changed chan struct{}        // closed and replaced whenever one is answered
}

func newBurst(n *network) *burst {
	return &burst{net: n, open: map[*transaction]int{}, changed: make(chan struct{})}
}

func (b *burst) sent(txs ...*transaction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tx := range txs {
		b.open[tx]++
	}
}

func (b *burst) answered(answers ...answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range answers {
		if b.open[a.tx]--; b.open[a.tx] == 0 {
			delete(b.open, a.tx)
		}
	}
	b.answers = append(b.answers, answers...)
	close(b.changed)
	b.changed = make(chan struct{})
}

// post sends transactions over HTTP, several as one batch, and does not wait.
func (b *burst) post(r *relay, txs ...*transaction) {
	b.postUntil(b.net.t.Context(), r, txs...)
}

// postUntil is post by a client that goes away when ctx ends.
func (b *burst) postUntil(ctx context.Context, r *relay, txs ...*transaction) {
	b.sent(txs...)
	go func() { b.answered(r.post(ctx, txs...)...) }()
}

// insist sends to the first relay and, when that does not answer or is shutting
// down, to the next, as a client with several URLs does.
func (b *burst) insist(relays []*relay, tx *transaction) {
	b.sent(tx)
	go func() {
		for i, r := range relays {
			got := r.post(b.net.t.Context(), tx)[0]
			again := i < len(relays)-1 && (got.lost != nil || got.says(stopping))
			if again {
				b.sent(tx)
			}
			b.answered(got)
			if !again {
				return
			}
		}
	}()
}

// travel sends one transaction after the other to the relays in turn, each when the
// one before is answered, until the returned function is called. It stops at the
// first failure, since what follows would be a gap.
func (b *burst) travel(s *sender, relays []*relay) (arrive func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tx := s.pay(1)[0]
			b.sent(tx)
			got := relays[i%len(relays)].post(b.net.t.Context(), tx)[0]
			b.answered(got)
			if !got.ok() {
				return
			}
		}
	}()
	return func() {
		close(stop)
		select {
		case <-stopped:
		case <-time.After(normal): // wait tells what is not answered
		}
	}
}

// pending gives how many are not answered, and a channel that is closed when that changes.
func (b *burst) pending() (int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open), b.changed
}

// wait returns the answers to all that was sent. It fails when one does not come
// within the normal time after the last was sent, or after trouble's end.
func (b *burst) wait() []answer {
	b.net.t.Helper()
	return b.waitFor(normal)
}

func (b *burst) waitFor(limit time.Duration) []answer {
	b.net.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		count, changed := b.pending()
		if count == 0 {
			break
		}
		select {
		case <-changed:
		case <-deadline.C:
			b.net.check(b.all(), allowance{lost: anybody}) // what went wrong with the others tells why
			b.net.t.Fatalf("%d transactions are not answered %v after the last was sent: %v", count, limit, b.unanswered())
		}
	}
	return b.all()
}

func (b *burst) unanswered() []*transaction {
	b.mu.Lock()
	defer b.mu.Unlock()
	var txs []*transaction
	for tx := range b.open {
		txs = append(txs, tx)
	}
	return txs
}

// all gives the answers so far, in the order in which they came.
func (b *burst) all() []answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.answers)
}

// TestSwitch turns ordering off and on at run time. What was queued before keeps its
// order; while it is off nothing is written to Redis; afterwards the order holds again.
func TestSwitch(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	relays := n.startRelays(2)
	alice := n.newSender()
	queued := newBurst(n)
	for _, r := range relays {
		r.nodes.hold()
	}
	for i, tx := range alice.pay(16) {
		queued.post(relays[i%2], tx)
		n.queued(alice, i)
	}
	for _, r := range relays {
		r.setOrdering(false)
	}
	for _, r := range relays {
		r.nodes.heal()
	}
	n.check(queued.wait(), allowance{})
	n.checkTidy()

	bob := n.newSender()
	for range 3 { // one after the other: nobody else orders them now
		for _, r := range relays {
			b := newBurst(n)
			b.post(r, bob.pay(1)...)
			n.check(b.wait(), allowance{})
		}
	}
	if keys, err := n.store.Keys(t.Context(), "lock:*{"+"*").Result(); err != nil || slices.Contains(keys, "lock:memory:"+tag(bob)) {
		t.Errorf("ordering is off, and Redis knows the sender: %q, %v", keys, err)
	}

	for _, r := range relays {
		r.setOrdering(true)
		r.sharesOrder()
	}
	again := newBurst(n)
	n.lineUp(again, n.newSender(), relays, 16)
	n.check(again.wait(), allowance{})
	n.checkTidy()
}

// TestDisconnect: the client of a queued transaction goes away. Its place is given up
// if the operator wants that, so that the wallet's replacement is not overtaken by what
// it replaces (L17); else the transaction goes on without it.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings []string
		stays    bool
	}{
		"gives up its place": {[]string{"LOCK_CANCEL_ON_DISCONNECT=true"}, false},
		"keeps its place":    {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, tc.settings...)
			relays := n.startRelays(2)
			alice := n.newSender()
			txs := alice.pay(3)
			rival := alice.rival(txs[1])
			for _, r := range relays {
				r.nodes.hold()
			}
			patient, hasty := newBurst(n), newBurst(n)
			patient.post(relays[0], txs[0])
			n.queued(alice, 0)
			ctx, leave := context.WithCancel(t.Context())
			hasty.postUntil(ctx, relays[1], rival)
			n.queued(alice, 1)
			leave()
			answers := hasty.wait()
			if tc.stays {
				pause(300 * time.Millisecond) // for it to go, if it were to
			}
			expected := 0
			if tc.stays {
				expected = 1
			}
			n.queued(alice, expected)
			patient.post(relays[0], txs[1])
			n.queued(alice, expected+1)
			patient.post(relays[1], txs[2])
			n.queued(alice, expected+2)
			for _, r := range relays {
				r.nodes.heal()
			}
			answers = append(answers, patient.wait()...)
			n.check(answers, allowance{
				lost:    func(a answer) bool { return a.tx == rival },
				refused: func(a answer) bool { return tc.stays && a.tx == txs[1] && a.says(tooLow) },
			})
			n.executed(txs[0], txs[2])
			if tc.stays {
				n.executed(rival)
			} else {
				n.executed(txs[1])
			}
			n.checkTidy()
		})
	}
}

// stall gives the sender's turn to a transaction at relay a, to which no node answers, and
// lets so many of the sender's wait behind it at b: the first of them has the same nonce.
func (n *network) stall(a, b *relay, s *sender, count int) (stalled, behind *burst) {
	n.t.Helper()
	stalled, behind = newBurst(n), newBurst(n)
	txs := s.pay(count)
	a.nodes.mute()
	stalled.post(a, s.rival(txs[0]))
	n.queued(s, 0)
	for i, tx := range txs {
		behind.post(b, tx)
		n.queued(s, i+1)
	}
	return stalled, behind
}

// TestLocksCommand: `lockstep locks` shows who holds a turn that makes no progress, and ends it
// by hand, through another relay than the holder's; the next in line goes.
func TestLocksCommand(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	relays := n.startRelays(2)
	a, b := relays[0], relays[1]
	alice := n.newSender()
	n.pushes()
	stuck, waiting := n.stall(a, b, alice, 2)
	locks := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), harness.Program(t), append([]string{"locks"}, args...)...)
		cmd.Env = harness.Environment()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("locks %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := locks("--admin", a.admin); !strings.Contains(out, alice.address.Hex()) || !strings.Contains(out, "nonce 0, fence ") {
		t.Errorf("the holder is not shown:\n%s", out)
	}
	until(t, normal, "the other relay shows whose turn it is", func() bool {
		_, after, found := strings.Cut(locks("--admin", b.admin), "process ")
		holder, _, _ := strings.Cut(after, " ")
		return found && a.process.Log.Has(holder)
	})
	if out := locks("--admin", b.admin, "release", alice.address.Hex()); !strings.Contains(out, `"released":true`) {
		t.Errorf("not released:\n%s", out)
	}
	answers := waiting.wait()
	a.nodes.heal()
	answers = append(answers, stuck.wait()...)
	n.check(answers, allowance{refused: func(got answer) bool { return got.relay == "A" && (got.says(turnLost) || got.says(tooLow)) }})
	n.checkTidy()
}
