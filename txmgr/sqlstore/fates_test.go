package sqlstore_test

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// sent stores an intent whose attempt an endpoint has taken.
func (r *room) sent() (*txmgr.Intent, *txmgr.Attempt) {
	r.t.Helper()
	i := intent("", "x")
	r.accept(i)
	done := r.assign(i)
	a := attempt(i, done[0].Slot.Nonce, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, "")
	return i, a
}

func testCancel(t *testing.T, r *room) {
	waiting, assigned := intent("", "x"), intent("", "x")
	r.accept(waiting, assigned)
	r.assign(assigned)
	for _, i := range []*txmgr.Intent{waiting, assigned} {
		must.Get(r.RequestCancel(t.Context(), tenant, i.ID))(r.t)
		if got := r.status(i.ID, txmgr.StatusCancelled); !got.Final {
			t.Fatal("a cancelled intent that was never signed is not final")
		}
	}
	if lane := r.lane(); lane.NextNonce != 0 {
		t.Fatalf("the nonce of a cancelled intent that was never signed is not given back: next is %d", lane.NextNonce)
	}
	// An attempt that was signed for it meanwhile is not stored, so it is never sent.
	if stored := r.commit(attempt(assigned, 0, 1, txmgr.PurposeIntent)); len(stored) != 0 {
		t.Fatal("an attempt of a cancelled intent was stored")
	}
	i, a := r.sent()
	got, err := r.RequestCancel(t.Context(), tenant, i.ID)
	must.Do(r.t, err)
	if !got.Cancel || got.Status != txmgr.StatusBroadcast {
		t.Fatalf("a cancel of a sent intent: %+v", got)
	}
	cancel := attempt(i, a.Nonce, 2, txmgr.PurposeCancel)
	r.commit(cancel)
	r.answer(cancel, "")
	r.mine(cancel, 3, true, true)
	done := r.status(i.ID, txmgr.StatusCancelled)
	if done.Attempts[0].State != txmgr.AttemptReplaced || done.Attempts[1].State != txmgr.AttemptMined {
		t.Fatalf("states %s and %s", done.Attempts[0].State, done.Attempts[1].State)
	}
	_, err = r.RequestCancel(t.Context(), "t2", i.ID)
	r.is(err, txmgr.ErrNotFound)
}

func testReplace(t *testing.T, r *room) {
	for name, winner := range map[string]int{"the old one is mined": 0, "the new one is mined": 1} {
		i, a := r.sent()
		other := intent("", "y")
		other.Kind, other.Replaces = txmgr.KindReplace, i.ID
		must.Get(r.AcceptReplacement(t.Context(), tenant, i.ID, other))(r.t)
		if got := r.status(other.ID, txmgr.StatusAssigned); got.Nonce != a.Nonce {
			t.Fatalf("%s: the replacement has nonce %d, want %d", name, got.Nonce, a.Nonce)
		}
		// What replaces a replacement that is not signed takes its place in the line.
		last := intent("", "z")
		last.Kind, last.Replaces = txmgr.KindReplace, other.ID
		must.Get(r.AcceptReplacement(t.Context(), tenant, other.ID, last))(r.t)
		r.status(other.ID, txmgr.StatusReplaced)
		other = last
		b := attempt(other, a.Nonce, 2, txmgr.PurposeReplace)
		if len(r.commit(b)) != 1 {
			t.Fatalf("%s: the replacement's attempt was not stored", name)
		}
		r.answer(b, "")
		r.mine([]*txmgr.Attempt{a, b}[winner], 3, true, true)
		want := [][2]txmgr.Status{{txmgr.StatusConfirmed, txmgr.StatusCancelled}, {txmgr.StatusReplaced, txmgr.StatusConfirmed}}[winner]
		r.status(i.ID, want[0])
		r.status(other.ID, want[1])
	}
}

func testForeign(t *testing.T, r *room) {
	i, a := r.sent()
	proof := txmgr.Proof{Slot: txmgr.Slot{Chain: chain, Signer: signer, Nonce: a.Nonce}, Foreign: "0xf0", Block: 4, BlockHash: "b4"}
	must.Do(r.t, r.Prove(t.Context(), r.fence, []txmgr.Proof{proof}))
	r.status(i.ID, txmgr.StatusBroadcast) // not final: no proof
	proof.Final = true
	must.Do(r.t, r.Prove(t.Context(), r.fence, []txmgr.Proof{proof}))
	r.status(i.ID, txmgr.StatusAccepted)
	done := r.assign(i)
	if len(done) != 1 || done[0].Slot.Nonce != a.Nonce+1 {
		t.Fatalf("after a foreign transaction the intent got %+v", done)
	}
}

