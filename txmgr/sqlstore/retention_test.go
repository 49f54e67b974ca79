package sqlstore_test

import (
	"errors"
	"math/big"
	"slices"
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

const hour = 3_600_000_000

// now is the database's clock.
func (r *room) now() int64 {
	r.t.Helper()
	return must.Get(r.Now(r.t.Context()))(r.t)
}

func (r *room) exec(statement ledger.SQL, args ...any) {
	r.t.Helper()
	must.Do(r.t, r.db.Write(r.t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(r.t.Context(), statement, args...)
		return err
	}))
}

// count asks how many rows there are. The query is the program's.
func (r *room) count(query ledger.SQL, args ...any) int {
	r.t.Helper()
	return must.Get(ledgertest.One[int](r.t, r.db, query, args...))(r.t)
}

func (r *room) reserve(ttl int64) *txmgr.Reservation {
	r.t.Helper()
	return must.Get(r.Reserve(r.t.Context(), chain, signer, tenant, ttl, 9, false))(r.t)
}

// recycle gives a reservation back.
func (r *room) recycle(id string) {
	r.t.Helper()
	if !must.Get(r.Recycle(r.t.Context(), tenant, id, "", "", 0))(r.t) {
		r.t.Fatalf("the reservation %s is not given back", id)
	}
}

func (r *room) forgets(before int64, want int) {
	r.t.Helper()
	n := must.Get(r.Forget(r.t.Context(), before, 100))(r.t)
	if n != want {
		r.t.Fatalf("%d intents are forgotten, want %d", n, want)
	}
}

// testForget: what is final and old enough goes, and leaves its key; all else stays whole.
func testForget(t *testing.T, r *room) {
	ctx := t.Context()
	before := r.now()
	done, sent, waiting := intent("k", "x"), intent("", "y"), intent("", "z")
	for _, i := range []*txmgr.Intent{done, sent} {
		r.accept(i)
		nonce := r.assign(i)[0].Slot.Nonce
		r.commit(attempt(i, nonce, 1, txmgr.PurposeIntent))
		r.answer(attempt(i, nonce, 1, txmgr.PurposeIntent), "")
	}
	r.accept(waiting)
	r.mine(attempt(done, 0, 1, txmgr.PurposeIntent), 3, true, true)
	r.forgets(before, 0) // not old enough
	later := r.now() + hour
	r.forgets(later, 1)
	r.forgets(later, 0)
	_, err := r.Get(ctx, "", done.ID)
	r.is(err, txmgr.ErrNotFound)
	_, err = r.ByKey(ctx, tenant, "k", "")
	r.is(err, txmgr.ErrForgotten)
	_, err = r.Accept(ctx, []*txmgr.Intent{intent("k", "x")})
	r.is(err, txmgr.ErrForgotten)
	for what, n := range map[string]int{
		"slots":    r.count("SELECT count(*) FROM slots WHERE nonce = 0"),
		"attempts": r.count("SELECT count(*) FROM attempts WHERE intent = $1", done.ID),
	} {
		if n != 0 {
			t.Errorf("%d %s of a forgotten intent are left", n, what)
		}
	}
	if got := r.status(sent.ID, txmgr.StatusBroadcast); len(got.Attempts) != 1 || len(got.Timeline) == 0 {
		t.Errorf("of an intent without a fate %d attempts and %d events are left", len(got.Attempts), len(got.Timeline))
	}
	r.status(waiting.ID, txmgr.StatusAccepted)
	if lane := r.lane(); lane.NextNonce != 2 || lane.Pending != 1 {
		t.Errorf("next nonce %d, pending %d; want 2 and 1", lane.NextNonce, lane.Pending)
	}
}

