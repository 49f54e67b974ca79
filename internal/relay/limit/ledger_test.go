package limit

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

const patience = time.Minute // machines that test are busy; no setting may be longer

// site makes books that several processes share.
type site func(t *testing.T, maxBooks int) (process func() *ledger)

func far(client redis.UniversalClient, scope string) *ledger {
	return newLedger(client, scope, rand.Text(), patience, slog.New(slog.DiscardHandler), func() {})
}

// onEverySite runs a test with the books of a process and with those in Redis.
func onEverySite(t *testing.T, test func(t *testing.T, s site)) {
	t.Helper()
	over := func(url string) site {
		return func(t *testing.T, maxBooks int) func() *ledger {
			return func() *ledger {
				l := far(redistest.Dial(t, url), t.Name())
				l.maxBooks = maxBooks
				return l
			}
		}
	}
	for name, s := range map[string]site{
		"local": func(_ *testing.T, maxBooks int) func() *ledger {
			l := far(nil, "")
			l.maxBooks = maxBooks
			return func() *ledger { return l }
		},
		"redis":   over(redistest.Start(t).URL()),
		"cluster": over(redistest.StartCluster(t).URL()),
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// today is a window that does not end while a test runs.
func today() window {
	now := time.Now()
	return window{now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UnixMilli()}
}

func after(w window) window { return window{w.end, w.end + (w.end - w.start)} }

// fixed is a book that clients cannot open; opened is one that they can.
func fixed(name string, limit int64) book { return book{name: name, limit: limit} }

func opened(name string, limit int64) book { return book{name: name, limit: limit, common: "others"} }

// reserve enters an amount and returns the grant and the answer.
func reserve(t *testing.T, l *ledger, w window, amount int64, books ...book) (grant, answer) {
	t.Helper()
	return l.reserve(t.Context(), w, amount, books)
}

var telling sync.Mutex // flush is for one goroutine

// settle enters what something cost, and tells it at once.
func settle(t *testing.T, l *ledger, g grant, actual int64) {
	t.Helper()
	l.settle(g, actual)
	telling.Lock()
	defer telling.Unlock()
	l.flush(t.Context())
}

func compare(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{}, sum{})); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// A claim is entered everywhere or nowhere, and what it cost takes its place.
func TestClaims(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, 100)
		l, other, w := process(), process(), today()
		total, plan := fixed("total", 100), fixed("plan:a b", 50)

		first, a := reserve(t, l, w, 30, total, plan)
		compare(t, "first claim", a, answer{granted, []sum{{"total", 30}, {"plan:a b", 30}}})
		_, a = reserve(t, other, w, 21, total, plan)
		compare(t, "claim over the second book", a, answer{1, []sum{{"total", 30}, {"plan:a b", 30}}})
		second, a := reserve(t, other, w, 20, total, plan)
		compare(t, "claim that just fits", a, answer{granted, []sum{{"total", 50}, {"plan:a b", 50}}})
		_, a = reserve(t, l, w, 0, total, plan)
		compare(t, "a free claim in a full book", a, answer{1, []sum{{"total", 50}, {"plan:a b", 50}}})
		_, a = reserve(t, l, w, 51, total)
		compare(t, "claim over the first book", a, answer{0, []sum{{"total", 50}}})

		settle(t, l, first, 10)
		_, a = reserve(t, l, w, 0, total, plan)
		compare(t, "after a settlement", a, answer{granted, []sum{{"total", 30}, {"plan:a b", 30}}})
		settle(t, other, second, 0)
		_, a = reserve(t, other, w, 0, total, plan)
		compare(t, "after a release", a, answer{granted, []sum{{"total", 10}, {"plan:a b", 10}}})

		// What was dearer than expected is charged all the same.
		third, _ := reserve(t, l, w, 1, total, plan)
		settle(t, l, third, 200)
		_, a = reserve(t, other, w, 0, total, plan)
		compare(t, "after overspending", a, answer{0, []sum{{"total", 210}, {"plan:a b", 210}}})
	})
}