// testRequeue takes intents out of their slot: the nonce goes to the next, and the attempts
// before it do not count as its own.
func testRequeue(t *testing.T, r *room) {
	i, a := r.sent()
	must.Do(r.t, r.Requeue(t.Context(), r.fence, i.ID, nil))
	if got := r.status(i.ID, txmgr.StatusAccepted); got.Signer != "" || got.Attempts[0].State != txmgr.AttemptReplaced {
		t.Fatalf("accepted again: %+v", got)
	}
	if done := r.assign(i); len(done) != 1 || done[0].Slot.Nonce != a.Nonce {
		t.Fatalf("its nonce is not the next: %+v", done)
	}
	again := attempt(i, a.Nonce, 2, txmgr.PurposeIntent)
	r.commit(again)
	r.answer(again, txmgr.ClassFatal)
	must.Do(r.t, r.Requeue(t.Context(), r.fence, i.ID, &txmgr.Failure{Class: "fatal", Message: "refused by the chain"}))
	if got := r.status(i.ID, txmgr.StatusFailed); !got.Final || got.Message != "refused by the chain" {
		t.Fatalf("failed for ever: %+v", got)
	}
	next := intent("", "next")
	r.accept(next)
	if done := r.assign(next); len(done) != 1 || done[0].Slot.Nonce != a.Nonce {
		t.Fatalf("the nonce of a failed intent is lost: %+v", done)
	}
}

// testTags stores the same bytes under two tags: which of both was mined is told by the tag.
func testTags(t *testing.T, r *room) {
	i := intent("", "tags")
	r.accept(i)
	r.assign(i)
	first := attempt(i, 0, 1, txmgr.PurposeIntent)
	first.Tag = "one"
	r.commit(first)
	r.answer(first, txmgr.ClassTransport)
	second := *first
	second.Tag, second.Version, second.State, second.Ambiguous, second.Offers = "two", 2, txmgr.AttemptSigned, false, 0
	if stored := r.commit(&second); len(stored) != 1 {
		t.Fatal("the second tag is not stored")
	}
	r.answer(&second, "")
	r.mine(&second, 5, true, true)
	got := r.status(i.ID, txmgr.StatusConfirmed)
	if len(got.Attempts) != 2 || got.Attempts[0].State != txmgr.AttemptReplaced || got.Attempts[1].State != txmgr.AttemptMined || got.Attempts[1].Tag != "two" {
		t.Fatalf("attempts: %+v", got.Attempts)
	}
}

func testReorg(t *testing.T, r *room) {
	i, a := r.sent()
	slot := txmgr.Slot{Chain: chain, Signer: signer, Nonce: a.Nonce}
	r.mine(a, 5, false, false)
	r.status(i.ID, txmgr.StatusMined)
	if lane := r.lane(); lane.ChainNonce != a.Nonce+1 || lane.Pending != 0 {
		t.Errorf("nothing is pending, and the chain's nonce is %d", lane.ChainNonce)
	}
	must.Do(r.t, r.Unmine(t.Context(), r.fence, []txmgr.Slot{slot}))
	if lane := r.lane(); lane.ChainNonce != a.Nonce || lane.Pending != 1 {
		t.Errorf("%d are pending again, and the chain's nonce is %d", lane.Pending, lane.ChainNonce)
	}
	got := r.status(i.ID, txmgr.StatusBroadcast)
	if got.Receipt != nil || got.Attempts[0].State != txmgr.AttemptSent || string(got.Attempts[0].Raw) != string(a.Raw) {
		t.Fatalf("after a reorganisation: %+v", got)
	}
	r.mine(a, 6, true, true)
	r.status(i.ID, txmgr.StatusConfirmed)
	must.Do(r.t, r.Unmine(t.Context(), r.fence, []txmgr.Slot{slot})) // a final block is not taken back
	r.status(i.ID, txmgr.StatusConfirmed)
}

