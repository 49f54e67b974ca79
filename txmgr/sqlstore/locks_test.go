package sqlstore_test

import (
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

func testLock(t *testing.T, r *room) {
	ctx := t.Context()
	v, err := r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false)
	must.Do(r.t, err)
	_, err = r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false)
	r.is(err, txmgr.ErrLocked)
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, "wrong"); err != nil || done {
		t.Fatalf("a stranger unlocked: %v, %v", done, err)
	}
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, v.LockID); err != nil || !done {
		t.Fatalf("the holder could not unlock: %v, %v", done, err)
	}
	if lane := r.lane(); lane.NextNonce != 0 {
		t.Fatalf("an unused lock kept its nonce: next is %d", lane.NextNonce)
	}
	must.Get(r.LockLane(ctx, chain, signer, tenant, -1, 9, false))(r.t)
	must.Get(r.LockLane(ctx, chain, signer, tenant, 3_600_000_000, 9, false))(r.t) // the old lock has expired
}

// testLockedOut: while one caller has the lane, nobody else gets a nonce of it, for a reservation, an intent or bytes
// that a caller signed. What has its nonce already goes on.
func testLockedOut(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	ctx := t.Context()
	earlier := must.Get(r.Reserve(ctx, chain, signer, tenant, ttl, 9, false))(r.t)
	lock, err := r.LockLane(ctx, chain, signer, tenant, ttl, 9, false)
	must.Do(r.t, err)
	waiting := intent("", "x")
	r.accept(waiting)
	handOver := func(nonce uint64, reservation string) error {
		t.Helper()
		i := intent("", "raw")
		i.Kind, i.Signer, i.Nonce = txmgr.KindRaw, signer, nonce
		a := attempt(i, nonce, 1, txmgr.PurposeRaw)
		i.Hash = a.Hash
		_, err := r.AcceptRaw(ctx, i, *a, txmgr.RawSlot{Reservation: reservation})
		return err
	}
	if !r.lane().Locked {
		t.Error("the lane does not say that it is locked")
	}
	for _, who := range []string{tenant, "t2"} {
		_, err = r.Reserve(ctx, chain, signer, who, ttl, 9, false)
		r.is(err, txmgr.ErrLocked)
	}
	if done := r.assign(waiting); len(done) != 0 {
		t.Fatalf("an intent got the nonce %d of a lane that a caller has alone", done[0].Slot.Nonce)
	}
	r.is(handOver(lock.Nonce+1, ""), txmgr.ErrLocked)
	must.Do(r.t, handOver(earlier.Nonce, earlier.ID))
	must.Do(r.t, handOver(lock.Nonce, lock.LockID))
	if done, err := r.UnlockLane(ctx, chain, signer, tenant, lock.LockID); err != nil || !done {
		t.Fatalf("the holder could not unlock: %v, %v", done, err)
	}
	if r.lane().Locked {
		t.Error("the lane says that it is locked")
	}
	if done := r.assign(waiting); len(done) != 1 || done[0].Slot.Nonce != lock.Nonce+1 {
		t.Fatalf("after the lock the intent got %+v", done)
	}
	must.Get(r.Reserve(ctx, chain, signer, "t2", ttl, 9, false))(r.t)
	must.Get(r.LockLane(ctx, chain, signer, tenant, -1, 9, false))(r.t) // has expired
	must.Get(r.Reserve(ctx, chain, signer, "t2", ttl, 9, false))(r.t)
	must.Do(r.t, handOver(r.lane().NextNonce, ""))
}

// testLockCap: a lock is a reservation, and counts among those that its tenant may hold.
func testLockCap(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	v, err := r.Reserve(t.Context(), chain, signer, tenant, ttl, 1, false)
	must.Do(r.t, err)
	_, err = r.LockLane(t.Context(), chain, signer, tenant, ttl, 1, false)
	r.is(err, txmgr.ErrTooMany)
	if r.lane().Locked {
		t.Error("a lock that was refused is there")
	}
	must.Get(r.Recycle(t.Context(), tenant, v.ID, "", "", 0))(r.t)
	must.Get(r.LockLane(t.Context(), chain, signer, tenant, ttl, 1, false))(r.t)
}

// testOneAtATime: where the chain takes the next nonce alone, none is reserved while anything is in flight.
func testOneAtATime(t *testing.T, r *room) {
	const ttl = 3_600_000_000
	v, err := r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true)
	must.Do(r.t, err)
	_, err = r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true)
	r.is(err, txmgr.ErrLocked)
	_, err = r.LockLane(t.Context(), chain, signer, tenant, ttl, 9, true)
	r.is(err, txmgr.ErrLocked)
	must.Get(r.Recycle(t.Context(), tenant, v.ID, "", "", 0))(r.t)
	must.Get(r.Reserve(t.Context(), chain, signer, tenant, ttl, 9, true))(r.t)
}