// The peers' weakness: check first, charge when the fee is known. Here 64 goroutines of
// each of 2 replicas never get more than there is, and exactly that.
func TestNoOverspendUnderConcurrency(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, 1000)
		w := today()
		const limit, amount, each = 1000, 7, 10
		var mu sync.Mutex
		var wait sync.WaitGroup
		held := 0 // amounts granted and not given back
		for range 2 {
			l := process()
			for range 64 {
				wait.Go(func() {
					for range each {
						g, a := reserve(t, l, w, amount, fixed("total", limit), opened(fmt.Sprint("sender", mathrand.N(5)), limit))
						if a.refused != granted {
							continue
						}
						mu.Lock()
						held += amount
						if held > limit {
							t.Errorf("%d of %d are given away", held, limit)
						}
						mu.Unlock()
						if mathrand.N(3) == 0 {
							mu.Lock()
							held -= amount // before the ledger may give it to somebody else
							mu.Unlock()
							settle(t, l, g, 0)
						}
					}
				})
			}
		}
		wait.Wait()
		if held < limit-amount {
			t.Errorf("%d of %d are given away although more was wanted", held, limit)
		}
		_, a := reserve(t, process(), w, 0, fixed("total", 1<<40))
		compare(t, "the sum in the end", a, answer{granted, []sum{{"total", int64(held)}}})
	})
}

// The peers' weakness: every process wipes the counters at its own first request of a
// new window. Here a window has books of its own, and nothing is wiped at all.
func TestWindows(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, 100)
		l, other, w := process(), process(), today()
		total := fixed("total", 10)
		late, _ := reserve(t, l, w, 10, total)
		if _, a := reserve(t, other, w, 1, total); a.refused == granted {
			t.Error("more than the limit was granted")
		}
		next := after(w)
		_, a := reserve(t, l, next, 4, total)
		compare(t, "a new window", a, answer{granted, []sum{{"total", 4}}})
		_, a = reserve(t, other, next, 4, total)
		compare(t, "the same window elsewhere", a, answer{granted, []sum{{"total", 8}}})
		settle(t, l, late, 99)
		_, a = reserve(t, l, next, 0, total)
		compare(t, "after a settlement in the window before", a, answer{granted, []sum{{"total", 8}}})
	})
}

// However many senders there are, the books are bounded; those beyond share one.
func TestBooksAreBounded(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, 3)
		l, w := process(), today()
		total := fixed("total", 1000)
		reserve(t, l, w, 1, total, opened("a", 10))
		reserve(t, l, w, 1, total, opened("b", 10))
		_, a := reserve(t, l, w, 7, total, opened("c", 10))
		compare(t, "one too many", a, answer{granted, []sum{{"total", 9}, {"others", 7}}})
		over, a := reserve(t, l, w, 3, total, opened("d", 10))
		compare(t, "two too many", a, answer{granted, []sum{{"total", 12}, {"others", 10}}})
		_, a = reserve(t, l, w, 1, total, opened("e", 10))
		compare(t, "more than they may have together", a, answer{1, []sum{{"total", 12}, {"others", 10}}})
		_, a = reserve(t, l, w, 1, total, opened("a", 10))
		compare(t, "who has a book", a, answer{granted, []sum{{"total", 13}, {"a", 2}}})
		_, a = reserve(t, l, w, 1, total, fixed("plan:p", 10))
		compare(t, "a plan", a, answer{granted, []sum{{"total", 14}, {"plan:p", 1}}})
		settle(t, l, over, 0)
		_, a = reserve(t, l, w, 1, total, opened("e", 10))
		compare(t, "after a release of theirs", a, answer{granted, []sum{{"total", 12}, {"others", 8}}})
	})
}

// An empty book takes no room, so that senders who cost nothing are not remembered.
func TestEmptyBooksAreDropped(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		l, w := s(t, 2)(), today()
		for i := range 10 {
			g, a := reserve(t, l, w, 1, opened(fmt.Sprint(i), 10), opened(fmt.Sprint("x", i), 10))
			compare(t, "claim", a, answer{granted, []sum{{fmt.Sprint(i), 1}, {fmt.Sprint("x", i), 1}}})
			settle(t, l, g, 0)
		}
	})
}