// testForgetFilled: an intent that ended stays while the fill of its nonce is on its way, whose bytes are in its name.
func testForgetFilled(t *testing.T, r *room) {
	i, above := intent("", "x"), intent("", "y")
	r.accept(i, above)
	r.assign(i, above)
	refused := attempt(i, 0, 1, txmgr.PurposeIntent)
	r.commit(refused)
	r.answer(refused, txmgr.ClassFatal)
	must.Do(r.t, r.End(t.Context(), r.fence, i.ID, txmgr.StatusFailed, txmgr.Failure{Class: "fatal", Message: "no"}))
	later := r.now() + hour
	r.forgets(later, 0)
	must.Do(r.t, r.FillSlot(t.Context(), r.fence, txmgr.Slot{Chain: chain, Signer: signer, Nonce: 0}, i.ID))
	fill := attempt(i, 0, 2, txmgr.PurposeFill)
	r.commit(fill)
	r.answer(fill, "")
	r.forgets(later, 0)
	line := must.Get(r.Line(t.Context(), chain, signer))(r.t)
	if got := len(line.Slots[0].Attempts); got != 2 {
		t.Fatalf("%d attempts of the filled slot are left", got)
	}
	r.mine(fill, 3, true, true)
	r.forgets(later, 1)
}

// testForgetReset: what was on its way when the chain was reset is over, and is forgotten.
func testForgetReset(t *testing.T, r *room) {
	i, _ := r.sent()
	must.Do(r.t, r.ResetChain(t.Context(), chain, "test", "another", 0))
	r.status(i.ID, txmgr.StatusFailed)
	r.forgets(r.now()+hour, 1)
	if n := r.count("SELECT count(*) FROM slots"); n != 0 {
		t.Errorf("%d slots of the chain before it was reset are left", n)
	}
}

func (r *room) tidies(before int64, want int) {
	r.t.Helper()
	n := must.Get(r.Tidy(r.t.Context(), before, 100))(r.t)
	if n != want {
		r.t.Fatalf("%d rows are tidied away, want %d", n, want)
	}
}

// testTidySlots: a nonce that somebody else used goes when it is final, and is never given again; one that still waits stays.
// So does a fill in nobody's name.
func testTidySlots(t *testing.T, r *room) {
	ctx := t.Context()
	before := r.now()
	must.Do(r.t, r.Foreign(ctx, r.fence, chain, signer, []txmgr.Consumer{{Hash: "0xf0", Block: 4, BlockHash: "b4"}}, 0))
	must.Get(r.Reconcile(ctx, chain, signer, "test", 1, 2))(r.t) // nonce 1 waits
	first, above := intent("", "x"), intent("", "y")
	r.accept(first, above)
	r.assign(first, above) // nonces 2 and 3
	must.Get(r.RequestCancel(ctx, tenant, first.ID))(r.t)
	must.Do(r.t, r.FillSlot(ctx, r.fence, txmgr.Slot{Chain: chain, Signer: signer, Nonce: 2}, ""))
	fill := attempt(first, 2, 1, txmgr.PurposeFill)
	fill.Intent = ""
	r.commit(fill)
	later := r.now() + hour
	r.tidies(before, 0)
	r.tidies(later, 1)
	r.mine(fill, 5, true, true)
	r.tidies(later, 1)
	if n := r.count("SELECT count(*) FROM slots"); n != 2 {
		t.Errorf("%d slots are left, want those of nonces 1 and 3", n)
	}
	if n := r.count("SELECT count(*) FROM attempts"); n != 0 {
		t.Errorf("%d attempts are left", n)
	}
	must.Get(r.RequestCancel(ctx, tenant, above.ID))(r.t) // the end of the line moves back, but not over what is used
	if lane := r.lane(); lane.NextNonce != 3 || lane.Pending != 1 {
		t.Errorf("next nonce %d, pending %d; want 3 and 1", lane.NextNonce, lane.Pending)
	}
	var conflict *txmgr.NonceConflict
	for _, nonce := range []uint64{0, 2} {
		if _, err := r.raw(tenant, nonce, txmgr.RawSlot{}); !errors.As(err, &conflict) {
			t.Errorf("a transaction with the used nonce %d: %v", nonce, err)
		}
	}
}

