package txmgr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/chaintest"
)

// TestContract holds the chains of these tests against the drivers' contract.
func TestContract(t *testing.T) {
	alice, bob := keyOf("alice.test"), keyOf("bob.test")
	for name, of := range map[string]func(p *pool, down bool) txmgr.Chain{
		"a pool": func(p *pool, down bool) txmgr.Chain {
			c := &poolNode{node{pool: p}}
			c.down.Store(down)
			return c
		},
		"rising nonces": func(p *pool, down bool) txmgr.Chain {
			c := &rising{node: node{pool: p}}
			c.down.Store(down)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(alice, bob)
			chaintest.Run(t, chaintest.Harness{
				Chain: of(p, false), Dead: of(p, true), Key: alice, Stranger: bob, To: "carol.test", Value: big.NewInt(5), Reverting: "broken",
				Garbage: []string{"Alice", "a b", "0x ", ".a"}, Mine: p.mine,
			})
		})
	}
}

// risen is a manager on a rising chain.
type risen struct {
	*member
	c *rising
}

func startRisen(t *testing.T) *risen {
	t.Helper()
	f := newFleet(t, "alice.test")
	c := &rising{node: node{pool: f.pool}}
	f.change = func(o *txmgr.Options) { o.Chains = []txmgr.Chain{c} }
	return &risen{f.begin("one"), c}
}

// TestPassedOver has a node take a transaction and lose it, and execute the next: the lost one
// can never be executed with its nonce, so it gets another one.
func TestPassedOver(t *testing.T) {
	r := startRisen(t)
	ids := []string{r.submit()}
	first := r.reaches(ids[0], txmgr.StatusConfirmed)
	r.c.losing()
	ids = append(ids, r.submit())
	lost := r.reaches(ids[1], txmgr.StatusBroadcast)
	if lost.Nonce != first.Nonce+1 {
		t.Errorf("the nonces are %d and %d", first.Nonce, lost.Nonce)
	}
	if _, err := r.m.Cancel(t.Context(), "", ids[1]); !errors.Is(err, txmgr.ErrNotPossible) {
		t.Errorf("a cancel of what is signed, where no pool keeps it: %v", err)
	}
	if _, err := r.m.Replace(t.Context(), "", ids[1], txmgr.Request{To: "carol.test", Data: []byte("other")}); !errors.Is(err, txmgr.ErrNotPossible) {
		t.Errorf("a replacement of what is signed, where no pool keeps it: %v", err)
	}
	ids = append(ids, r.submit())
	next := r.reaches(ids[2], txmgr.StatusConfirmed)
	again := r.reaches(ids[1], txmgr.StatusConfirmed)
	if again.Nonce <= next.Nonce || len(again.Attempts) != 2 {
		t.Errorf("the lost one has nonce %d after %d, and %d attempts", again.Nonce, next.Nonce, len(again.Attempts))
	}
	r.once(ids...)
}

// TestPayloadExpires has a node take a transaction and lose it. Before its blocks are over
// nothing follows; then its bytes are void for ever, and others are signed.
func TestPayloadExpires(t *testing.T) {
	r := startRisen(t)
	r.c.losing()
	id := r.submit()
	lost := r.reaches(id, txmgr.StatusBroadcast)
	r.mined(id, txmgr.StatusConfirmed)
	again := r.reaches(id, txmgr.StatusConfirmed)
	if len(again.Attempts) != 2 || again.Attempts[0].Hash == again.Attempts[1].Hash || again.Attempts[0].Hash != lost.Hash || again.Nonce != lost.Nonce {
		t.Errorf("nonce %d, then %d; attempts %+v", lost.Nonce, again.Nonce, again.Attempts)
	}
	var void, signed wireTx
	must.Do(t, errors.Join(json.Unmarshal(again.Attempts[0].Raw, &void), json.Unmarshal(again.Attempts[1].Raw, &signed)))
	if signed.Until <= void.Until+risingValid {
		t.Errorf("another one was signed while the first could be executed until block %d", void.Until)
	}
	r.once(id)
}

