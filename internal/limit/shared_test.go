package limit

import (
	"context"
	"log/slog"
	"sync/atomic"
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

// member is one process.
type member struct {
	*shared
	failures atomic.Int64
}

// process starts a process; it learns by itself when Redis is back.
func (f *fleet) process(name string) *member {
	m := &member{}
	far := newRemote(f.client, f.t.Name(), f.lapse, 100, patience)
	m.shared = newShared(far, newLocal(time.Hour, 100), name, slog.New(slog.DiscardHandler), func() { m.failures.Add(1) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return m
}

// total asks Redis itself what was spent.
func (f *fleet) total(w window) int64 {
	f.t.Helper()
	_, a := reserve(f.t, newRemote(f.client, f.t.Name(), f.lapse, 100, patience), w, 0, fixed("total", 1<<50))
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
	total := fixed("total", 100)
	reserve(t, a, w, 10, total)
	reserve(t, b, w, 30, total)
	f.server.Kill()

	if _, answer := reserve(t, b, w, 61, total); answer.refused == granted {
		t.Error("more was granted than was left")
	}
	gone, answer := reserve(t, b, w, 60, total)
	compare(t, "what was left", answer, answer1("total", 100))
	if _, answer := reserve(t, b, w, 1, total); answer.refused == granted {
		t.Error("the process does not count what it spends")
	}
	settle(t, b, gone, 25)
	reserve(t, b, w, 20, total)

	f.server.Restart()
	f.until("Redis knows what was spent without it", func() bool { return b.up.Load() && f.total(w) == 40+25+20 })
	_, answer = reserve(t, a, w, 16, total)
	if answer.refused == granted {
		t.Error("the other process does not know")
	}
	compare(t, "the other process", answer.sums, sums{{"total", 85}})
}

func answer1(book string, spent int64) answer { return answer{granted, sums{{book, spent}}} }

// A claim that Redis has, and that is settled while it is away, is charged once in the
// end.
func TestSettledWithoutRedis(t *testing.T) {
	t.Parallel() // it waits until claims lapse, which they must not before Redis is away
	f, w := newFleet(t), today()
	f.lapse = 20 * time.Second
	p := f.process("a")
	dear, _ := reserve(t, p, w, 10, fixed("total", 100))
	free, _ := reserve(t, p, w, 10, fixed("total", 100))
	f.server.Kill()
	settle(t, p, dear, 15)
	settle(t, p, free, 0)
	var seen int64
	p.near.each(w, func(_ string, spent int64) { seen += spent })
	if seen != 15 {
		t.Errorf("the process counts %d", seen)
	}
	f.server.Restart()
	f.until("exactly the fee is charged", func() bool { return p.up.Load() && f.total(w) == 15 })
}

// A process keeps off a Redis that does not answer: no call of it after the first.
func TestNobodyWaitsForADeadRedis(t *testing.T) {
	server := redistest.Start(t)
	var failures atomic.Int64
	far := newRemote(connect(t, server.URL()), t.Name(), time.Hour, 100, 100*time.Millisecond)
	s := newShared(far, newLocal(time.Hour, 100), "a", slog.New(slog.DiscardHandler), func() { failures.Add(1) })
	server.Pause()
	defer server.Resume()
	w := today()
	for range 1000 {
		g, a := reserve(t, s, w, 1, fixed("total", 1<<40))
		if a.refused != granted {
			t.Fatal("refused for want of Redis")
		}
		settle(t, s, g, 1)
	}
	if n := failures.Load(); n != 1 {
		t.Errorf("%d calls of Redis failed, want the first alone", n)
	}
}

// A message that had to be sent twice counts once.
func TestMessagesCountOnce(t *testing.T) {
	r := newRemote(connect(t, redistest.Start(t).URL()), "x", time.Hour, 100, patience)
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

// A journal is told in parts, of one window.
func TestJournal(t *testing.T) {
	j, w := newJournal(2*messageBooks), today()
	var names []string
	for range 3 * messageBooks {
		names = append(names, nextClaim())
	}
	if !j.add(w, names, 5) || j.add(w, names, 0) {
		t.Error("news is news unless it is nothing")
	}
	told := 0
	for number := int64(1); ; number++ {
		m := j.next()
		if m == nil {
			break
		}
		if told += len(m.amounts); len(m.amounts) > messageBooks || m.number != number {
			t.Errorf("message %d of %d books", m.number, len(m.amounts))
		}
	}
	if told != 2*messageBooks {
		t.Errorf("%d books were told, want as many as there is room for", told)
	}
	j.add(w, []string{"a"}, 5)
	j.add(after(w), []string{"b"}, 5)
	if j.add(w, []string{"c"}, 5) {
		t.Error("the window before is over")
	}
	if m := j.next(); m == nil || len(m.amounts) != 1 || m.amounts["b"] != 5 {
		t.Errorf("the new window's message: %v", m)
	}
}
