package txmgr_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// outsider makes an account whose key no manager has.
func (f *fleet) outsider(name string) keyed {
	f.Helper()
	k := keyOf(name)
	f.pool.add(k)
	return k
}

// rawOf is a transaction that its caller signed.
func (f *fleet) rawOf(k keyed, nonce uint64, data string, price int64) []byte {
	f.Helper()
	tx := wireTx{From: k.name, To: "carol.test", Nonce: nonce, Data: []byte(data), Max: price, Tip: min(price, 100)}
	signature := must.Get(k.Sign(f.Context(), tx.digest()))(f)
	tx.Signature = signature
	return must.Get(json.Marshal(tx))(f)
}

func (m *member) raw(r txmgr.RawRequest) *txmgr.Intent {
	m.Helper()
	r.Chain = "pool"
	return must.Get(m.m.Raw(m.Context(), r))(m)
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
	replaced := must.Get(m.m.Replace(t.Context(), "", old, other))(t)

	for name, use := range map[string]struct{ on, off func() }{
		"switched on": {func() {}, func() {}},
		"switched off": {
			func() { must.Do(t, f.store.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", true)) },
			func() { must.Do(t, f.store.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", false)) },
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
	if _, err := f.store.ByKey(t.Context(), "", "third", ""); !errors.Is(err, txmgr.ErrNotFound) {
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
		must.Do(t, err)
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

// refusingData has every node refuse transactions with some data.
func (f *fleet) refusingData(class txmgr.Class, data ...string) {
	f.refusing(func(tx wireTx) *txmgr.SendError {
		if slices.Contains(data, string(tx.Data)) {
			return &txmgr.SendError{Class: class, Endpoint: "node", Text: "no"}
		}
		return nil
	})
}

// TestFatalRaw: what a caller signed and no chain can ever execute has failed, and its nonce is the next
// one's, however often that happens.
func TestFatalRaw(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	k := f.outsider("bob.test")
	m := f.begin("one")
	f.refusingData(txmgr.ClassFatal, "bad", "worse")
	for _, data := range []string{"bad", "worse"} {
		id := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, data, 5000)}).ID
		if got := m.reaches(id, txmgr.StatusFailed); !got.Final || got.Class != txmgr.ClassFatal {
			t.Errorf("%s: it failed with %+v", data, got.Failure)
		}
	}
	good := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, "good", 5000)}).ID
	m.mined(good, txmgr.StatusConfirmed)
	// Ours fail in the same way.
	var ours []string
	f.refusing(func(tx wireTx) *txmgr.SendError {
		if tx.Value == 13 {
			return &txmgr.SendError{Class: txmgr.ClassFatal, Endpoint: "node", Text: "no"}
		}
		return nil
	})
	for range 2 {
		ours = append(ours, m.submit(func(r *txmgr.Request) { r.Value = big.NewInt(13) }))
		m.reaches(ours[len(ours)-1], txmgr.StatusFailed)
	}
	if got := m.mined(m.submit(), txmgr.StatusConfirmed); got.Nonce != 0 {
		t.Errorf("after two that failed the next one has nonce %d", got.Nonce)
	}
}

// TestFatalAfterDoubt refuses for good what may have left before: its outcome stays unknown, until the
// chain tells.
func TestFatalAfterDoubt(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	k := f.outsider("bob.test")
	m := f.begin("one")
	f.refusingData(txmgr.ClassTransport, "x")
	id := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, "x", 5000)}).ID
	m.reaches(id, txmgr.StatusUnknown)
	f.refusingData(txmgr.ClassFatal, "x")
	m.until("it was refused for good", func() bool {
		a := m.get(id).Attempts[0]
		return a.Class == txmgr.ClassFatal
	})
	m.asksOn()
	if got := m.get(id); got.Status != txmgr.StatusUnknown {
		t.Errorf("it is %s", got.Status)
	}
	f.refusing(nil)
	m.mined(id, txmgr.StatusConfirmed)
}

