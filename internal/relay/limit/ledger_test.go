package limit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

const patience = time.Minute // machines that test are busy; no setting may be longer

// books keep what was spent in a window: those of a process, or in Redis.
type books interface {
	reserve(ctx context.Context, c claim) (answer, error)
	settle(ctx context.Context, g grant, actual int64) (sums, error)
}

// alone are the books of a process.
type alone struct{ *local }

func (l alone) reserve(_ context.Context, c claim) (answer, error) { return l.local.reserve(c), nil }

func (l alone) settle(_ context.Context, g grant, actual int64) (sums, error) {
	l.change(g.window, g.books, actual-g.amount)
	return nil, nil
}

// site makes books that several processes share.
type site func(t *testing.T, lapse time.Duration, maxBooks int) (process func() books)

func far(client redis.UniversalClient, scope string, lapse time.Duration, maxBooks int) *remote {
	r := newRemote(client, scope, patience, slog.New(slog.DiscardHandler))
	r.lapse, r.maxBooks = lapse, maxBooks
	return r
}

func connect(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisx.Open(url, redisx.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// sites are all implementations.
func sites(t *testing.T) map[string]site {
	t.Helper()
	over := func(url string) site {
		return func(t *testing.T, lapse time.Duration, maxBooks int) func() books {
			return func() books { return far(connect(t, url), t.Name(), lapse, maxBooks) }
		}
	}
	return map[string]site{
		"local": func(_ *testing.T, _ time.Duration, maxBooks int) func() books {
			l := alone{newLocal(maxBooks)}
			return func() books { return l }
		},
		"redis":   over(redistest.Start(t).URL()),
		"cluster": over(redistest.StartCluster(t).URL()),
	}
}

func onEverySite(t *testing.T, test func(t *testing.T, s site)) {
	t.Helper()
	for name, s := range sites(t) {
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

var (
	claimsMade   int
	claimsMadeMu sync.Mutex
)

func nextClaim() string {
	claimsMadeMu.Lock()
	defer claimsMadeMu.Unlock()
	claimsMade++
	return fmt.Sprint("claim", claimsMade)
}

// reserve claims an amount and returns the grant and whether it was granted.
func reserve(t *testing.T, l books, w window, amount int64, books ...book) (grant, answer) {
	t.Helper()
	c := claim{id: nextClaim(), window: w, amount: amount, books: books}
	a, err := l.reserve(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return grant{id: c.id, window: w, amount: amount, books: a.sums.books()}, a
}

func settle(t *testing.T, l books, g grant, actual int64) sums {
	t.Helper()
	changed, err := l.settle(context.Background(), g, actual)
	if err != nil {
		t.Fatal(err)
	}
	return changed
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
		process := s(t, time.Hour, 100)
		l, other, w := process(), process(), today()
		total, plan := fixed("total", 100), fixed("plan:a b", 50)

		first, a := reserve(t, l, w, 30, total, plan)
		compare(t, "first claim", a, answer{granted, sums{{"total", 30}, {"plan:a b", 30}}})
		_, a = reserve(t, other, w, 21, total, plan)
		compare(t, "claim over the second book", a, answer{1, sums{{"total", 30}, {"plan:a b", 30}}})
		second, a := reserve(t, other, w, 20, total, plan)
		compare(t, "claim that just fits", a, answer{granted, sums{{"total", 50}, {"plan:a b", 50}}})
		_, a = reserve(t, l, w, 0, total, plan)
		compare(t, "a free claim in a full book", a, answer{1, sums{{"total", 50}, {"plan:a b", 50}}})
		_, a = reserve(t, l, w, 51, total)
		compare(t, "claim over the first book", a, answer{0, sums{{"total", 50}}})

		settle(t, l, first, 10)
		_, a = reserve(t, l, w, 0, total, plan)
		compare(t, "after a settlement", a, answer{granted, sums{{"total", 30}, {"plan:a b", 30}}})
		settle(t, other, second, 0)
		_, a = reserve(t, other, w, 0, total, plan)
		compare(t, "after a release", a, answer{granted, sums{{"total", 10}, {"plan:a b", 10}}})

		// What was dearer than expected is charged all the same.
		third, _ := reserve(t, l, w, 1, total, plan)
		settle(t, l, third, 200)
		_, a = reserve(t, other, w, 0, total, plan)
		compare(t, "after overspending", a, answer{0, sums{{"total", 210}, {"plan:a b", 210}}})
	})
}

// The peers' weakness: check first, charge when the fee is known. Here 64 goroutines of
// each of 2 replicas never get more than there is, and exactly that.
func TestNoOverspendUnderConcurrency(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, time.Hour, 1000)
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
						g, a := reserve(t, l, w, amount, fixed("total", limit), opened(fmt.Sprint("sender", rand.N(5)), limit))
						if a.refused != granted {
							continue
						}
						mu.Lock()
						held += amount
						if held > limit {
							t.Errorf("%d of %d are given away", held, limit)
						}
						mu.Unlock()
						if rand.N(3) == 0 {
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
		compare(t, "the sum in the end", a, answer{granted, sums{{"total", int64(held)}}})
	})
}

// The peers' weakness: what several processes charge to a plan at the same time, for the
// first time in a window, overwrites each other. Here the first entries of a book add up.
func TestFirstEntriesAddUp(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		const processes, rounds = 8, 20
		process := s(t, time.Hour, 1000)
		members := make([]books, processes)
		for i := range members {
			members[i] = process()
		}
		w := today()
		for round := range rounds {
			plan := fixed(fmt.Sprint("plan:", round), 1000) // nobody has written in it
			var wait sync.WaitGroup
			begin := make(chan struct{})
			for _, l := range members {
				wait.Go(func() {
					<-begin
					g, a := reserve(t, l, w, 5, plan)
					if a.refused != granted {
						t.Errorf("a claim in an empty book: %v", a)
					}
					settle(t, l, g, 3)
				})
			}
			close(begin)
			wait.Wait()
			_, a := reserve(t, members[0], w, 0, plan)
			compare(t, "after the first entries", a, answer{granted, sums{{plan.name, 3 * processes}}})
		}
	})
}