// TestRawPayloadExpires: what a caller signed cannot be signed again by us. When it is void it has
// failed, which is counted.
func TestRawPayloadExpires(t *testing.T) {
	r := startRisen(t)
	tx := wireTx{From: "alice.test", To: "carol.test", Value: 1, Until: 5}
	tx.Signature, _ = keyOf("alice.test").Sign(t.Context(), tx.digest())
	raw := must.Get(json.Marshal(tx))(t)
	r.c.losing()
	intent := must.Get(r.m.Raw(t.Context(), txmgr.RawRequest{Chain: "pool", Raw: raw}))(t)
	r.reaches(intent.ID, txmgr.StatusBroadcast) // a node that is asked too late refuses it, and would lose the next one
	failed := r.mined(intent.ID, txmgr.StatusFailed)
	if failed.Class != "expired" || len(failed.Attempts) != 1 {
		t.Errorf("it ended with %+v after %d attempts", failed.Failure, len(failed.Attempts))
	}
	r.counts(txmgr.StatusFailed, 1)
	id := r.submit() // takes the nonce that is still free
	if next := r.reaches(id, txmgr.StatusConfirmed); next.Nonce != 0 {
		t.Errorf("the next one has nonce %d", next.Nonce)
	}
	r.counts(txmgr.StatusConfirmed, 1)
	r.counts(txmgr.StatusFailed, 1)
	r.once(id)
}

// counts waits until a number of intents is counted: the ledger has them before.
func (r *risen) counts(status txmgr.Status, want float64) {
	r.Helper()
	r.until(fmt.Sprintf("%v intents are counted as %s", want, status), func() bool {
		sum, _ := r.counted("txm_intents_total", string(status))
		return sum == want
	})
}

// noted waits until the ledger has the newest block, and returns its number.
func (r *risen) noted() uint64 {
	r.Helper()
	head := must.Get(r.c.Head(r.Context()))(r)
	r.until("the newest final block is noted", func() bool {
		state, err := r.store.Chain(r.Context(), "pool")
		return err == nil && state.FinalNumber == head.Number && state.FinalHash == head.Hash
	})
	return head.Number
}

// TestFork gives a block that was final another hash, while the first block stays: the signer
// halts. It goes on when the block is back and an operator has looked, or when the operator says that
// the chain was reset. An endpoint that does not have the block proves nothing.
func TestFork(t *testing.T) {
	r := startRisen(t)
	r.reaches(r.submit(), txmgr.StatusConfirmed)
	for range 5 {
		r.c.mine()
	}
	final := r.noted()

	r.c.behind.Store(3)
	vain := r.c.vain.Load()
	r.until("a lagging endpoint is asked for the block twice", func() bool { return r.c.vain.Load() >= vain+2 })
	late := r.submit()
	r.reaches(late, txmgr.StatusMined)
	if why := r.lane("alice.test").Halted; why != "" {
		t.Fatalf("behind a lagging endpoint the signer is halted: %s", why)
	}
	r.c.behind.Store(0)
	r.reaches(late, txmgr.StatusConfirmed)
	if now := r.noted(); now <= final {
		t.Errorf("the final block is still %d", now)
	}

	halted := func(from uint64) string {
		r.c.fork(from)
		r.until("the signer is halted", func() bool { return r.lane("alice.test").Halted != "" })
		if why := r.lane("alice.test").Halted; !strings.Contains(why, "reconcile with reset") {
			t.Errorf("it says %q", why)
		}
		id := r.submit()
		if _, err := r.m.Reconcile(t.Context(), "pool", "alice.test", "test", txmgr.ReconcileOptions{}); !errors.Is(err, txmgr.ErrHalted) {
			t.Errorf("without the operator's word: %v", err)
		}
		if got, err := r.m.Get(t.Context(), "", id); err != nil || got.Status != txmgr.StatusAccepted {
			t.Errorf("on another chain an intent is %+v, %v", got, err)
		}
		return id
	}
	id := halted(final)
	r.c.fork(0)
	if _, err := r.m.Reconcile(t.Context(), "pool", "alice.test", "test", txmgr.ReconcileOptions{}); err != nil {
		t.Fatalf("when the block is back: %v", err)
	}
	r.reaches(id, txmgr.StatusConfirmed)
	r.noted()
	id = halted(final)
	must.Get(r.m.Reconcile(t.Context(), "pool", "alice.test", "test", txmgr.ReconcileOptions{Reset: true}))(t)
	r.reaches(id, txmgr.StatusConfirmed)
}

