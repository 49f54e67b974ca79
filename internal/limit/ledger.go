package limit

import (
	"context"
	"time"
)

// ledger keeps what was spent in a window, in books with names. It is in the memory of
// this process or in Redis; one suite of tests holds both to this contract:
//
//   - A claim is entered in all of its books or in none, and in none that would then
//     hold more than its limit. Of claims at the same time, one sees the others.
//   - A claim that is never settled lapses after a while, and its amount is free again:
//     whoever made it has died.
//   - Each window has books of its own. What is settled after its window has ended
//     changes nothing in the next.
//   - There is a bound on how many books are kept. Beyond it, claims of books that
//     clients can open at will are entered in the book that those have in common.
type ledger interface {
	// reserve enters a claim. The answer to one that was granted says where.
	reserve(ctx context.Context, c claim) (answer, error)
	// settle puts the actual amount in the place of the claimed one. It returns the
	// books that were changed, with their new sums; none when the claim has lapsed or was
	// settled before.
	settle(ctx context.Context, g grant, actual int64) (sums, error)
}

// patientLedger is a ledger that can also be told something for later.
type patientLedger interface {
	ledger
	// note is settle without waiting for anybody.
	note(g grant, actual int64)
}

// grant is a claim that was entered, with the books it was entered in.
type grant struct {
	id     string
	window window
	amount int64
	books  []string
}

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

func (s sums) books() []string {
	names := make([]string, len(s))
	for i := range s {
		names[i] = s[i].book
	}
	return names
}
