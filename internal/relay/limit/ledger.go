package limit

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

//go:embed lua/spend.lua
var spendLua string

const (
	// maxBooks bounds the memory of the books to some tens of megabytes.
	maxBooks = 100_000
	// mostTold is of how many books Redis is told at once.
	mostTold = 500
	// tellEvery is how often Redis is told what it does not know. No transaction waits for that.
	tellEvery = time.Second
	// keysOutlive is how long the key of a window is there after its end: what is settled late finds it.
	keysOutlive = 15 * time.Minute
)

// book is where spending is entered.
type book struct {
	name  string
	limit int64
	// common is the book to use instead when there are too many already; empty for books
	// that clients cannot open at will.
	common string
}

// grant is an amount that was entered in some books.
type grant struct {
	window window
	amount int64
	books  []string
}

// answer says what came of an amount to be entered.
type answer struct {
	refused int // index of the first book without room; -1 = granted
	sums    []sum
}

const granted = -1

// sum is what was spent by the entries of one book.
type sum struct {
	book  string
	spent int64
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
//   - An amount is entered in all of its books or in none, and in none that would then
//     hold more than its limit. Of amounts at the same time, one sees the others.
//   - Each window has books of its own. What is settled after its window has ended
//     changes nothing in the next.
//   - There is a bound on how many books are kept. Beyond it, amounts for books that
//     clients can open at will are entered in the book that those have in common.
type ledger struct {
	redis    *redisx.Asker // nil: each process has books of its own
	script   *redis.Script
	scope    string
	process  string
	maxBooks int
	failed   func() // counts calls of Redis that failed

	mu      sync.Mutex // guards all below
	window  window     // of all below: the newest
	spent   map[string]int64
	owed    map[string]int64 // the part of spent that Redis was not told of
	alone   bool             // owed has what was granted without Redis, which is not asked before it knows
	message *message         // on its way, perhaps received; nil: none
	number  int64            // of the last message
}

// message is what Redis is told. Its number tells it from others of the process, so that it counts once even if it is sent
// again.
type message struct {
	window  window
	number  int64
	amounts map[string]int64
}

func newLedger(client redis.UniversalClient, scope, process string, timeout time.Duration, log *slog.Logger, failed func()) *ledger {
	return &ledger{
		redis: redisx.NewAsker(client, redisx.AskerOptions{Timeout: timeout, Outage: &outage.Log{
			Logger: log, Upstream: "redis", Name: "spending", Level: slog.LevelWarn,
			Consequence: "each relay counts by itself what transactions cost, so a fleet can spend more than the limit",
		}}),
		script: redis.NewScript(redisx.SpareLua + spendLua), scope: scope, process: process, maxBooks: maxBooks, failed: failed,
		spent: map[string]int64{}, owed: map[string]int64{},
	}
}

// reserve enters an amount.
func (l *ledger) reserve(ctx context.Context, w window, amount int64, books []book) (grant, answer) {
	a, asked := l.reserveFar(ctx, w, amount, books)
	if !asked {
		a = l.reserveHere(w, amount, books)
	}
	names := make([]string, len(a.sums))
	for i, s := range a.sums {
		names[i] = s.book
	}
	return grant{window: w, amount: amount, books: names}, a
}

// reserveFar asks Redis, unless there is none, or it does not know what was granted without it.
func (l *ledger) reserveFar(ctx context.Context, w window, amount int64, books []book) (a answer, asked bool) {
	l.mu.Lock()
	alone := l.redis == nil || l.alone
	l.mu.Unlock()
	if alone {
		return a, false
	}
	args := make([]any, 0, 4*len(books))
	for _, b := range books {
		args = append(args, b.name, amount, b.limit, b.common)
	}
	a, err := l.spend(ctx, w, 0, args)
	return a, err == nil
}

// reserveHere decides by what this process knows.
func (l *ledger) reserveHere(w window, amount int64, books []book) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(w)
	a := answer{refused: granted, sums: make([]sum, len(books))}
	for i, b := range books {
		name := l.name(b)
		a.sums[i] = sum{name, l.spent[name]}
		if a.refused == granted && !hasRoom(l.spent[name], amount, b.limit) {
			a.refused = i
		}
	}
	if a.refused != granted {
		return a
	}
	l.alone = l.redis != nil
	for i := range a.sums {
		l.add(a.sums[i].book, amount)
		a.sums[i].spent = l.spent[a.sums[i].book]
	}
	return a
}

// settle puts the actual amount in the place of the one that was entered.
func (l *ledger) settle(g grant, actual int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.window != l.window || actual == g.amount {
		return
	}
	for _, name := range g.books {
		l.add(name, actual-g.amount)
	}
}

