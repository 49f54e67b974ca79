package limit

import "sync"

// maxBooks bounds the memory of the books to some tens of megabytes.
const maxBooks = 100_000

// local is the books of a window in the memory of this process.
type local struct {
	maxBooks int

	mu     sync.Mutex
	window window           // the books below are of this one; all guarded by mu
	books  map[string]int64 // never holds a 0
}

func newLocal(maxBooks int) *local { return &local{maxBooks: maxBooks, books: map[string]int64{}} }

// reserve enters a claim.
func (l *local) reserve(c claim) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(c.window)
	a := answer{refused: granted, sums: make(sums, len(c.books))}
	for i, b := range c.books {
		name := l.name(b)
		a.sums[i] = sum{name, l.books[name]}
		if a.refused == granted && !hasRoom(l.books[name], c.amount, b.limit) {
			a.refused = i
		}
	}
	if a.refused == granted {
		for i := range a.sums {
			a.sums[i].spent = l.add(a.sums[i].book, c.amount)
		}
	}
	return a
}

// enter begins a new window. A clock that was set back does not bring an old one
// back. l.mu is held.
func (l *local) enter(w window) {
	if w.start > l.window.start {
		l.window = w
		clear(l.books)
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

// change adds the same amount to several books of the window that w is, or of none.
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
