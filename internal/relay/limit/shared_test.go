package limit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
)

// fleet is processes that share a Redis which the test may take away.
type fleet struct {
	t      *testing.T
	server *redistest.Server
	client redis.UniversalClient
	lapse  time.Duration
}

// newFleet runs a Redis that keeps its data over a crash.
func newFleet(t *testing.T) *fleet {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return &fleet{t: t, server: server, client: connect(t, server.URL()), lapse: time.Hour}
}

// process starts a process; it learns by itself when Redis is back.
func (f *fleet) process(name string) *ledger {
	l := newLedger(far(f.client, f.t.Name(), f.lapse, 100), newLocal(100), name, func() {})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

// spend reserves an amount of the total.
func spend(l *ledger, w window, amount, limit int64) (grant, bool) {
	return l.reserve(context.Background(), claim{id: nextClaim(), window: w, amount: amount, books: []book{fixed("total", limit)}})
}

// seen is what a process knows to be spent.
func (l *ledger) seen(w window) (sum int64) {
	l.near.each(w, func(_ string, spent int64) { sum += spent })
	return sum
}

// total asks Redis itself what was spent.
func (f *fleet) total(w window) int64 {
	f.t.Helper()
	_, a := reserve(f.t, far(f.client, f.t.Name(), f.lapse, 100), w, 0, fixed("total", 1<<50))
	return a.sums[0].spent
}

func (f *fleet) until(what string, condition func() bool) {
	f.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); !condition(); <-ticker.C {
		if time.Now().After(end) {
			f.t.Fatalf("never: %s", what)
		}
	}
}

// The peers' weakness: a Redis that fails reads as "nothing was spent". Here each process
// goes on from what it saw last, and the fleet learns afterwards what it did.
func TestWithoutRedisNothingIsFree(t *testing.T) {
	f, w := newFleet(t), today()
	a, b := f.process("a"), f.process("b")
	spend(a, w, 10, 100)
	spend(b, w, 30, 100)
	f.server.Kill()

	if _, ok := spend(b, w, 61, 100); ok {
		t.Error("more was granted than was left")
	}
	gone, ok := spend(b, w, 60, 100)
	if !ok || b.seen(w) != 100 {
		t.Errorf("what was left: %v, %d is spent", ok, b.seen(w))
	}
	if _, ok := spend(b, w, 1, 100); ok {
		t.Error("the process does not count what it spends")
	}
	b.settle(t.Context(), gone, 25)
	spend(b, w, 20, 100)

	f.server.Restart()
	f.until("Redis knows what was spent without it", func() bool { return !b.owes() && f.total(w) == 40+25+20 })
	f.until("the other process knows", func() bool { _, ok := spend(a, w, 16, 100); return !ok && a.seen(w) == 85 })
}

// A claim that Redis has, and that is settled while it is away, is charged once in the
// end.
func TestSettledWithoutRedis(t *testing.T) {
	t.Parallel() // it waits until claims lapse, which they must not before Redis is away
	f, w := newFleet(t), today()
	f.lapse = 20 * time.Second
	p := f.process("a")
	dear, _ := spend(p, w, 10, 100)
	free, _ := spend(p, w, 10, 100)
	f.server.Kill()
	p.settle(t.Context(), dear, 15)
	p.settle(t.Context(), free, 0)
	if seen := p.seen(w); seen != 15 {
		t.Errorf("the process counts %d", seen)
	}
	f.server.Restart()
	f.until("exactly the fee is charged", func() bool { return !p.owes() && f.total(w) == 15 })
}

// A process keeps off a Redis that does not answer: no call of it after the first.
func TestNobodyWaitsForADeadRedis(t *testing.T) {
	server := redistest.Start(t)
	failures := 0
	r := newRemote(connect(t, server.URL()), t.Name(), 100*time.Millisecond, slog.New(slog.DiscardHandler))
	l := newLedger(r, newLocal(100), "a", func() { failures++ })
	server.Pause()
	defer server.Resume()
	w := today()
	for range 1000 {
		g, ok := spend(l, w, 1, 1<<40)
		if !ok {
			t.Fatal("refused for want of Redis")
		}
		l.settle(t.Context(), g, 1)
	}
	if failures != 1 {
		t.Errorf("%d calls of Redis failed, want the first alone", failures)
	}
}

// A message that had to be sent twice counts once.
func TestMessagesCountOnce(t *testing.T) {
	r := far(connect(t, redistest.Start(t).URL()), "x", time.Hour, 100)
	w := today()
	send := func(process string, number, amount int64) {
		t.Helper()
		if err := r.enter(context.Background(), process, &message{w, number, map[string]int64{"total": amount, "b": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	send("p", 1, 10)
	send("p", 1, 10)
	send("q", 1, 5)
	send("p", 2, -3)
	_, a := reserve(t, r, w, 0, fixed("total", 100), fixed("b", 100))
	compare(t, "sums", a.sums, sums{{"total", 12}, {"b", 3}})
}

// What Redis does not know is told in parts, of one window.
func TestMessages(t *testing.T) {
	const most = 500
	l, w := newLedger(&remote{}, newLocal(2*most), "a", nil), today()
	var names []string
	for range 3 * most {
		names = append(names, nextClaim())
	}
	l.owe(w, names, 0)
	if l.owes() {
		t.Error("nothing is something")
	}
	l.owe(w, names, 5)
	told := 0
	for number := int64(1); l.owes(); number++ {
		m := l.next()
		if again := l.next(); again != m {
			t.Error("a message changes before it is told")
		}
		if told += len(m.amounts); len(m.amounts) > most || m.number != number {
			t.Errorf("message %d of %d books", m.number, len(m.amounts))
		}
		l.message = nil
	}
	if told != 2*most {
		t.Errorf("%d books were told, want as many as there is room for", told)
	}
	l.owe(w, []string{"a"}, 5)
	l.owe(after(w), []string{"b"}, 5)
	l.owe(w, []string{"c"}, 5) // the window is over
	if m := l.next(); len(m.amounts) != 1 || m.amounts["b"] != 5 {
		t.Errorf("the new window's message: %v", m)
	}
}
