package mirrorrest

import (
	"iter"
	"sort"
	"sync"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// An index finds records by the entities in them, which the ledger itself does
// not do. It is filled when a request first needs it and then only with the
// blocks that came since, so that a client who asks for one account's history
// does not pay for everybody's.
//
// Lists only ever grow at their end. A reader may therefore keep the slice it
// got under the lock.
type index struct {
	mu         sync.Mutex
	generation uint64 // of the ledger, when the index was begun
	covered    span   // block numbers that are in
	lists      map[subject][]*ledger.Record
}

// A subject is what the records of one list have in common.
type subject struct {
	kind subjectKind
	id   int64 // of an entity; 0 for all of the kind
}

type subjectKind uint8

const (
	paidOrMoved subjectKind = iota // it paid for them, or they moved its balance
	called                         // it was called or created
	emitted                        // its logs, or with id 0 any
	submitted                      // messages
)

// A span is first ≤ n < end.
type span struct{ first, end int64 }

func newIndex() *index {
	ix := &index{}
	ix.reset(0)
	return ix
}

func (ix *index) reset(first int64) {
	ix.covered, ix.lists = span{first, first}, map[subject][]*ledger.Record{}
}

// about brings the index up to the request's view and returns the records of a list that the view shows.
func (r *request) about(kind subjectKind, id int64) []*ledger.Record {
	ix, v := r.index, r.view
	generation := v.Generation().Number // before the blocks: a revert meanwhile shows the next time
	blocks := v.Blocks()
	if len(blocks) == 0 {
		return nil
	}
	ix.mu.Lock()
	if generation != ix.generation { // numbers stand for other blocks now
		ix.generation = generation
		ix.reset(blocks[0].Number)
	}
	ix.extend(blocks)
	records := ix.lists[subject{kind, id}]
	ix.mu.Unlock()
	return within(records, blocks[0].From, v.Time())
}

// extend needs the lock. The blocks are all that a view shows, oldest first.
func (ix *index) extend(blocks []*ledger.Block) {
	kept := span{blocks[0].Number, blocks[len(blocks)-1].Number + 1}
	// Old blocks go away one by one; starting over for each would cost more than
	// their records do.
	forgotten := kept.first - ix.covered.first
	if ix.covered.end < kept.first || forgotten > ix.covered.end-kept.first {
		ix.reset(kept.first)
	}
	if ix.covered.end >= kept.end {
		return
	}
	for _, b := range blocks[ix.covered.end-kept.first:] {
		for _, rec := range b.Records {
			ix.enter(rec)
		}
	}
	ix.covered.end = kept.end
}

func (ix *index) enter(rec *ledger.Record) {
	for _, t := range rec.Transfers {
		ix.push(paidOrMoved, t.Account.Num, rec)
	}
	for _, t := range rec.Did().Tokens {
		ix.push(paidOrMoved, t.Account.Num, rec)
	}
	for _, t := range rec.Did().NFTs {
		ix.push(paidOrMoved, t.Sender.Num, rec)
		ix.push(paidOrMoved, t.Receiver.Num, rec)
	}
	ix.push(paidOrMoved, rec.ID.Payer.Num, rec)
	if m := rec.Did().Message; m != nil {
		ix.push(submitted, m.Topic.Num, rec)
	}
	for _, l := range rec.Logs() {
		ix.push(emitted, l.Contract.Num, rec)
		ix.push(emitted, 0, rec)
	}
	if rec.Result != nil {
		ix.push(called, rec.Result.Target.Num, rec)
	}
}

// push appends a record once to a list.
func (ix *index) push(kind subjectKind, id int64, rec *ledger.Record) {
	list := ix.lists[subject{kind, id}]
	if n := len(list); n == 0 || list[n-1] != rec {
		ix.lists[subject{kind, id}] = append(list, rec)
	}
}

// within cuts a list in consensus order to low ≤ time ≤ high.
func within(records []*ledger.Record, low, high hedera.Timestamp) []*ledger.Record {
	first := sort.Search(len(records), func(i int) bool { return records[i].Consensus.Compare(low) >= 0 })
	end := sort.Search(len(records), func(i int) bool { return records[i].Consensus.Compare(high) > 0 })
	if first >= end {
		return nil
	}
	return records[first:end]
}

// ordered yields the records of a list that lie within the bounds on consensus time.
func ordered(records []*ledger.Record, times *bounds, desc bool) iter.Seq[*ledger.Record] {
	low, high := times.span()
	records = within(records, fromNanos(low), fromNanos(high))
	return where(inOrder(records, desc), func(rec *ledger.Record) bool { return times.allows(rec.Consensus.UnixNano()) })
}

// everything yields all records of a view within the bounds on consensus time.
func everything(v *ledger.View, times *bounds, desc bool) iter.Seq[*ledger.Record] {
	low, high := times.span()
	if low > high {
		return ordered(nil, times, desc)
	}
	records := v.Records(fromNanos(low), fromNanos(min(high, v.Time().UnixNano())), desc)
	return where(records, func(rec *ledger.Record) bool { return times.allows(rec.Consensus.UnixNano()) })
}

// fromNanos is hedera.FromNanos for bounds, which may be open: time starts at 0.
func fromNanos(ns int64) hedera.Timestamp { return hedera.FromNanos(max(ns, 0)) }