// rising is an endpoint of a chain in memory that is as unlike Ethereum as one may be: a nonce above the next one is executed and ends
// those below it, and a transaction names the block until which it can be executed. There are no fees and no pool.
type rising struct {
	node
	lose bool // the next transaction is taken and never executed
}

// risingValid is how many blocks a transaction is valid.
const risingValid = 20

// losing makes the chain lose the next transaction.
func (c *rising) losing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = true
}

func (c *rising) block() uint64 { return uint64(len(c.blocks) - 1) }

func (c *rising) ran(hash string) bool {
	_, _, found := c.executed(func(tx wireTx) bool { return tx.hash() == hash })
	return found
}

func (c *rising) Traits() txmgr.Traits {
	return txmgr.Traits{Order: txmgr.OrderRising, Validity: txmgr.ValidPayload, InFlight: 4}
}

func (c *rising) Market(ctx context.Context) (txmgr.Market, error) {
	return answered(ctx, &c.node, func() txmgr.Market { return marketOf(nil, txmgr.Fees{Max: new(big.Int)}) })
}

func (c *rising) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	return answered(ctx, &c.node, func() txmgr.Unsigned {
		tx := wireTx{From: d.Signer, To: d.To, Nonce: d.Nonce, Value: d.Value.Int64(), Data: d.Data, Until: c.block() + risingValid}
		return txmgr.Unsigned{Bytes: tx.digest(), Form: tx}
	})
}

func (c *rising) Send(ctx context.Context, list []txmgr.Signed) []error {
	return c.each(ctx, list, func(tx wireTx) error {
		switch {
		case c.ran(tx.hash()):
			return &txmgr.SendError{Class: txmgr.ClassKnown, Text: "executed before"}
		case tx.Until < c.block():
			return &txmgr.SendError{Class: txmgr.ClassPoolPolicy, Text: "it is not valid any more"}
		case tx.Nonce < c.next[tx.From]:
			return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Text: "a nonce must be above the highest"}
		case c.lose:
			c.lose = false
			return nil
		}
		c.next[tx.From] = tx.Nonce + 1
		c.money[tx.From] -= tx.Value
		c.money[tx.To] += tx.Value
		c.blocks = append(c.blocks, []wireTx{tx})
		return nil
	})
}

func (c *rising) Expired(ctx context.Context, s txmgr.Signed) (bool, error) {
	return answered(ctx, &c.node, func() bool {
		tx, _, err := c.read(s.Raw)
		return err == nil && c.block() > tx.Until && !c.ran(s.Hash)
	})
}

// age makes all that was sent old enough to be raised.
func (f *fleet) age() {
	f.Helper()
	f.exec("UPDATE attempts SET signed_at = 1, sent_at = 1")
	f.exec("UPDATE slots SET sent_at = 1 WHERE sent_at > 0")
}