// testTidyReservations: a reservation that ended goes when its nonce can never be given again. Before that it refuses late calls.
func testTidyReservations(t *testing.T, r *room) {
	ctx := t.Context()
	raw := func(nonce uint64, reservation string) *txmgr.Attempt {
		t.Helper()
		return must.Get(r.raw(tenant, nonce, txmgr.RawSlot{Reservation: reservation}))(r.t)
	}
	left := func(want ...string) {
		t.Helper()
		got := ledgertest.List[string](r.t, r.db, "SELECT id FROM reservations")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("the reservations %v are left, want %v", got, want)
		}
	}
	used, lost, above, held := r.reserve(hour), r.reserve(-1), r.reserve(hour), r.reserve(hour) // nonces 0 to 3
	a, top := raw(0, used.ID), raw(2, above.ID)
	must.Get(r.Expire(ctx))(r.t)
	later := r.now() + 2*hour
	r.tidies(later, 0)
	r.mine(a, 3, true, true)
	r.tidies(r.now(), 0) // not old enough
	r.tidies(later, 1)
	left(lost.ID, above.ID, held.ID)
	// The free nonce is given again: a late call without an id is refused, since it was issued twice.
	again := r.reserve(hour)
	if again.Nonce != lost.Nonce {
		t.Fatalf("the nonce %d was not given again: %d", lost.Nonce, again.Nonce)
	}
	r.tidies(later, 0)
	if done, err := r.Recycle(ctx, tenant, "", chain, signer, lost.Nonce); err != nil || done {
		t.Fatalf("a nonce that was issued twice was recycled without an id: %v, %v", done, err)
	}
	b := raw(again.Nonce, again.ID)
	r.mine(b, 4, true, true)
	r.mine(top, 4, true, true)
	r.tidies(later, 3)
	left(held.ID)
	// What was taken back from the end of the line is given again.
	r.recycle(held.ID)
	r.tidies(later, 0)
	left(held.ID)
}

// testTidyRest: budgets of days that are over and events of gaps go; what is held, younger, or an intent's stays, and so do the
// lines of the audit log.
func testTidyRest(t *testing.T, r *room) {
	ctx := t.Context()
	const stranger = "0x00000000000000000000000000000000000000bb"
	must.Get(r.AddLane(ctx, txmgr.Lane{Chain: chain, Signer: stranger}))(r.t)
	l := must.Get(r.keep.Acquire(ctx, "txm:"+chain+":"+stranger))(r.t)
	zero := uint64(0)
	must.Do(r.t, r.Observe(ctx, l.Fence(), chain, stranger, txmgr.Observation{NextNonce: &zero}))
	must.Get(r.Reserve(ctx, chain, stranger, tenant, -1, 9, false))(r.t)
	must.Get(r.Reserve(ctx, chain, stranger, tenant, hour, 9, false))(r.t)
	must.Get(r.Expire(ctx))(r.t)
	budget := func(day string) *txmgr.Intent {
		i := intent("", day)
		i.Holds = []txmgr.Hold{{Scope: "tenant/t1", Day: day, Amount: big.NewInt(60)}}
		return i
	}
	over, open := budget("2001-01-30"), budget("2001-01-31")
	future := budget("9999-12-31")
	r.accept(over, open, future)
	must.Get(r.RequestCancel(ctx, tenant, over.ID))(r.t)
	must.Get(r.RequestCancel(ctx, tenant, future.ID))(r.t)
	for waits := true; waits; { // for their cursors
		must.Get(r.Sequence(ctx))(r.t)
		waits = r.count("SELECT count(*) FROM outbox WHERE seq = 0") > 0
	}
	must.Do(r.t, r.Audit(ctx, "me", "test", "subject", ""))
	events := func(gaps, others int) {
		t.Helper()
		list := must.Get(r.Events(ctx, 0, 100))(r.t)
		got := 0
		for _, e := range list {
			if e.Kind == "nonce.gap" {
				got++
			}
		}
		if got != gaps || len(list)-got != others {
			t.Errorf("%d events of gaps and %d others are left, want %d and %d", got, len(list)-got, gaps, others)
		}
	}
	events(1, 5)
	lines := r.count("SELECT count(*) FROM audit_log")
	r.tidies(r.now()-hour, 1) // the budget of 2001
	if days := r.count("SELECT count(*) FROM spend"); days != 2 {
		t.Errorf("the budgets of %d days are left, want those of two", days)
	}
	events(1, 5)
	r.tidies(r.now()+hour/2, 1)
	events(0, 5)
	if n := r.count("SELECT count(*) FROM audit_log"); n != lines {
		t.Errorf("%d of %d lines of the audit log are left", n, lines)
	}
	must.Get(r.RequestCancel(ctx, tenant, open.ID))(r.t) // its budget is there
	r.tidies(r.now()-hour, 1)
}