func testRefused(t *testing.T, r *room) {
	i, next := intent("", "x"), intent("", "y")
	r.accept(i, next)
	r.assign(i)
	a := attempt(i, 0, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, txmgr.ClassFatal)
	if got := r.get(i.ID); got.Attempts[0].State != txmgr.AttemptRefused {
		t.Fatalf("a refused attempt is %s", got.Attempts[0].State)
	}
	must.Do(r.t, r.End(t.Context(), r.fence, i.ID, txmgr.StatusFailed, txmgr.Failure{Class: "fatal", Message: "no"}))
	if got := r.status(i.ID, txmgr.StatusFailed); got.Class != "fatal" {
		t.Fatalf("the error is %+v", got.Failure)
	}
	if done := r.assign(next); len(done) != 1 || done[0].Slot.Nonce != 0 {
		t.Fatalf("the slot of the failed intent was not given to the next: %+v", done)
	}
}

func testAmbiguous(t *testing.T, r *room) {
	i := intent("", "x")
	r.accept(i)
	r.assign(i)
	a := attempt(i, 0, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, txmgr.ClassTransport)
	r.status(i.ID, txmgr.StatusUnknown)
	r.answer(a, txmgr.ClassFatal)
	if got := r.get(i.ID); got.Attempts[0].State != txmgr.AttemptUnknown || !got.Attempts[0].Ambiguous {
		t.Fatalf("what may have been taken counts as %s after a refusal", got.Attempts[0].State)
	}
	r.answer(a, txmgr.ClassKnown)
	r.status(i.ID, txmgr.StatusBroadcast)
}

// spent is what a scope holds and has settled on the day of these tests.
func (r *room) spent(scope string) string {
	r.t.Helper()
	return must.Get(ledgertest.One[string](r.t, r.db, "SELECT held || ' ' || settled FROM spend WHERE scope = $1 AND day = '2026-01-31'", scope))(r.t)
}

func testBudget(t *testing.T, r *room) {
	held := func() *txmgr.Intent {
		i := intent("", "x")
		i.Holds = []txmgr.Hold{{Scope: "tenant/t1", Day: "2026-01-31", Amount: big.NewInt(60), Limit: big.NewInt(100)}}
		return i
	}
	expect := func(wantHeld, wantSettled int64) {
		t.Helper()
		if got, want := r.spent("tenant/t1"), fmt.Sprint(wantHeld, " ", wantSettled); got != want {
			t.Fatalf("held and settled are %s, not %s", got, want)
		}
	}
	first := held()
	r.accept(first)
	expect(60, 0)
	_, err := r.Accept(t.Context(), []*txmgr.Intent{held()})
	r.is(err, txmgr.ErrBudget)
	expect(60, 0)
	must.Get(r.RequestCancel(t.Context(), tenant, first.ID))(r.t)
	expect(0, 0)
	second := held()
	r.accept(second)
	r.assign(second)
	a := attempt(second, 0, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, "")
	r.mine(a, 1, true, false)
	expect(60, 0)
	r.mine(a, 1, true, true)
	expect(0, 210_000)
}

func testReservations(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	ctx := t.Context()
	var list []*txmgr.Reservation
	for range 3 {
		v := must.Get(r.Reserve(ctx, chain, signer, tenant, ttl, 3, false))(r.t)
		list = append(list, v)
	}
	_, err := r.Reserve(ctx, chain, signer, tenant, ttl, 3, false)
	r.is(err, txmgr.ErrTooMany)
	if done, err := r.Recycle(ctx, "t2", list[1].ID, "", "", 0); err != nil || done {
		t.Fatalf("another tenant recycled a reservation: %v, %v", done, err)
	}
	r.recycle(list[1].ID)
	v := must.Get(r.Reserve(ctx, chain, signer, tenant, ttl, 3, false))(r.t)
	if v.Nonce != 1 {
		t.Fatalf("the recycled nonce is not given first: got %d", v.Nonce)
	}
	if done, err := r.Recycle(ctx, tenant, "", chain, signer, 1); err != nil || done {
		t.Fatalf("a nonce that was reissued was recycled without an id: %v, %v", done, err)
	}
	if done, err := r.Recycle(ctx, tenant, "", chain, signer, 2); err != nil || !done {
		t.Fatalf("recycle by nonce: %v, %v", done, err)
	}
	if lane := r.lane(); lane.NextNonce != 2 {
		t.Fatalf("the end of the line did not move back: next is %d", lane.NextNonce)
	}
	late := r.reserve(-1)
	ended := must.Get(r.Expire(ctx))(r.t)
	if len(ended) != 1 || ended[0].ID != late.ID {
		t.Fatalf("expired %+v, want %s", ended, late.ID)
	}
	old := r.reserve(ttl)
	again := must.Get(r.RenewReservation(ctx, tenant, old.ID, ttl))(r.t)
	if again.Expires < old.Expires {
		r.t.Errorf("renewed until %d, and before %d", again.Expires, old.Expires)
	}
	r.exec("UPDATE reservations SET created_at = created_at - $2 WHERE id = $1", old.ID, 5*ttl)
	_, err = r.RenewReservation(ctx, tenant, old.ID, ttl)
	r.is(err, txmgr.ErrNoReservation) // on a signer of ours it ends one day
	r.recycle(old.ID)
	_, err = r.RenewReservation(ctx, tenant, late.ID, ttl)
	r.is(err, txmgr.ErrNoReservation)
}