// The peers' weakness: every process wipes the counters at its own first request of a
// new window. Here a window has books of its own, and nothing is wiped at all.
func TestWindows(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, time.Hour, 100)
		l, other, w := process(), process(), today()
		total := fixed("total", 10)
		late, _ := reserve(t, l, w, 10, total)
		if _, a := reserve(t, other, w, 1, total); a.refused == granted {
			t.Error("more than the limit was granted")
		}
		next := after(w)
		_, a := reserve(t, l, next, 4, total)
		compare(t, "a new window", a, answer{granted, sums{{"total", 4}}})
		_, a = reserve(t, other, next, 4, total)
		compare(t, "the same window elsewhere", a, answer{granted, sums{{"total", 8}}})
		settle(t, l, late, 99)
		_, a = reserve(t, l, next, 0, total)
		compare(t, "after a settlement in the window before", a, answer{granted, sums{{"total", 8}}})
	})
}

// What a process had reserved in Redis when it died is free again after a while.
func TestClaimsOfTheDeadLapse(t *testing.T) {
	r, w := far(connect(t, redistest.Start(t).URL()), "x", 50*time.Millisecond, 100), today()
	total := fixed("total", 10)
	lost, a := reserve(t, r, w, 10, total)
	compare(t, "the claim", a, answer{granted, sums{{"total", 10}}})
	for end := time.Now().Add(patience); a.refused != granted || a.sums[0].spent != 1; _, a = reserve(t, r, w, 1, total) {
		if time.Now().After(end) {
			t.Fatal("the claim never lapsed")
		}
	}
	if changed := settle(t, r, lost, 5); changed != nil {
		t.Errorf("a claim that had lapsed was settled: %v", changed)
	}
}

// However many senders there are, the books are bounded; those beyond share one.
func TestBooksAreBounded(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		process := s(t, time.Hour, 3)
		l, w := process(), today()
		total := fixed("total", 1000)
		reserve(t, l, w, 1, total, opened("a", 10))
		reserve(t, l, w, 1, total, opened("b", 10))
		_, a := reserve(t, l, w, 7, total, opened("c", 10))
		compare(t, "one too many", a, answer{granted, sums{{"total", 9}, {"others", 7}}})
		over, a := reserve(t, l, w, 3, total, opened("d", 10))
		compare(t, "two too many", a, answer{granted, sums{{"total", 12}, {"others", 10}}})
		_, a = reserve(t, l, w, 1, total, opened("e", 10))
		compare(t, "more than they may have together", a, answer{1, sums{{"total", 12}, {"others", 10}}})
		_, a = reserve(t, l, w, 1, total, opened("a", 10))
		compare(t, "who has a book", a, answer{granted, sums{{"total", 13}, {"a", 2}}})
		_, a = reserve(t, l, w, 1, total, fixed("plan:p", 10))
		compare(t, "a plan", a, answer{granted, sums{{"total", 14}, {"plan:p", 1}}})
		settle(t, l, over, 0)
		_, a = reserve(t, l, w, 1, total, opened("e", 10))
		compare(t, "after a release of theirs", a, answer{granted, sums{{"total", 12}, {"others", 8}}})
	})
}

// An empty book takes no room, so that senders who cost nothing are not remembered.
func TestEmptyBooksAreDropped(t *testing.T) {
	onEverySite(t, func(t *testing.T, s site) {
		l, w := s(t, time.Hour, 2)(), today()
		for i := range 10 {
			g, a := reserve(t, l, w, 1, opened(fmt.Sprint(i), 10), opened(fmt.Sprint("x", i), 10))
			compare(t, "claim", a, answer{granted, sums{{fmt.Sprint(i), 1}, {fmt.Sprint("x", i), 1}}})
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