// TestForeignIsNotOutbid has somebody else's transaction take the place of ours in the pool. While it
// waits, nothing of ours is signed for its nonce and nothing pushes it out; when it is final the intent
// gets another nonce, when it is gone the intent goes on with its own.
func TestForeignIsNotOutbid(t *testing.T) {
	const account = "alice.test"
	cheap, dear := int64(1), int64(1_000_000)
	for name, row := range map[string]struct {
		lose     func(f *fleet) (hash string) // what is in the pool is lost to another one, whose hash is returned
		attempts int
		end      func(m *member, id string)
	}{
		"a cheaper one, which becomes final": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, cheap).hash() }, 1,
			func(m *member, id string) {
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"a dearer one, which is dropped": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, dear).hash() }, 1,
			func(m *member, id string) {
				m.drop(account, 0)
				m.until("ours is in the pool again", func() bool { return m.at(account, 0) != "" })
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 0 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"one that comes while a second version is on its way": {
			func(f *fleet) (hash string) {
				f.refusing(func(tx wireTx) *txmgr.SendError {
					if string(tx.Data) == "foreign" || f.waiting[account][0].hash() == tx.hash() {
						return nil
					}
					f.refuse = nil
					stranger := wireTx{From: account, To: account, Data: []byte("foreign"), Max: dear, Tip: dear}
					f.waiting[account][0] = stranger
					hash = stranger.hash()
					return &txmgr.SendError{Class: txmgr.ClassSlotTaken, Text: "replacement transaction underpriced"}
				})
				f.age()
				f.until("the other one came", func() bool { f.pool.mu.Lock(); defer f.pool.mu.Unlock(); return hash != "" })
				return hash
			}, 2,
			func(m *member, id string) {
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"a cancel waits too": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, cheap).hash() }, 1,
			func(m *member, id string) {
				must.Get(m.m.Cancel(m.Context(), "", id))(m)
				m.asksOn()
				if got := m.get(id); len(got.Attempts) != 1 {
					m.Errorf("a cancel was signed for somebody else's nonce: %d attempts", len(got.Attempts))
				}
				m.mined(id, txmgr.StatusCancelled)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, account)
			m := f.begin("one")
			id := m.submit(func(r *txmgr.Request) { r.KeepTrying = true })
			m.reaches(id, txmgr.StatusBroadcast)
			foreign := row.lose(f)
			m.until("the intent says why it waits", func() bool { return strings.HasPrefix(m.get(id).Waiting, "slot_taken") })
			m.asksOn()
			if got := m.get(id); len(got.Attempts) != row.attempts || m.at(account, 0) != foreign {
				t.Errorf("there are %d attempts, not %d, and the pool has %s, not %s", len(got.Attempts), row.attempts, m.at(account, 0), foreign)
			}
			row.end(m, id)
		})
	}
}

// TestOwnPredecessorIsOutbid has a node that wants more of a replacement than others: what stands in
// the way is ours, so it is raised until the node takes it.
func TestOwnPredecessorIsOutbid(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	m := f.begin("one")
	id := m.submit()
	first := m.reaches(id, txmgr.StatusBroadcast).Attempts[0]
	m.refusing(func(tx wireTx) *txmgr.SendError {
		if old := m.waiting["alice.test"][0]; old.hash() != tx.hash() && tx.Max*2 < old.Max*3 {
			return &txmgr.SendError{Class: txmgr.ClassSlotTaken, Text: "replacement transaction underpriced"}
		}
		return nil
	})
	f.exec("UPDATE attempts SET signed_at = 1")
	m.until("a replacement is in the pool", func() bool { return m.at("alice.test", 0) != first.Hash })
	if got := m.mined(id, txmgr.StatusConfirmed); len(got.Attempts) < 3 || got.Nonce != 0 {
		t.Errorf("it was executed with nonce %d after %d attempts", got.Nonce, len(got.Attempts))
	}
	m.once(id)
}

// TestNobodySaysWhoUsedANonce has somebody else's transaction use a nonce, and no node keep the state that tells so. Its intent waits, and says for what;
// those behind it go on.
func TestNobodySaysWhoUsedANonce(t *testing.T) {
	const account = "alice.test"
	f := newFleet(t, account)
	f.pruned.Store(true)
	m := f.begin("one")
	first := m.submit()
	f.reaches(first, txmgr.StatusBroadcast)
	f.foreign(account, 0, 1)
	second := m.submit()
	if got := m.mined(second, txmgr.StatusConfirmed); got.Nonce != 1 {
		t.Errorf("the second intent was executed with nonce %d", got.Nonce)
	}
	m.until("it says why it waits", func() bool {
		return m.get(first).Waiting == "foreign: its nonce is used, and no endpoint says by what: missing trie node"
	})
	third := m.submit()
	m.mined(third, txmgr.StatusConfirmed)
	f.pruned.Store(false)
	if got := m.mined(first, txmgr.StatusConfirmed); got.Nonce != 3 {
		t.Errorf("the first intent was executed with nonce %d", got.Nonce)
	}
	m.once(first, second, third)
}

// replaced has a replacement take the place of a transaction, both of them signed.
func (m *member) replaced(old, other func(*txmgr.Request)) (oldID, otherID string) {
	m.Helper()
	oldID = m.submit(old)
	m.reaches(oldID, txmgr.StatusBroadcast)
	intent := must.Get(m.m.Replace(m.Context(), "", oldID, request(other)))(m)
	m.reaches(intent.ID, txmgr.StatusBroadcast)
	return oldID, intent.ID
}

