package sqlstore_test

import (
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/google/uuid"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// signed is a transaction that its caller signed, under a key or none.
func signed(who, key string, nonce uint64) (*txmgr.Intent, txmgr.Attempt) {
	i := intent(key, "raw")
	i.Tenant, i.Kind, i.Signer, i.Nonce = who, txmgr.KindRaw, signer, nonce
	i.Hash = "0x" + uuid.NewString()
	i.BodyHash = i.Hash
	return i, txmgr.Attempt{
		Chain: chain, Signer: signer, Nonce: nonce, Hash: i.Hash, Intent: i.ID, Purpose: txmgr.PurposeRaw,
		Raw: []byte(i.Hash), Fees: txmgr.Fees{Max: big.NewInt(100), Tip: big.NewInt(1)}, Gas: 21000, State: txmgr.AttemptSigned,
	}
}

// raw hands over a transaction that its caller signed.
func (r *room) raw(who string, nonce uint64, slot txmgr.RawSlot) (*txmgr.Attempt, error) {
	r.t.Helper()
	i, a := signed(who, "", nonce)
	_, err := r.AcceptRaw(r.t.Context(), i, a, slot)
	a.Version = 1
	return &a, err
}

// testRawKey hands over the same bytes under keys: the key's own answer comes before what is known of
// the bytes, also when both calls have passed every check before the store's.
func testRawKey(t *testing.T, r *room) {
	again := func(i *txmgr.Intent, a txmgr.Attempt, key, body string) (*txmgr.Intent, error) {
		copied := *i
		copied.ID, copied.IdempotencyKey, copied.BodyHash = uuid.NewString(), key, body
		a.Intent = copied.ID
		return r.AcceptRaw(t.Context(), &copied, a, txmgr.RawSlot{})
	}
	first, a := signed(tenant, "first", 0)
	must.Get(r.AcceptRaw(t.Context(), first, a, txmgr.RawSlot{}))(r.t)
	second, b := signed(tenant, "second", 1)
	must.Get(r.AcceptRaw(t.Context(), second, b, txmgr.RawSlot{}))(r.t)
	got, err := again(first, a, "first", first.BodyHash)
	must.Do(r.t, err)
	if got.ID != first.ID {
		t.Errorf("the same key and bytes got %s, not %s", got.ID, first.ID)
	}
	_, err = again(first, a, "second", first.BodyHash)
	r.is(err, txmgr.ErrIdempotency)
	for _, key := range []string{"", "third"} {
		got, err = again(first, a, key, first.BodyHash)
		r.is(err, txmgr.ErrDuplicate)
		if got.ID != first.ID {
			t.Errorf("the key %q: the duplicate is %s, not %s", key, got.ID, first.ID)
		}
	}
	_, err = r.ByKey(t.Context(), tenant, "third", "")
	r.is(err, txmgr.ErrNotFound)
	list, _ := must.Get2(r.Find(t.Context(), txmgr.Query{}))(r.t)
	if len(list) != 2 {
		t.Errorf("%d intents are stored, not 2: %s", len(list), fmt.Sprint(list))
	}
}

// testHeir ends the holder of a slot while another intent wants the slot: the nonce is that one's then, and
// nobody else's.
func testHeir(t *testing.T, r *room) {
	first, a := signed(tenant, "", 0)
	must.Get(r.AcceptRaw(t.Context(), first, a, txmgr.RawSlot{}))(r.t)
	second, b := signed(tenant, "", 0)
	must.Get(r.AcceptRaw(t.Context(), second, b, txmgr.RawSlot{}))(r.t)
	ours, _ := r.sent()
	third := intent("", "y")
	third.Kind, third.Replaces = txmgr.KindReplace, ours.ID
	must.Get(r.AcceptReplacement(t.Context(), tenant, ours.ID, third))(r.t)
	for n, id := range []string{first.ID, ours.ID} {
		must.Do(r.t, r.End(t.Context(), r.fence, id, txmgr.StatusFailed, txmgr.Failure{Class: "fatal", Message: "no"}))
		line := must.Get(r.Line(t.Context(), chain, signer))(r.t)
		heir := []string{second.ID, third.ID}[n]
		if s := line.Slots[n]; s.Holder != txmgr.HolderIntent || s.Slot.Intent != heir || len(s.Intents) != 1 || s.Intents[0].ID != heir {
			t.Errorf("nonce %d is held by %s, for %s of %d intents", n, s.Holder, s.Slot.Intent, len(s.Intents))
		}
	}
	next := intent("", "z")
	r.accept(next)
	if done := r.assign(next); len(done) != 1 || done[0].Slot.Nonce != 2 {
		t.Errorf("the next intent got %+v", done)
	}
	must.Do(r.t, r.End(t.Context(), r.fence, second.ID, txmgr.StatusFailed, txmgr.Failure{Class: "fatal", Message: "no"}))
	last := intent("", "z")
	r.accept(last)
	if done := r.assign(last); len(done) != 1 || done[0].Slot.Nonce != 0 {
		t.Errorf("when nobody wants its nonce, the next intent got %+v", done)
	}
}

// testLateRaw hands over bytes of reservations that are over. Without an id nobody can tell them from those
// of the reservation that has the nonce now, so its caller names that one.
func testLateRaw(t *testing.T, r *room) {
	ctx := t.Context()
	const long = 3_600_000_000
	reserve := func(ttl int64, want uint64) *txmgr.Reservation {
		t.Helper()
		v := must.Get(r.Reserve(ctx, chain, signer, tenant, ttl, 0, false))(r.t)
		if v.Nonce != want {
			t.Fatalf("reserved nonce %d, want %d", v.Nonce, want)
		}
		return v
	}
	expire := func() { t.Helper(); must.Get(r.Expire(ctx))(r.t) }
	raw := func(nonce uint64, slot txmgr.RawSlot) error {
		_, err := r.raw(tenant, nonce, slot)
		return err
	}
	conflict := func(what string, err error) {
		t.Helper()
		if c := (*txmgr.NonceConflict)(nil); !errors.As(err, &c) {
			t.Errorf("%s: %v", what, err)
		}
	}
	none, older := txmgr.RawSlot{}, txmgr.RawSlot{NoIDs: true}

	// The end of the line has moved back: the nonce is the next one again.
	lost := reserve(-1, 0)
	expire()
	if lane := r.lane(); lane.NextNonce != 0 {
		t.Fatalf("the next nonce is %d", lane.NextNonce)
	}
	conflict("late at the end of the line", raw(0, none))
	conflict("late at the end of the line, without ids", raw(0, older))
	r.is(raw(0, txmgr.RawSlot{Reservation: lost.ID}), txmgr.ErrNoReservation)

	// It was given out again.
	v, above := reserve(long, 0), reserve(-1, 1)
	r.is(raw(0, none), txmgr.ErrNoReservation)
	r.is(raw(0, txmgr.RawSlot{Reservation: lost.ID}), txmgr.ErrNoReservation)
	must.Do(r.t, raw(0, txmgr.RawSlot{Reservation: v.ID}))
	r.is(raw(0, none), txmgr.ErrNoReservation) // it would replace the other one's
	must.Do(r.t, raw(0, txmgr.RawSlot{Reservation: v.ID}))

	// It is free, below one that is in use.
	must.Do(r.t, raw(reserve(long, 2).Nonce, none)) // issued once: it needs no id
	expire()
	conflict("late at a free nonce", raw(above.Nonce, none))
	conflict("late at a free nonce, without ids", raw(above.Nonce, older))

	// A caller who cannot name it is believed.
	reserve(long, 1)
	must.Do(r.t, raw(1, older))
	must.Do(r.t, raw(1, older))

	// What was given back, and never given out again, needs no id.
	back := reserve(long, 3)
	must.Get(r.Recycle(ctx, tenant, back.ID, "", "", 0))(r.t)
	must.Do(r.t, raw(3, none))
	must.Do(r.t, raw(3, none))
}

// testNonceConflict: a conflict names the nonce that a reservation would get now, and says whether another
// try can help.
func testNonceConflict(t *testing.T, r *room) {
	ctx := t.Context()
	const long = 3_600_000_000
	reserve := func(who string) *txmgr.Reservation {
		t.Helper()
		return must.Get(r.Reserve(ctx, chain, signer, who, long, 0, false))(r.t)
	}
	raw := func(who string, nonce uint64, want *txmgr.NonceConflict) *txmgr.Attempt {
		t.Helper()
		a, err := r.raw(who, nonce, txmgr.RawSlot{})
		var got *txmgr.NonceConflict
		switch {
		case want == nil:
			must.Do(r.t, err)
		case !errors.As(err, &got):
			t.Errorf("nonce %d of %s: %v", nonce, who, err)
		case *got != *want:
			t.Errorf("nonce %d of %s: current %d, attempted %d, retry %v; want %d, %d, %v", nonce, who,
				got.Current, got.Attempted, got.Retry, want.Current, want.Attempted, want.Retry)
		}
		return a
	}
	conflict := func(current, attempted uint64, retry bool) *txmgr.NonceConflict {
		return &txmgr.NonceConflict{Current: current, Attempted: attempted, Retry: retry}
	}
	for n := range uint64(5) { // 0 and 3 are used, 1, 2 and 4 are reserved
		if v := reserve([]string{tenant, tenant, tenant, "t2", "t2"}[n]); v.Nonce != n {
			t.Fatalf("reserved nonce %d, want %d", v.Nonce, n)
		}
	}
	mined := raw(tenant, 0, nil)
	raw("t2", 3, nil)
	r.mine(mined, 5, true, false)
	raw(tenant, 0, conflict(5, 0, true)) // used
	raw(tenant, 9, conflict(5, 9, true)) // too high
	raw("t2", 1, conflict(5, 1, false))  // another tenant has reserved it
	raw(tenant, 3, conflict(5, 3, false))
	must.Get(r.Recycle(ctx, tenant, "", chain, signer, 2))(r.t)
	raw(tenant, 0, conflict(2, 0, true)) // the lowest free one comes first
	raw(tenant, 9, conflict(2, 9, true))
	if v := reserve(tenant); v.Nonce != 2 {
		t.Errorf("a new reservation is of nonce %d", v.Nonce)
	}
	r.exec("UPDATE reservations SET expires_at = 1 WHERE nonce = 1")
	raw(tenant, 1, conflict(5, 1, true)) // its own, whose time is over
	must.Get(r.Expire(ctx))(r.t)
	raw(tenant, 1, conflict(1, 1, true)) // free, and to be reserved again
	ours := intent("", "x")
	r.accept(ours)
	if done := r.assign(ours); len(done) != 1 || done[0].Slot.Nonce != 1 {
		t.Fatalf("assigned: %+v", done)
	}
	raw(tenant, 1, conflict(5, 1, true)) // one that we sign
	raw("t2", 1, conflict(5, 1, false))
}
