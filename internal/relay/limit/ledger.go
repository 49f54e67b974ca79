package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

// claim is an amount to set aside.
type claim struct {
	id     string // never used twice
	window window
	amount int64 // tinybars
	books  []book
}

// book is where spending is entered, for one claim.
type book struct {
	name  string
	limit int64
	// common is the book to use instead when there are too many already; empty for books
	// that clients cannot open at will.
	common string
}

// answer says what came of a claim.
type answer struct {
	refused int  // index of the first book without room; -1 = granted
	sums    sums // of all of its books, this claim included if it was granted
}

const granted = -1

// sum is what was spent by the entries of one book, claims included.
type sum struct {
	book  string
	spent int64
}

type sums []sum

func (s sums) books() []string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = s[i].book
	}
	return names
}

// grant is a claim that was entered, with the books it was entered in.
type grant struct {
	id     string
	window window
	amount int64
	books  []string
	far    bool // in Redis
}

// window is a stretch of time with a budget of its own, in milliseconds since the Unix
// epoch.
type window struct{ start, end int64 }

// windowAt returns the window that a moment is in.
func windowAt(t time.Time, length time.Duration) window {
	ms := max(length.Milliseconds(), 1)
	start := t.UnixMilli() / ms * ms
	return window{start, start + ms}
}

// hasRoom is the rule of every book: a book that has reached its limit takes nothing
// any more, not even what is expected to cost nothing.
func hasRoom(spent, amount, limit int64) bool { return spent < limit && spent+amount <= limit }

// ledger keeps what was spent: in Redis, for a fleet, and without one, or while it does not answer, in this process, which
// then goes on from the sums that it saw last. What it spends meanwhile is entered in Redis afterwards, and until that is
// done the process goes by its own sums. So in an outage each process can spend what was left, and no more; nobody waits
// for Redis longer than one deadline, and nobody spends freely.
//
//   - A claim is entered in all of its books or in none, and in none that would then
//     hold more than its limit. Of claims at the same time, one sees the others.
//   - A claim in Redis that is never settled lapses after a while, and its amount is free again:
//     whoever made it has died.
//   - Each window has books of its own. What is settled after its window has ended
//     changes nothing in the next.
//   - There is a bound on how many books are kept. Beyond it, claims of books that
//     clients can open at will are entered in the book that those have in common.
type ledger struct {
	far     *remote // nil: each process has books of its own
	near    *local  // the sums seen last, and the truth while Redis is away
	process string
	failed  func() // counts calls of Redis that failed

	mu      sync.Mutex
	window  window           // of amounts: the newest
	amounts map[string]int64 // by book, that Redis does not know; guarded by mu, like all here
	message *message         // amounts on their way, perhaps received; nil: none
	number  int64            // of the last message
}

// message is what Redis is told. Its number tells it from others of the process, so that it counts once even if it is sent
// again.
type message struct {
	window  window
	number  int64
	amounts map[string]int64
}

func newLedger(far *remote, near *local, process string, failed func()) *ledger {
	return &ledger{far: far, near: near, process: process, failed: failed, amounts: map[string]int64{}}
}

// reserve enters a claim; ok tells whether there was room.
func (l *ledger) reserve(ctx context.Context, c claim) (g grant, ok bool) {
	g = grant{id: c.id, window: c.window, amount: c.amount}
	if l.far != nil && !l.owes() {
		a, err := l.far.reserve(ctx, c)
		if err == nil {
			l.near.observe(c.window, a.sums)
			g.books, g.far = a.sums.books(), true
			return g, a.refused == granted
		}
		l.note(err) // a claim that was entered all the same lapses
	}
	a := l.near.reserve(c)
	g.books = a.sums.books()
	if a.refused == granted {
		l.owe(c.window, g.books, c.amount)
	}
	return g, a.refused == granted
}

// settle puts the actual amount in the place of the claimed one.
func (l *ledger) settle(ctx context.Context, g grant, actual int64) {
	if g.far {
		changed, err := l.far.settle(ctx, g, actual)
		if err == nil && changed != nil {
			l.near.observe(g.window, changed)
			return
		}
		if err != nil {
			l.note(err)
		}
	}
	l.settleHere(g, actual)
}

// settleHere settles a claim that was made while Redis was away, or one that Redis has lost or
// cannot be told about. If it still has that, the claim lapses there and leaves what is
// entered here.
func (l *ledger) settleHere(g grant, actual int64) {
	l.near.change(g.window, g.books, actual-g.amount)
	if !g.far {
		actual -= g.amount
	}
	l.owe(g.window, g.books, actual)
}

// note counts a call of Redis that failed.
func (l *ledger) note(err error) {
	if !errors.Is(err, redisx.ErrResting) {
		l.failed()
	}
}

// owes tells whether there is anything that Redis does not know.
func (l *ledger) owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.message != nil || len(l.amounts) > 0
}

// owe notes what Redis is to be told.
func (l *ledger) owe(w window, books []string, amount int64) {
	if l.far == nil || amount == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.start > l.window.start {
		l.window = w
		clear(l.amounts)
	}
	if w != l.window {
		return
	}
	for _, name := range books {
		if _, known := l.amounts[name]; known || len(l.amounts) < l.near.maxBooks {
			if l.amounts[name] += amount; l.amounts[name] == 0 { // it was given back
				delete(l.amounts, name)
			}
		}
	}
}

// run tells Redis what it does not know, until ctx ends. No transaction has to try that.
func (l *ledger) run(ctx context.Context) {
	const pause = time.Second
	for sleep.For(ctx, pause) {
		l.flush(ctx)
	}
	l.flush(ctx) // Redis calls do not end with ctx, but with their deadline
}

// flush enters in Redis what it does not know, as long as it answers.
func (l *ledger) flush(ctx context.Context) {
	for m := l.next(); m != nil; m = l.next() {
		// One that failed is sent again as it is: it may have been entered.
		if err := l.far.enter(ctx, l.process, m); err != nil {
			l.note(err)
			return
		}
		l.mu.Lock()
		l.message = nil
		l.mu.Unlock()
	}
}

// next returns the message to be sent; nil if there is none.
func (l *ledger) next() *message {
	const most = 500 // books
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.message != nil || len(l.amounts) == 0 {
		return l.message
	}
	l.number++
	l.message = &message{window: l.window, number: l.number, amounts: map[string]int64{}}
	for name, amount := range l.amounts {
		if len(l.message.amounts) == most {
			break
		}
		l.message.amounts[name] = amount
		delete(l.amounts, name)
	}
	return l.message
}