// TestFatalReplacement: a replacement that no chain can execute has failed, and what it should have
// replaced is offered again, raised if we can, and executed.
func TestFatalReplacement(t *testing.T) {
	for name, row := range map[string]struct {
		account string
		begin   func(m *member) (first, second string)
	}{
		"of a caller": {"bob.test", func(m *member) (first, second string) {
			k := m.outsider("bob.test")
			first = m.raw(txmgr.RawRequest{Raw: m.rawOf(k, 0, "good", 5000)}).ID
			m.reaches(first, txmgr.StatusBroadcast)
			return first, m.raw(txmgr.RawRequest{Raw: m.rawOf(k, 0, "bad", 50_000)}).ID
		}},
		"of ours": {"alice.test", func(m *member) (first, second string) {
			first = m.submit(keepTrying)
			m.reaches(first, txmgr.StatusBroadcast)
			intent := must.Get(m.m.Replace(m.Context(), "", first, request(func(r *txmgr.Request) { r.Data = []byte("bad") })))(m.T)
			return first, intent.ID
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.settings.ResendAfter = envx.Millis(poll)
			m := f.begin("one")
			f.refusingData(txmgr.ClassFatal, "bad")
			first, second := row.begin(m)
			if got := m.reaches(second, txmgr.StatusFailed); !got.Final {
				t.Error("its failure is not final")
			}
			m.drop(row.account, 0)
			m.until("the first one is in the pool again", func() bool { return m.at(row.account, 0) == m.get(first).Attempts[0].Hash })
			f.age()
			if row.account == "alice.test" {
				m.until("it is raised", func() bool { return len(m.get(first).Attempts) == 2 })
			}
			if got := m.mined(first, txmgr.StatusConfirmed); got.Nonce != 0 {
				t.Errorf("it was executed with nonce %d", got.Nonce)
			}
			m.once(first)
		})
	}
}

// TestStuckUnsent: a caller whose transaction every node refuses for its fees is told once what it needs.
func TestStuckUnsent(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	k := f.outsider("bob.test")
	m := f.begin("one")
	told := func() (n int) {
		list := must.Get(f.store.Events(t.Context(), 0, 1000))(t)
		for _, e := range list {
			if e.Kind == "tx.stuck" && strings.Contains(e.Body, `"maxFeePerGas":"2100"`) {
				n++
			}
		}
		return n
	}
	f.refusingData(txmgr.ClassFeeTooLow, "poor")
	id := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, "poor", 10)}).ID
	m.until("it was offered", func() bool { return m.get(id).Attempts[0].Offers > 0 })
	m.asksOn()
	if n := told(); n != 0 {
		t.Fatalf("its caller was told %d times at once", n)
	}
	f.exec("UPDATE attempts SET signed_at = 1")
	m.until("its caller is told", func() bool { return told() > 0 })
	before := m.get(id).Attempts[0].Offers
	m.until("it was offered again", func() bool { return m.get(id).Attempts[0].Offers > before+2 })
	if n := told(); n != 1 {
		t.Errorf("its caller was told %d times", n)
	}
	better := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, "better", 2100)}).ID
	m.mined(better, txmgr.StatusConfirmed)
	m.reaches(id, txmgr.StatusReplaced)
}

// TestStuckWithoutFunds: a caller whose transaction every node refuses for lack of funds is told that, and not that a higher price helps.
func TestStuckWithoutFunds(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	k := f.outsider("bob.test")
	m := f.begin("one")
	f.refusingData(txmgr.ClassFunds, "poor")
	id := m.raw(txmgr.RawRequest{Raw: f.rawOf(k, 0, "poor", 5000)}).ID
	m.until("it was offered", func() bool { return m.get(id).Attempts[0].Offers > 0 })
	f.exec("UPDATE attempts SET signed_at = 1")
	m.until("its caller is told", func() bool { return strings.HasPrefix(m.get(id).Waiting, txmgr.StuckPrefix) })
	if got := m.get(id).Waiting; got != txmgr.StuckPrefix+"nonce 0 is refused: funds (node): no" {
		t.Errorf("told %q", got)
	}
	list := must.Get(f.store.Events(t.Context(), 0, 1000))(t)
	for _, e := range list {
		if e.Kind == "tx.stuck" && strings.Contains(e.Body, "maxFeePerGas") {
			t.Errorf("the event says %s", e.Body)
		}
	}
}
