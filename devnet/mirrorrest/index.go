package mirrorrest

import (
	"iter"
	"slices"
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
	parties    map[int64][]*ledger.Record
	contracts  map[int64][]*ledger.Record
	emitters   map[int64][]*ledger.Record
	topics     map[int64][]*ledger.Record
	logs       []*ledger.Record
}

// A span is first ≤ n < end.
type span struct{ first, end int64 }

func newIndex() *index {
	ix := &index{}
	ix.reset(0)
	return ix
}

func (ix *index) reset(first int64) {
	ix.covered = span{first, first}
	ix.parties = map[int64][]*ledger.Record{}
	ix.contracts = map[int64][]*ledger.Record{}
	ix.emitters = map[int64][]*ledger.Record{}
	ix.topics = map[int64][]*ledger.Record{}
	ix.logs = nil
}

// party returns the records that moved an account's balance or that it paid for.
func (ix *index) party(v *ledger.View, id int64) []*ledger.Record {
	return ix.list(v, func() []*ledger.Record { return ix.parties[id] })
}

// contract returns the records whose call or creation was for a contract.
func (ix *index) contract(v *ledger.View, id int64) []*ledger.Record {
	return ix.list(v, func() []*ledger.Record { return ix.contracts[id] })
}

// emitter returns the records with logs of a contract.
func (ix *index) emitter(v *ledger.View, id int64) []*ledger.Record {
	return ix.list(v, func() []*ledger.Record { return ix.emitters[id] })
}

// topic returns the records with messages of a topic.
func (ix *index) topic(v *ledger.View, id int64) []*ledger.Record {
	return ix.list(v, func() []*ledger.Record { return ix.topics[id] })
}

// logged returns the records with any logs.
func (ix *index) logged(v *ledger.View) []*ledger.Record {
	return ix.list(v, func() []*ledger.Record { return ix.logs })
}

// list brings the index up to the view and returns the part of a list that the
// view shows.
func (ix *index) list(v *ledger.View, pick func() []*ledger.Record) []*ledger.Record {
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
	records := pick()
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
		push(ix.parties, t.Account.Num, rec)
	}
	for _, t := range rec.Did().Tokens {
		push(ix.parties, t.Account.Num, rec)
	}
	for _, t := range rec.Did().NFTs {
		push(ix.parties, t.Sender.Num, rec)
		push(ix.parties, t.Receiver.Num, rec)
	}
	push(ix.parties, rec.ID.Payer.Num, rec)
	if m := rec.Did().Message; m != nil {
		push(ix.topics, m.Topic.Num, rec)
	}
	for _, l := range rec.Logs() {
		push(ix.emitters, l.Contract.Num, rec)
	}
	if len(rec.Logs()) > 0 {
		ix.logs = append(ix.logs, rec)
	}
	if rec.Result != nil {
		push(ix.contracts, rec.Result.Target.Num, rec)
	}
}

// push appends a record once to the list of an entity.
func push(lists map[int64][]*ledger.Record, id int64, rec *ledger.Record) {
	list := lists[id]
	if n := len(list); n == 0 || list[n-1] != rec {
		lists[id] = append(list, rec)
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
	return func(yield func(*ledger.Record) bool) {
		next := slices.All(records)
		if desc {
			next = slices.Backward(records)
		}
		for _, rec := range next {
			if times.allows(rec.Consensus.UnixNano()) && !yield(rec) {
				return
			}
		}
	}
}

// everything yields all records of a view within the bounds on consensus time.
func everything(v *ledger.View, times *bounds, desc bool) iter.Seq[*ledger.Record] {
	low, high := times.span()
	return func(yield func(*ledger.Record) bool) {
		if low > high {
			return
		}
		high := min(high, v.Time().UnixNano())
		for rec := range v.Records(fromNanos(low), fromNanos(high), desc) {
			if times.allows(rec.Consensus.UnixNano()) && !yield(rec) {
				return
			}
		}
	}
}

// fromNanos is hedera.FromNanos for bounds, which may be open: time starts at 0.
func fromNanos(ns int64) hedera.Timestamp { return hedera.FromNanos(max(ns, 0)) }
