package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxBooks bounds the memory of a ledger to some tens of megabytes.
const maxBooks = 100_000

// local is a ledger in the memory of this process.
type local struct {
	lapse    time.Duration
	maxBooks int

	mu     sync.Mutex
	window window           // the books below are of this one; all guarded by mu
	books  map[string]int64 // never holds a 0
	holds  map[string]held
	lapses []lapsing // in order of time
}

// held is a claim that waits for its settlement.
type held struct {
	amount int64
	books  []string
}

type lapsing struct {
	id string
	at time.Time
}

func newLocal(lapse time.Duration, maxBooks int) *local {
	return &local{lapse: lapse, maxBooks: maxBooks, books: map[string]int64{}, holds: map[string]held{}}
}

func (l *local) reserve(_ context.Context, c claim) (answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(c.window)
	l.sweep()
	a := answer{refused: granted, sums: make(sums, len(c.books))}
	for i, b := range c.books {
		name := l.name(b)
		a.sums[i] = sum{name, l.books[name]}
		if a.refused == granted && !hasRoom(l.books[name], c.amount, b.limit) {
			a.refused = i
		}
	}
	if a.refused != granted {
		return a, nil
	}
	hold := held{amount: c.amount, books: make([]string, len(c.books))}
	for i := range a.sums {
		hold.books[i] = a.sums[i].book
		a.sums[i].spent = l.add(a.sums[i].book, c.amount)
	}
	l.holds[c.id] = hold
	l.lapses = append(l.lapses, lapsing{c.id, time.Now().Add(l.lapse)})
	if len(l.lapses) > 2*len(l.holds)+1024 { // most of them were settled
		l.lapses = slices.DeleteFunc(l.lapses, func(e lapsing) bool { _, open := l.holds[e.id]; return !open })
	}
	return a, nil
}

func (l *local) settle(_ context.Context, g grant, actual int64) (sums, error) {
	return l.end(g, actual), nil
}

func (l *local) end(g grant, actual int64) sums {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.window != l.window {
		return nil
	}
	l.sweep()
	return l.replace(g.id, actual)
}

func (l *local) note(g grant, actual int64) { l.end(g, actual) }

// holdsClaim tells whether a claim waits here for its settlement.
func (l *local) holdsClaim(g grant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.holds[g.id]
	return ok
}

// replace puts the actual amount of a claim in the place of the claimed one. l.mu is held.
func (l *local) replace(id string, actual int64) sums {
	hold, ok := l.holds[id]
	if !ok {
		return nil
	}
	delete(l.holds, id)
	changed := make(sums, len(hold.books))
	for i, name := range hold.books {
		changed[i] = sum{name, l.add(name, actual-hold.amount)}
	}
	return changed
}

// enter begins a new window. A clock that was set back does not bring an old one
// back. l.mu is held.
func (l *local) enter(w window) {
	if w.start <= l.window.start {
		return
	}
	l.window, l.lapses = w, nil
	clear(l.books)
	clear(l.holds)
}

// sweep gives back what nobody settled. l.mu is held.
func (l *local) sweep() {
	now := time.Now()
	for len(l.lapses) > 0 && !now.Before(l.lapses[0].at) {
		l.replace(l.lapses[0].id, 0)
		l.lapses = l.lapses[1:]
	}
}

// name is the book that an entry goes to. l.mu is held.
func (l *local) name(b book) string {
	if _, known := l.books[b.name]; b.common != "" && !known && len(l.books) >= l.maxBooks {
		return b.common
	}
	return b.name
}

// add changes the sum of a book and returns the new one. An empty book takes no
// room. l.mu is held.
func (l *local) add(name string, amount int64) int64 {
	spent := max(l.books[name]+amount, 0)
	if spent == 0 {
		delete(l.books, name)
	} else {
		l.books[name] = spent
	}
	return spent
}

// observe takes over sums that were seen elsewhere.
func (l *local) observe(w window, seen sums) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(w)
	if w != l.window {
		return
	}
	for _, s := range seen {
		if l.name(book{name: s.book, common: "-"}) == s.book {
			l.add(s.book, s.spent-l.books[s.book])
		}
	}
}

// change adds the same amount to several books, without a claim.
func (l *local) change(w window, books []string, amount int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w != l.window {
		return
	}
	for _, name := range books {
		l.add(name, amount)
	}
}

// each calls f for every book of the window that w is, or of none.
func (l *local) each(w window, f func(name string, spent int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w != l.window {
		return
	}
	for name, spent := range l.books {
		f(name, spent)
	}
}