// enter begins a new window. A clock that was set back does not bring an old one back. l.mu is held.
func (l *ledger) enter(w window) {
	if w.start > l.window.start {
		l.window, l.alone = w, false
		clear(l.spent)
		clear(l.owed)
	}
}

// name is the book that an amount goes to. l.mu is held.
func (l *ledger) name(b book) string {
	if _, known := l.spent[b.name]; b.common != "" && !known && len(l.spent) >= l.maxBooks {
		return b.common
	}
	return b.name
}

// add changes the sum of a book, of which Redis is told. l.mu is held.
func (l *ledger) add(name string, amount int64) {
	l.set(name, l.spent[name]+amount)
	if _, known := l.owed[name]; l.redis != nil && (known || len(l.owed) < l.maxBooks) {
		if l.owed[name] += amount; l.owed[name] == 0 { // it was given back
			delete(l.owed, name)
		}
	}
}

// set notes the sum of a book. An empty book takes no room. l.mu is held.
func (l *ledger) set(name string, spent int64) {
	if spent > 0 {
		l.spent[name] = spent
	} else {
		delete(l.spent, name)
	}
}

// spend runs the script. That its caller goes away does not end it: it would look like a Redis that does not answer.
func (l *ledger) spend(ctx context.Context, w window, number int64, books []any) (a answer, err error) {
	var reply []any
	err = l.redis.Ask(context.WithoutCancel(ctx), func(ctx context.Context, c redis.UniversalClient) (err error) {
		args := append([]any{w.end + keysOutlive.Milliseconds(), l.maxBooks, "#" + l.process, number}, books...)
		reply, err = l.script.Run(ctx, c, []string{l.key(w)}, args...).Slice()
		return err
	})
	if err == nil {
		a, err = readAnswer(reply)
	}
	if err != nil {
		if !errors.Is(err, redisx.ErrResting) {
			l.failed()
		}
		return a, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(w)
	for _, s := range a.sums {
		if w == l.window && l.name(book{name: s.book, common: "-"}) == s.book {
			l.set(s.book, s.spent+l.owed[s.book])
		}
	}
	return a, nil
}

// key is where a window's books are.
func (l *ledger) key(w window) string {
	return "hbarlimit:{" + l.scope + "}:" + strconv.FormatInt(w.start, 10) + ":spent"
}

// errReply means that the server answered with something the script does not return.
var errReply = errors.New("unexpected reply of the script of limits")

func readAnswer(reply []any) (a answer, err error) {
	if len(reply)%2 != 1 {
		return a, errReply
	}
	refused, ok := reply[0].(int64)
	a.refused = int(refused) - 1
	for i := 1; i < len(reply); i += 2 {
		name, isName := reply[i].(string)
		text, isText := reply[i+1].(string)
		spent, err := strconv.ParseInt(text, 10, 64)
		if !isName || !isText || err != nil {
			return a, fmt.Errorf("%w: %v, %v", errReply, reply[i], reply[i+1])
		}
		a.sums = append(a.sums, sum{name, spent})
	}
	if !ok {
		return a, errReply
	}
	return a, nil
}

// run tells Redis what it does not know, until ctx ends.
func (l *ledger) run(ctx context.Context) {
	for sleep.For(ctx, tellEvery) {
		l.flush(ctx)
	}
	l.flush(ctx) // Redis calls do not end with ctx, but with their deadline
}

// flush enters in Redis what it does not know, as long as it answers.
func (l *ledger) flush(ctx context.Context) {
	for m := l.next(); m != nil; m = l.next() {
		args := make([]any, 0, 4*len(m.amounts))
		for name, amount := range m.amounts {
			args = append(args, name, amount, int64(greatest), "")
		}
		// One that failed is sent again as it is: it may have been entered.
		if _, err := l.spend(ctx, m.window, m.number, args); err != nil {
			return
		}
		l.mu.Lock()
		l.message = nil
		l.mu.Unlock()
	}
}

// next returns the message to be sent; nil if there is none.
func (l *ledger) next() *message {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.message == nil && len(l.owed) == 0 {
		l.alone = false
	}
	if l.redis == nil || l.message != nil || len(l.owed) == 0 {
		return l.message
	}
	l.number++
	l.message = &message{window: l.window, number: l.number, amounts: map[string]int64{}}
	for name, amount := range l.owed {
		if len(l.message.amounts) == mostTold {
			break
		}
		l.message.amounts[name] = amount
		delete(l.owed, name)
	}
	return l.message
}

// each calls f for every book of the window that w is, or of none.
func (l *ledger) each(w window, f func(name string, spent int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w != l.window {
		return
	}
	for name, spent := range l.spent {
		f(name, spent)
	}
}
