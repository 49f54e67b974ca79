package pending_test

import (
	"crypto/ecdsa"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
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

func settings() pending.Config {
	return pending.Config{
		Enabled: true, API: true, MaxEntries: 1000, MaxBytes: 1 << 20, RedisMaxBytes: 1 << 30,
		EntryTTL: envx.Millis(time.Minute), ExecutedTTL: envx.Millis(time.Minute), RedisTimeout: envx.Millis(must.Patience),
		PromisesMaxBytes: 1 << 20, PromisesDeadAfter: envx.Millis(20 * time.Second),
	}
}

// start runs a pool until the test ends, or until the returned function is called.
func start(t *testing.T, cfg pending.Config, client redis.UniversalClient) (*pending.Pool, func()) {
	t.Helper()
	p := pending.New(cfg, pending.Deps{Redis: client, Bodies: true})
	return p, must.Run(t, p.Run)
}

// wallet signs transactions.
type wallet struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	address common.Address
}

func newWallet(t *testing.T) *wallet {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	return &wallet{t, key, crypto.PubkeyToAddress(key.PublicKey)}
}

func (w *wallet) tx(nonce uint64) *eth.Tx { return w.pay(nonce, 1) }

// pay is a transaction that differs from others with its nonce by the value.
func (w *wallet) pay(nonce uint64, tinybars int64) *eth.Tx {
	w.t.Helper()
	raw := must.Get(types.MustSignNewTx(w.key, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, Gas: 21000, GasFeeCap: big.NewInt(71e10), To: &common.Address{1},
		Value: new(big.Int).Mul(big.NewInt(tinybars), big.NewInt(1e10)),
	}).MarshalBinary())(w.t)
	return must.Get(eth.DecodeTx(raw))(w.t)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	return must.Get(strconv.Atoi(text))(t)
}

// alone is a pool without Redis.
func alone(cfg pending.Config) *pending.Pool { return pending.New(cfg, pending.Deps{}) }

// P1: a proof counts for its time and then the mirror node alone, so that what another
// relay did is seen; and at any time the larger of the two.
func TestP1ProofsAgeAndTheMirrorNodeIsAsked(t *testing.T) {
	w := newWallet(t)
	tx := w.tx(6)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		p.Add(tx)
		p.Done(tx, true, false)
		for _, step := range []struct {
			after          time.Duration
			mirror, latest uint64
		}{
			{0, 6, 7},                // the mirror node lags
			{30 * time.Second, 6, 7}, // and lags
			{0, 9, 9},                // another relay was used
			{31 * time.Second, 3, 3}, // the proof is too old, the network may be another one
		} {
			time.Sleep(step.after) //nolint:forbidigo // fake time
			if got := p.Latest(t.Context(), w.address, step.mirror); got != step.latest {
				t.Errorf("mirror node %d: latest %d, want %d", step.mirror, got, step.latest)
			}
		}
		if _, ok := p.Find(t.Context(), tx.Hash()); ok {
			t.Error("the hash is still known")
		}
	})
}

// P2: however slow the mirror node is, a nonce that was spent stays spent: nothing ends
// because of a time that passed but what has its verdict.
func TestP2SlowMirrorNodeFreesNoNonce(t *testing.T) {
	w := newWallet(t)
	tx := w.tx(6)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		p.Add(tx)
		time.Sleep(time.Hour) //nolint:forbidigo // fake time: a long queue
		if got := p.Next(t.Context(), w.address, 6); got != 7 {
			t.Errorf("an hour in the queue: %d", got)
		}
		p.Done(tx, true, false)
		time.Sleep(59 * time.Second) //nolint:forbidigo // fake time: the mirror node lags
		if got := p.Latest(t.Context(), w.address, 6); got != 7 {
			t.Errorf("the mirror node lags: %d", got)
		}
	})
}

// A full pool forgets what is over, oldest first, and then takes nothing more; what it
// did not take is submitted all the same, and what was executed is proven.
func TestFullPool(t *testing.T) {
	for name, limit := range map[string]func(*pending.Config){
		"entries": func(c *pending.Config) { c.MaxEntries = 3 },
		"bytes":   func(c *pending.Config) { c.MaxBytes = 2000 }, // of about 630 each
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings()
			limit(&cfg)
			w, p := newWallet(t), alone(cfg)
			for nonce := range uint64(4) {
				p.Add(w.tx(nonce))
			}
			if n := p.Count(t.Context()); n != 3 {
				t.Errorf("%d entries", n)
			}
			for nonce := range uint64(4) {
				p.Done(w.tx(nonce), true, false)
			}
			if got := p.Latest(t.Context(), w.address, 0); got != 4 {
				t.Errorf("latest %d", got)
			}
			p.Add(w.tx(4))
			_, oldest := p.Find(t.Context(), w.tx(0).Hash())
			_, newest := p.Find(t.Context(), w.tx(4).Hash())
			if oldest || !newest {
				t.Errorf("the oldest is known: %t, the newest: %t", oldest, newest)
			}
		})
	}
}

// Nothing grows with the number of senders that ever were.
func TestNothingIsLeft(t *testing.T) {
	w := newWallet(t)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		for nonce := range uint64(100) {
			p.Add(w.tx(nonce))
			p.Done(w.tx(nonce), nonce%2 == 0, nonce%3 == 0)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // fake time
		p.Add(w.tx(100))
		p.Done(w.tx(100), false, false)
		if entries, senders := p.Sizes(); entries != 0 || senders != 0 {
			t.Errorf("%d entries and %d senders are left", entries, senders)
		}
	})
}

func TestMetrics(t *testing.T) {
	p := alone(settings())
	one, other := newWallet(t), newWallet(t)
	for _, tx := range []uint64{0, 1} {
		p.Add(one.tx(tx))
	}
	p.Add(other.tx(0))
	p.Done(one.tx(0), true, false)
	for name, want := range map[string]float64{
		"rpc_relay_txpool_pending_count":    2,
		"rpc_relay_txpool_active_addresses": 2,
		"rpc_relay_txpool_operations_total": 4, // three added, one removed
		"lockstep_txpool_full_total":        0,
	} {
		if got := metric(t, p, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// TestDisabled: a pool that is off knows nothing, objects to nothing, and announces all the same.
func TestDisabled(t *testing.T) {
	var announced []byte
	p := pending.Disabled(func(raw []byte) { announced = append(announced, raw...) })
	w := newWallet(t)
	tx := w.tx(5)
	p.Add(tx)
	p.Accepted(tx)
	p.Done(tx, true, false)
	p.Forget()
	ctx := t.Context()
	if p.Enabled() || len(p.Collectors()) > 0 || !slices.Equal(announced, tx.Raw()) {
		t.Errorf("enabled %v, %d collectors, announced %x", p.Enabled(), len(p.Collectors()), announced)
	}
	if next, latest, proven := p.Next(ctx, tx.From(), 3), p.Latest(ctx, tx.From(), 3), p.Proven(tx.From()); next != 3 || latest != 3 || proven != 0 {
		t.Errorf("next %d, latest %d, proven %d", next, latest, proven)
	}
	if _, found := p.Find(ctx, tx.Hash()); found || p.Count(ctx) != 0 || len(p.Pending(ctx, nil)) > 0 {
		t.Error("a pool that is off has a transaction")
	}
	if !p.Follows(ctx, tx, 1) {
		t.Error("a pool that is off objects to a gap")
	}
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
}
