package app

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/mirror"
)

// costsFunc is a source of costs that uses no gas.
type costsFunc func(ids []hedera.TransactionID, from hedera.Timestamp) (map[hedera.TransactionID]charge, error)

func (f costsFunc) charges(_ context.Context, ids []hedera.TransactionID, from hedera.Timestamp) (map[hedera.TransactionID]charge, error) {
	return f(ids, from)
}

func (costsFunc) gasUsed(context.Context, map[hedera.TransactionID]charge) map[hedera.TransactionID]uint64 {
	return nil
}

// A cost that the mirror node does not tell in time is counted as missed, once; one that it tells late is not.
func TestCostsThatAreMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, late := hedera.TransactionID{Payer: hedera.Entity(1)}, hedera.TransactionID{Payer: hedera.Entity(2)}
		asked := map[hedera.TransactionID]int{}
		c := newCosts(costsFunc(func(ids []hedera.TransactionID, _ hedera.Timestamp) (map[hedera.TransactionID]charge, error) {
			id := ids[0]
			switch asked[id]++; {
			case id == late && asked[id] == costLooks:
				return map[hedera.TransactionID]charge{id: {fee: 7, own: &mirror.Transaction{Name: "FILEDELETE", Result: "SUCCESS"}}}, nil
			case asked[id]%2 == 0:
				return nil, nil
			}
			return nil, errors.New("away")
		}))
		for _, id := range []hedera.TransactionID{never, late} {
			c.enqueue(charged{id: id})
			for len(c.queue) > 0 {
				c.askCosts(t.Context(), c.gather(t.Context()))
			}
		}
		missed := func() float64 { return must.Measure(t, c.missed)["lockstep_costs_missed_total"] }
		if n := missed(); n != 1 {
			t.Errorf("%v are missed", n)
		}
		if asked[never] != costLooks || asked[late] != costLooks {
			t.Errorf("asked %v", asked)
		}
		// Who asked for one hears of it, and the metrics do not.
		fees := map[hedera.TransactionID]hedera.Tinybar{}
		for _, id := range []hedera.TransactionID{never, late} {
			asked[id] = 0
			c.lookUp(id, func(fee hedera.Tinybar, known bool) {
				if fees[id] = fee; known != (id == late) {
					t.Errorf("the cost of %v is known: %v", id, known)
				}
			})
			for len(c.queue) > 0 {
				c.askCosts(t.Context(), c.gather(t.Context()))
			}
		}
		if len(fees) != 2 || fees[late] != 7 {
			t.Errorf("told: %v", fees)
		}
		for range maxCharged + 3 { // more than the queue holds
			c.enqueue(charged{due: time.Now()})
		}
		refused := false
		if c.lookUp(never, func(_ hedera.Tinybar, known bool) { refused = !known }); !refused {
			t.Error("who asks for too many does not hear of it")
		}
		if n := missed(); n != 4 {
			t.Errorf("%v are missed, with those that did not fit", n)
		}
	})
}

// Transactions of one payer are looked for together. When the list of what the payer did ends before one, its last
// looks are for it alone.
func TestCostsOfTransactionsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := hedera.TransactionID{Payer: hedera.Entity(1), ValidStart: hedera.Timestamp{Seconds: 5}}
		var sizes []int
		told := map[hedera.TransactionID]int{}
		c := newCosts(costsFunc(func(ids []hedera.TransactionID, _ hedera.Timestamp) (map[hedera.TransactionID]charge, error) {
			sizes = append(sizes, len(ids))
			known := map[hedera.TransactionID]charge{}
			for _, id := range ids {
				if id.Payer != ids[0].Payer {
					t.Errorf("%v and %v are looked for together", id, ids[0])
				}
				if id.ValidStart != hidden.ValidStart || len(ids) == 1 {
					known[id] = charge{own: &mirror.Transaction{Name: "FILEDELETE", Result: "SUCCESS"}}
					told[id]++
				}
			}
			return known, nil
		}))
		const each = 1500 // more than one request takes
		for payer := range int64(2) {
			for second := range int64(each) {
				c.add(common.Hash{}, hedera.TransactionID{Payer: hedera.Entity(1 + payer), ValidStart: hedera.Timestamp{Seconds: second}})
			}
		}
		for len(c.queue) > 0 {
			c.askCosts(t.Context(), c.gather(t.Context()))
		}
		if len(told) != 2*each {
			t.Errorf("%d of %d transactions are known", len(told), 2*each)
		}
		for id, times := range told {
			if times != 1 {
				t.Errorf("%v is told %d times", id, times)
			}
		}
		if len(sizes) > 12 || slices.Max(sizes) != maxTogether {
			t.Errorf("requests for %v transactions", sizes)
		}
	})
}

// The records between valid start and consensus, which are other transactions', are not read. A transaction that reached
// consensus sooner than those before it is found at the second look.
func TestCostsAreSoughtFromConsensusOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usual, sooner = 6, 2 // seconds from valid start to consensus
		var starts []int64         // in the order of looks
		lag := map[int64]int64{}   // by valid start
		c := newCosts(costsFunc(func(ids []hedera.TransactionID, from hedera.Timestamp) (map[hedera.TransactionID]charge, error) {
			starts = append(starts, from.Seconds)
			known := map[hedera.TransactionID]charge{}
			for _, id := range ids {
				at := hedera.Timestamp{Seconds: id.ValidStart.Seconds + lag[id.ValidStart.Seconds]}
				if at.Compare(from) >= 0 {
					known[id] = charge{own: &mirror.Transaction{Name: "FILEDELETE", Result: "SUCCESS", Timestamp: at}}
				}
			}
			return known, nil
		}))
		look := func(start, seconds int64) {
			for i := range int64(2) {
				lag[start+i] = seconds
				c.add(common.Hash{}, hedera.TransactionID{Payer: hedera.Entity(1), ValidStart: hedera.Timestamp{Seconds: start + i}})
			}
			for len(c.queue) > 0 {
				c.askCosts(t.Context(), c.gather(t.Context()))
			}
		}
		look(100, usual)
		look(200, usual)
		look(300, sooner)
		look(400, sooner)
		if want := []int64{100, 200 + usual - 1, 300 + usual - 1, 300, 400 + sooner - 1}; !slices.Equal(starts, want) {
			t.Errorf("looked for transactions from %v on, want %v", starts, want)
		}
	})
}
