package txmgr_test

import (
	"errors"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestLockedSigner has a caller who has a signer alone: another signer serves what comes, what is pinned waits, and goes on
// after the lock.
func TestLockedSigner(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	lock := must.Get(m.m.Lock(t.Context(), "", "pool", "alice.test"))(t)
	f.exec("UPDATE signer_chains SET lock_until = lock_until * 2 WHERE lock_until > 0") // however slow the machine is
	f.exec("UPDATE reservations SET expires_at = expires_at * 2")
	if _, err := m.m.Acquire(t.Context(), "", "pool", "alice.test"); !errors.Is(err, txmgr.ErrLocked) {
		t.Errorf("a nonce of a signer that somebody has alone: %v", err)
	}
	pinned := m.submit(func(r *txmgr.Request) { r.Pin = "alice.test" })
	for _, id := range []string{m.submit(), m.submit(), m.submit(), m.submit()} { // more than the locked signer has pending
		if got := m.reaches(id, txmgr.StatusBroadcast); got.Signer != "bob.test" {
			t.Errorf("%s serves, which somebody has alone", got.Signer)
		}
	}
	m.asksOn()
	if got := m.get(pinned); got.Status != txmgr.StatusAccepted {
		t.Errorf("a pinned intent is %s", got.Status)
	}
	if done, err := m.m.Unlock(t.Context(), "", "pool", "alice.test", lock.LockID); err != nil || !done {
		t.Fatalf("unlocked: %v, %v", done, err)
	}
	if got := m.mined(pinned, txmgr.StatusConfirmed); got.Nonce != lock.Nonce {
		t.Errorf("the nonce of the lock, %d, was not given back; the intent has %d", lock.Nonce, got.Nonce)
	}
}
