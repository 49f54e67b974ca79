package pending_test

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/pending"
)

// TestContract holds for a pool by itself, for one on Redis, and for two on one Redis,
// of which one is told and the other asked.
func TestContract(t *testing.T) {
	kinds := map[string]func(*testing.T) (told, asked *pending.Pool){
		"local": func(t *testing.T) (told, asked *pending.Pool) {
			p, _ := start(t, settings(), nil)
			return p, p
		},
		"redis": func(t *testing.T) (told, asked *pending.Pool) {
			p, _ := start(t, settings(), redistest.Dial(t, redistest.Start(t).URL()))
			return p, p
		},
		"fleet": func(t *testing.T) (told, asked *pending.Pool) {
			url := redistest.Start(t).URL()
			a, _ := start(t, settings(), redistest.Dial(t, url))
			b, _ := start(t, settings(), redistest.Dial(t, url))
			return a, b
		},
		"cluster": func(t *testing.T) (told, asked *pending.Pool) {
			if testing.Short() {
				t.Skip("three servers take their time")
			}
			url := redistest.StartCluster(t).URL()
			a, _ := start(t, settings(), redistest.Dial(t, url))
			b, _ := start(t, settings(), redistest.Dial(t, url))
			return a, b
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			told, asked := kind(t)
			for name, check := range contract {
				t.Run(name, func(t *testing.T) { check(c{t, newWallet(t), told, asked}) })
			}
		})
	}
}

// c is what a rule of the contract works with.
type c struct {
	*testing.T
	*wallet
	told, asked *pending.Pool
}

// expects waits until the next nonces are as given: what one relay is told another
// knows a moment later.
func (c c) expects(confirmed, latest, pending uint64) {
	c.T.Helper()
	var l, p uint64
	must.Until(c.T, "the nonces", func() bool {
		l, p = c.asked.Latest(c.Context(), c.address, confirmed), c.asked.Next(c.Context(), c.address, confirmed)
		return l == latest && p == pending
	})
}

func (c c) add(txs ...*eth.Tx) {
	for _, tx := range txs {
		c.told.Add(tx)
	}
}

func (c c) lists(want ...*eth.Tx) {
	c.T.Helper()
	hashes := func(list []pending.Transaction) (hashes []common.Hash) {
		for _, t := range list {
			if t.From != c.address {
				c.Errorf("a transaction of %s", t.From)
			}
			hashes = append(hashes, t.Fields.Hash())
		}
		return hashes
	}
	var expected []common.Hash
	for _, tx := range want {
		expected = append(expected, tx.Hash())
	}
	must.Until(c.T, "the list", func() bool { return slices.Equal(hashes(c.asked.Pending(c.Context(), &c.address)), expected) })
}

func (c c) finds(tx *eth.Tx) {
	c.T.Helper()
	must.Until(c.T, "a hash is known", func() bool {
		t, ok := c.asked.Find(c.Context(), tx.Hash())
		return ok && t.From == c.address && t.Fields.Hash() == tx.Hash()
	})
}

func (c c) misses(tx *eth.Tx) {
	c.T.Helper()
	must.Until(c.T, "a hash is forgotten", func() bool { _, ok := c.asked.Find(c.Context(), tx.Hash()); return !ok })
}

var contract = map[string]func(c){
	"nothing is known": func(c c) {
		c.expects(7, 7, 7)
		c.lists()
		c.misses(c.tx(7))
	},
	"pending from the confirmed nonce on": func(c c) {
		first, second := c.tx(7), c.tx(8)
		c.add(first, second)
		c.expects(7, 7, 9)
		c.lists(first, second)
		c.finds(second)
	},
	"a gap does not raise the pending nonce": func(c c) {
		late := c.tx(9)
		c.add(c.tx(7), late)
		c.expects(7, 7, 8)
		c.expects(8, 8, 8)
		c.expects(9, 9, 10)
		c.finds(late)
	},
	"executed": func(c c) {
		first, second := c.tx(7), c.tx(8)
		c.add(first, second)
		c.told.Accepted(first)
		c.told.Done(first, true, false)
		c.expects(7, 8, 9) // the mirror node still says 7
		c.lists(second)
		c.finds(first) // and may be asked for
	},
	// P3: a rejection proves nothing about the nonce.
	"P3 rejected": func(c c) {
		first := c.tx(7)
		c.add(first)
		c.expects(7, 7, 8)
		c.told.Done(first, false, false)
		c.expects(7, 7, 7)
		c.lists()
		c.misses(first)
	},
	"outcome unknown": func(c c) {
		first := c.tx(7)
		c.add(first)
		c.told.Done(first, false, true)
		c.expects(7, 7, 7)
		c.finds(first) // it may have been executed, and the mirror node will tell
	},
	"the mirror node is ahead": func(c c) {
		first := c.tx(7)
		c.add(first)
		c.told.Done(first, true, false)
		c.expects(12, 12, 12) // somebody else submits for the sender
	},
	// P4: proofs of several relays come in any order and never lower the nonce.
	"P4 proofs only rise": func(c c) {
		txs := []*eth.Tx{c.tx(9), c.tx(10), c.tx(8), c.tx(11)}
		c.add(txs...)
		for _, i := range []int{1, 0, 2} { // 10, 9, 8: so 9 and 10 differ in length
			c.told.Done(txs[i], true, false)
		}
		c.expects(7, 11, 12)
	},
	"resubmission with the same nonce": func(c c) {
		old, replacement := c.pay(7, 1), c.pay(7, 2)
		c.add(old, replacement)
		c.expects(7, 7, 8)
		c.told.Done(old, false, false)
		c.expects(7, 7, 8) // the replacement is still on its way
		c.lists(replacement)
		c.misses(old)
		c.told.Done(replacement, true, false)
		c.expects(7, 8, 8)
	},
	"one hash, sent twice": func(c c) {
		tx := c.tx(7)
		c.add(tx, tx)
		c.told.Done(tx, false, false) // the second one was refused
		c.expects(7, 7, 8)
		c.finds(tx)
		c.told.Done(tx, true, false)
		c.expects(7, 8, 8)
		c.lists()
		c.finds(tx)
	},
	"sent again after a rejection": func(c c) {
		tx := c.tx(7)
		c.add(tx)
		c.told.Done(tx, false, false)
		c.add(tx)
		c.expects(7, 7, 8)
		c.finds(tx)
	},
	"sent again after it was executed": func(c c) {
		tx := c.tx(7)
		c.add(tx)
		c.told.Done(tx, true, false)
		c.expects(7, 8, 8)
		c.add(tx)
		c.told.Done(tx, false, false) // its nonce is too low by now
		c.add(c.tx(8))
		c.expects(7, 8, 9) // Redis has heard of all of it
		c.finds(tx)
	},
	"count": func(c c) {
		before := int(metric(c.T, c.told, "rpc_relay_txpool_pending_count")) // of other cases; the asked one may know it late
		tx := c.tx(0)
		c.add(tx, c.tx(1))
		must.Until(c.T, "two more", func() bool { return c.asked.Count(c.Context()) == before+2 })
		c.told.Done(tx, true, false)
		must.Until(c.T, "one more", func() bool { return c.asked.Count(c.Context()) == before+1 })
	},
}