func keepTrying(r *txmgr.Request) { r.KeepTrying = true }

// cancelled reports whether a cancel of an intent is in the pool.
func (m *member) cancelled(id string) bool {
	return slices.ContainsFunc(m.get(id).Attempts, func(a txmgr.Attempt) bool {
		return a.Purpose == txmgr.PurposeCancel && m.at(a.Signer, a.Nonce) == a.Hash
	})
}

// TestReplacementIsCancelled cancels a replacement that is on its way, by a call or since its time is
// over. Neither it nor what it replaced is executed.
func TestReplacementIsCancelled(t *testing.T) {
	for name, cancel := range map[string]func(m *member, id string){
		"by a call": func(m *member, id string) {
			intent := must.Get(m.m.Cancel(m.Context(), "", id))(m.T)
			if !intent.Cancel {
				m.Errorf("the answer is %+v", intent)
			}
		},
		"its time is over": func(m *member, id string) { m.exec("UPDATE intents SET valid_until = 1 WHERE id = $1", id) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			m := f.begin("one")
			old, other := m.replaced(keepTrying, keepTrying)
			m.asksOn()
			if got := m.get(other); len(got.Attempts) != 1 {
				t.Fatalf("before anybody wants a cancel it has %d attempts", len(got.Attempts))
			}
			cancel(m, other)
			m.until("the pool has a cancel", func() bool { return m.cancelled(other) })
			if got := m.mined(other, txmgr.StatusCancelled); got.Receipt == nil || got.Nonce != 0 {
				t.Errorf("it is cancelled by %+v", got.Receipt)
			}
			m.reaches(old, txmgr.StatusReplaced)
			for _, id := range []string{old, other} {
				if n := m.ran()[string(m.get(id).Data)]; n != 0 {
					t.Errorf("intent %s was executed %d times", id, n)
				}
			}
		})
	}
}

// TestReplacementKeepsTrying: a slot that has waited for long is cancelled only if all of its intents
// allow that.
func TestReplacementKeepsTrying(t *testing.T) {
	none := func(*txmgr.Request) {}
	for name, row := range map[string]struct {
		old, other func(*txmgr.Request)
		cancel     bool
	}{
		"both may be cancelled":   {none, none, true},
		"the first keeps trying":  {keepTrying, none, false},
		"the second keeps trying": {none, keepTrying, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			m := f.begin("one")
			old, other := m.replaced(row.old, row.other)
			f.exec("UPDATE slots SET sent_at = sent_at - $1", 2*f.settings.CancelAfter.Duration().Microseconds())
			if row.cancel {
				m.until("the pool has a cancel", func() bool { return m.cancelled(old) || m.cancelled(other) })
				return
			}
			m.asksOn()
			if m.cancelled(old) || m.cancelled(other) {
				t.Error("it was cancelled for its age")
			}
			m.mined(other, txmgr.StatusConfirmed)
			m.reaches(old, txmgr.StatusReplaced)
		})
	}
}

// TestReplacementExpires: the time of a replacement passes before its first signature. It is not signed
// any more, and what it should have replaced goes on.
func TestReplacementExpires(t *testing.T) {
	f := newFleet(t, "alice.test")
	open := f.lockKeys()
	open.Store(true)
	m := f.begin("one")
	old := m.submit(keepTrying)
	m.reaches(old, txmgr.StatusBroadcast)
	open.Store(false)
	other := must.Get(m.m.Replace(t.Context(), "", old, request()))(t)
	f.exec("UPDATE intents SET valid_until = 1 WHERE id = $1", other.ID)
	m.reaches(other.ID, txmgr.StatusExpired) // before the key is open: a round may have read the intent as it was
	open.Store(true)
	m.mined(old, txmgr.StatusConfirmed)
	if got := m.get(other.ID); !got.Final || got.Status != txmgr.StatusExpired || len(got.Attempts) != 0 {
		t.Errorf("it is %s with %d attempts", got.Status, len(got.Attempts))
	}
}
