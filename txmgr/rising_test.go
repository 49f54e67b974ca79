package txmgr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

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