func testReservationsAtOnce(t *testing.T, r *room) {
	const callers, each = 10, 10
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range each {
				v, err := r.Reserve(context.WithoutCancel(t.Context()), chain, signer, tenant, 3_600_000_000, 0, false)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[v.Nonce] {
					t.Errorf("nonce %d was given twice", v.Nonce)
				}
				seen[v.Nonce] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if lane := r.lane(); lane.NextNonce != callers*each {
		t.Fatalf("next nonce %d, want %d", lane.NextNonce, callers*each)
	}
}

// testRelease takes an intent that nothing was signed for out of its slot: the nonce is the next one's,
// and what was signed meanwhile is not stored.
func testRelease(t *testing.T, r *room) {
	i, next := intent("", "x"), intent("", "y")
	r.accept(i, next)
	r.is(r.Release(t.Context(), r.fence, i.ID, "why"), txmgr.ErrStale)
	r.assign(i)
	must.Do(r.t, r.Release(t.Context(), r.fence, i.ID, "why"))
	if got := r.status(i.ID, txmgr.StatusAccepted); got.Signer != "" || got.Waiting != "why" {
		t.Fatalf("released: %+v", got)
	}
	if stored := r.commit(attempt(i, 0, 1, txmgr.PurposeIntent)); len(stored) != 0 {
		t.Fatal("an attempt of an intent that was released is stored")
	}
	done := r.assign(next, i)
	if len(done) != 2 || done[0].Intent.ID != next.ID || done[0].Slot.Nonce != 0 || done[1].Slot.Nonce != 1 {
		t.Fatalf("assigned afterwards: %+v", done)
	}
	r.commit(attempt(i, 1, 1, txmgr.PurposeIntent))
	r.is(r.Release(t.Context(), r.fence, i.ID, "why"), txmgr.ErrStale)
	r.status(i.ID, txmgr.StatusSigned)
}

// testKilled turns switches on between assignment and signature: what was signed is not stored, so it
// is never sent. An intent whose first attempt is stored goes on when its pool is off.
func testKilled(t *testing.T, r *room) {
	i := intent("", "x")
	r.accept(i)
	r.assign(i)
	turn := func(scope string, on bool) {
		t.Helper()
		must.Do(r.t, r.Kill(t.Context(), scope, "test", "a test", on))
	}
	pool := txmgr.PoolScope(chain, "default")
	for _, scope := range []string{txmgr.ScopeAll, txmgr.ChainScope(chain), pool, txmgr.SignerScope(chain, signer)} {
		turn(scope, true)
		if stored := r.commit(attempt(i, 0, 1, txmgr.PurposeIntent)); len(stored) != 0 {
			t.Errorf("%s is off, and an attempt is stored", scope)
		}
		turn(scope, false)
	}
	turn(txmgr.PoolScope(chain, "another"), true)
	if stored := r.commit(attempt(i, 0, 1, txmgr.PurposeIntent)); len(stored) != 1 {
		t.Fatal("an attempt is not stored, though all that is off is another pool")
	}
	turn(pool, true)
	if stored := r.commit(attempt(i, 0, 2, txmgr.PurposeIntent)); len(stored) != 1 {
		t.Error("what is sent already cannot be raised")
	}
}

// testAdopted makes slots for somebody else's transactions: they are in the line until they are
// executed, or abandoned.
func testAdopted(t *testing.T, r *room) {
	ctx := t.Context()
	slot := func(nonce uint64) txmgr.Slot { return txmgr.Slot{Chain: chain, Signer: signer, Nonce: nonce} }
	lane := must.Get(r.Reconcile(ctx, chain, signer, "test", 2, 6))(r.t)
	if lane.NextNonce != 6 || lane.Pending != 4 {
		t.Fatalf("next nonce %d, pending %d; want 6 and 4", lane.NextNonce, lane.Pending)
	}
	ours, _ := r.sent()
	if got := r.get(ours.ID); got.Nonce != 6 {
		t.Fatalf("the first of ours has nonce %d", got.Nonce)
	}
	if lane := r.lane(); lane.Gaps != 0 {
		t.Fatalf("%d of the adopted count as gaps", lane.Gaps)
	}
	line := must.Get(r.Line(ctx, chain, signer))(r.t)
	for n, s := range line.Slots[:4] {
		if s.Nonce != uint64(2+n) || s.Holder != txmgr.HolderForeign || s.Consumed != "" || s.Final {
			t.Fatalf("slot %d: %+v", n, s.Slot)
		}
	}
	must.Do(r.t, r.Prove(ctx, r.fence, []txmgr.Proof{{Slot: slot(2), Foreign: "0xf2", Block: 4, BlockHash: "b4", Final: true}}))
	r.is(r.Abandon(ctx, r.fence, slot(2)), txmgr.ErrStale)
	must.Do(r.t, r.Abandon(ctx, r.fence, slot(4)))
	r.is(r.Abandon(ctx, r.fence, slot(4)), txmgr.ErrStale)
	r.is(r.Abandon(ctx, r.fence, slot(6)), txmgr.ErrStale)
	i := intent("", "y")
	r.accept(i)
	if done := r.assign(i); len(done) != 1 || done[0].Slot.Nonce != 4 {
		t.Fatalf("the abandoned nonce is not the next: %+v", done)
	}
	// What is adopted already stays when an operator reconciles again.
	lane = must.Get(r.Reconcile(ctx, chain, signer, "test", 7, 7))(r.t)
	if lane.NextNonce != 7 || lane.Pending != 4 { // 3, 4, 5 and 6
		t.Fatalf("reconciled again: next nonce %d, pending %d", lane.NextNonce, lane.Pending)
	}
}

// testSeen: an error is no sight of the chain, its nonce and its word are.
func testSeen(t *testing.T, r *room) {
	if lane := r.lane(); lane.LastSeen != 0 || lane.Unseen != 0 {
		t.Fatalf("a lane that was never seen: %d, %v", lane.LastSeen, lane.Unseen)
	}
	text, nonce := "nobody answers", uint64(1)
	for name, row := range map[string]struct {
		seen txmgr.Observation
		want bool
	}{
		"an error":  {txmgr.Observation{Failed: &text}, false},
		"a halt":    {txmgr.Observation{Halted: &text}, false},
		"a nonce":   {txmgr.Observation{ChainNonce: &nonce}, true},
		"a success": {txmgr.Observation{Succeeded: true}, true},
	} {
		r.exec("UPDATE signer_chains SET last_seen = $1", r.now()-hour)
		must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, row.seen))
		if lane := r.lane(); (lane.Unseen < time.Hour) != row.want {
			t.Errorf("%s: the lane was not seen for %v", name, lane.Unseen)
		}
	}
}

