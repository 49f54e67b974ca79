package txmgr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/txmgr"
)

// outsider makes an account whose key no manager has.
func (f *fleet) outsider(name string) risingKey {
	f.Helper()
	k := risingKeyOf(name)
	f.pool.add(k)
	return k
}

// rawOf is a transaction that its caller signed.
func (f *fleet) rawOf(k risingKey, nonce uint64, data string, price int64) []byte {
	f.Helper()
	tx := poolTx{From: k.name, To: "carol.test", Nonce: nonce, Data: []byte(data), Max: price, Tip: min(price, 100)}
	signature, err := k.Sign(f.Context(), tx.digest())
	if err != nil {
		f.Fatal(err)
	}
	tx.Signature = signature
	raw, err := json.Marshal(tx)
	if err != nil {
		f.Fatal(err)
	}
	return raw
}

func (m *member) raw(r txmgr.RawRequest) *txmgr.Intent {
	m.Helper()
	r.Chain = "pool"
	intent, err := m.m.Raw(m.Context(), r)
	if err != nil {
		m.Fatal(err)
	}
	return intent
}

// asked counts what a guard is asked.
type asked struct{ n atomic.Int64 }

func (a *asked) Allow(context.Context, *txmgr.Intent, txmgr.Cost) ([]txmgr.Hold, error) {
	a.n.Add(1)
	return nil, nil
}

// TestKeyFirst repeats calls under their idempotency keys: the stored answer comes before every other
// check, of the bytes, of the guard and of the kill switch, and another body under a used key is refused
// as that.
func TestKeyFirst(t *testing.T) {
	f := newFleet(t, "alice.test")
	guard := &asked{}
	f.change = func(o *txmgr.Options) { o.Guard = guard }
	k := f.outsider("bob.test")
	m := f.begin("one")
	first := txmgr.RawRequest{Chain: "pool", IdempotencyKey: "first", Raw: f.rawOf(k, 0, "first", 5000)}
	second := txmgr.RawRequest{Chain: "pool", IdempotencyKey: "second", Raw: f.rawOf(k, 1, "second", 5000)}
	intents := []*txmgr.Intent{m.raw(first), m.raw(second)}
	old := m.submit(func(r *txmgr.Request) { r.KeepTrying = true })
	m.reaches(old, txmgr.StatusBroadcast)
	other := request(func(r *txmgr.Request) { r.IdempotencyKey = "other" })
	replaced, err := m.m.Replace(t.Context(), "", old, other)
	if err != nil {
		t.Fatal(err)
	}

	for name, use := range map[string]struct{ on, off func() }{
		"switched on": {func() {}, func() {}},
		"switched off": {
			func() { noError(t, f.store.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", true)) },
			func() { noError(t, f.store.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", false)) },
		},
	} {
		use.on()
		before := guard.n.Load()
		for n, r := range []txmgr.RawRequest{first, second} {
			if again, err := m.m.Raw(t.Context(), r); err != nil || again.ID != intents[n].ID {
				t.Errorf("%s: the same key and bytes: %+v, %v", name, again, err)
			}
		}
		if again, err := m.m.Replace(t.Context(), "", old, other); err != nil || again.ID != replaced.ID {
			t.Errorf("%s: the same replacement: %+v, %v", name, again, err)
		}
		mixed := first
		mixed.IdempotencyKey = "second"
		if _, err := m.m.Raw(t.Context(), mixed); !errors.Is(err, txmgr.ErrIdempotency) {
			t.Errorf("%s: known bytes under another one's key: %v", name, err)
		}
		changed := other
		changed.Value = big.NewInt(2)
		if _, err := m.m.Replace(t.Context(), "", old, changed); !errors.Is(err, txmgr.ErrIdempotency) {
			t.Errorf("%s: another replacement under the key: %v", name, err)
		}
		if _, err := m.m.Replace(t.Context(), "", replaced.ID, other); !errors.Is(err, txmgr.ErrIdempotency) {
			t.Errorf("%s: the same body in another one's place: %v", name, err)
		}
		if n := guard.n.Load() - before; n != 0 {
			t.Errorf("%s: the guard was asked %d times about what is answered already", name, n)
		}
		use.off()
	}
	for _, key := range []string{"", "third"} { // known bytes, and no answer is stored for the key
		again := first
		again.IdempotencyKey = key
		if got, err := m.m.Raw(t.Context(), again); !errors.Is(err, txmgr.ErrDuplicate) || got == nil || got.ID != intents[0].ID {
			t.Errorf("the same bytes under the key %q: %+v, %v", key, got, err)
		}
	}
	if _, err := m.m.ByKey(t.Context(), "", "third"); !errors.Is(err, txmgr.ErrNotFound) {
		t.Errorf("the key of a refused call is used: %v", err)
	}
}

// TestKeyOutlivesValidity repeats a call when its validUntil has passed.
func TestKeyOutlivesValidity(t *testing.T) {
	f := newFleet(t, "alice.test")
	m := f.begin("one")
	for wait := 50 * time.Millisecond; ; wait *= 2 { // on a slow machine the first call may come too late
		r := request(func(r *txmgr.Request) {
			r.IdempotencyKey, r.ValidUntil = fmt.Sprint("key ", wait), time.Now().Add(wait).UnixMicro()
		})
		first, err := m.m.Submit(t.Context(), r)
		if errors.Is(err, txmgr.ErrInvalid) {
			continue
		}
		noError(t, err)
		m.until("it is not valid any more", func() bool { return time.Now().UnixMicro() > r.ValidUntil })
		if again, err := m.m.Submit(t.Context(), r); err != nil || again.ID != first.ID {
			t.Errorf("asked again: %+v, %v", again, err)
		}
		r.IdempotencyKey = ""
		if _, err := m.m.Submit(t.Context(), r); !errors.Is(err, txmgr.ErrInvalid) {
			t.Errorf("a new call that is over already: %v", err)
		}
		return
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