func TestWindowAt(t *testing.T) {
	for _, test := range []struct{ at, start string }{
		{"2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"2026-03-01T23:59:59.999Z", "2026-03-01T00:00:00Z"},
		{"2026-03-02T01:00:00+03:00", "2026-03-01T00:00:00Z"},
	} {
		at, _ := time.Parse(time.RFC3339, test.at)
		start, _ := time.Parse(time.RFC3339, test.start)
		w := windowAt(at, 24*time.Hour)
		if w.start != start.UnixMilli() || w.end != start.Add(24*time.Hour).UnixMilli() {
			t.Errorf("%s is in the window of %v", test.at, time.UnixMilli(w.start).UTC())
		}
	}
}

// The peers' weakness: six reads for a check, and a search of all keys for every expense. Here a reservation is one script,
// and whatever makes a key sees to its end. Budgets of different networks do not mix.
func TestOneScript(t *testing.T) {
	server, w, total := redistest.Start(t), today(), fixed("total", 10)
	for _, scope := range []string{"0x127", "0x128"} {
		client := redistest.Dial(t, server.URL())
		l := far(client, scope)
		reserve(t, l, w, 0, total) // the script is loaded
		log := new(redistest.Sent)
		client.AddHook(log)
		if _, a := reserve(t, l, w, 10, total); a.refused != granted || log.Load() != 1 {
			t.Errorf("%s: %v with %d commands", scope, a, log.Load())
		}
	}
	owing := far(redistest.Dial(t, server.URL()), "owing")
	owing.enter(w)
	owing.add("total", 1)
	owing.flush(t.Context())
	look := server.Client()
	for _, scope := range []string{"0x127", "0x128", "owing"} {
		key := "hbarlimit:{" + scope + "}:" + fmt.Sprint(w.start) + ":spent"
		if left := look.PTTL(t.Context(), key).Val(); left <= time.Hour || left > 3*time.Hour {
			t.Errorf("%s expires in %v", key, left)
		}
	}
}

// seen is what a process knows to be spent.
func (l *ledger) seen(w window) (sum int64) {
	l.each(w, func(_ string, spent int64) { sum += spent })
	return sum
}

// spend reserves an amount of a total of 100.
func spend(t *testing.T, l *ledger, w window, amount int64) (grant, bool) {
	t.Helper()
	g, a := reserve(t, l, w, amount, fixed("total", 100))
	return g, a.refused == granted
}

// The peers' weakness: a Redis that fails reads as "nothing was spent". Here each process goes on from what it saw last, and the fleet
// learns afterwards what it did.
func TestWithoutRedisNothingIsFree(t *testing.T) {
	server, w := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"), today() // it keeps its data over a crash
	process := func() *ledger {
		l := far(redistest.Dial(t, server.URL()), t.Name())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		return l
	}
	a, b := process(), process()
	spend(t, a, w, 10)
	before, _ := spend(t, b, w, 30)
	server.Kill()
	if _, ok := spend(t, b, w, 61); ok {
		t.Error("more was granted than was left")
	}
	gone, ok := spend(t, b, w, 60)
	if !ok || b.seen(w) != 100 {
		t.Errorf("what was left: %v, %d is spent", ok, b.seen(w))
	}
	if _, ok := spend(t, b, w, 1); ok {
		t.Error("the process does not count what it spends")
	}
	b.settle(gone, 25)
	b.settle(before, 35)
	spend(t, b, w, 20)

	server.Restart()
	look := far(redistest.Dial(t, server.URL()), t.Name())
	must.Until(t, "Redis knows what was spent without it", func() bool { g, _ := spend(t, look, w, 0); return len(g.books) > 0 && look.seen(w) == 10+35+25+20 })
	must.Until(t, "the other process knows", func() bool { _, ok := spend(t, a, w, 11); return !ok && a.seen(w) == 90 })
}

// A message that had to be sent twice counts once. Another process's with its number is another one.
func TestMessagesCountOnce(t *testing.T) {
	client, w := redistest.Dial(t, redistest.Start(t).URL()), today()
	p, q := far(client, "x"), far(client, "x")
	for _, step := range []struct {
		l              *ledger
		number, amount int64
	}{{p, 1, 10}, {p, 1, 10}, {q, 1, 5}, {p, 2, -3}} {
		step.l.message = &message{w, step.number, map[string]int64{"total": step.amount, "b": 1}}
		step.l.flush(t.Context())
	}
	_, a := reserve(t, p, w, 0, fixed("total", 100), fixed("b", 100))
	compare(t, "sums", a.sums, []sum{{"total", 12}, {"b", 3}})
}

// What Redis does not know is told in parts, of one window.
func TestMessages(t *testing.T) {
	l, w := far(redis.NewClient(&redis.Options{}), "x"), today()
	l.maxBooks = 2 * mostTold
	l.enter(w)
	for i := range 3 * mostTold {
		l.add(fmt.Sprint(i), 5)
	}
	told := 0
	for number := int64(1); ; number++ {
		m := l.next()
		if m == nil {
			break
		}
		if again := l.next(); again != m {
			t.Error("a message changes before it is told")
		}
		if told += len(m.amounts); len(m.amounts) > mostTold || m.number != number {
			t.Errorf("message %d of %d books", m.number, len(m.amounts))
		}
		l.message = nil
	}
	if told != 2*mostTold {
		t.Errorf("%d books were told, want as many as there is room for", told)
	}
	l.add("a", 5)
	l.enter(after(w))
	l.add("b", 5)
	l.settle(grant{window: w, amount: 1, books: []string{"c"}}, 5) // its window is over
	if m := l.next(); len(m.amounts) != 1 || m.amounts["b"] != 5 {
		t.Errorf("the new window's message: %v", m)
	}
}