// testFillCharged fills the nonce of an intent that failed: its own budget pays.
func testFillCharged(t *testing.T, r *room) {
	i := intent("", "x")
	i.Holds = []txmgr.Hold{{Scope: "tenant/t1", Day: "2026-01-31", Amount: big.NewInt(60)}}
	r.accept(i)
	r.assign(i)
	above := intent("", "y")
	r.accept(above)
	r.assign(above)
	a := attempt(i, 0, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, txmgr.ClassFatal)
	must.Do(r.t, r.End(t.Context(), r.fence, i.ID, txmgr.StatusFailed, txmgr.Failure{Class: "fatal", Message: "no"}))
	must.Do(r.t, r.FillSlot(t.Context(), r.fence, txmgr.Slot{Chain: chain, Signer: signer, Nonce: 0}, i.ID))
	fill := attempt(i, 0, 2, txmgr.PurposeFill)
	if len(r.commit(fill)) != 1 {
		t.Fatal("the fill is not stored")
	}
	r.answer(fill, "")
	r.mine(fill, 3, true, false)
	r.mine(fill, 3, true, true)
	if got := r.spent("tenant/t1"); got != "0 210000" {
		t.Fatalf("held and settled are %s, not 0 and 210000", got)
	}
	r.status(i.ID, txmgr.StatusFailed)
}
