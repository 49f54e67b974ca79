package txmgr_test

import (
	"errors"
	"testing"

	"lockstep/txmgr"
)

// TestKillSwitchOfPool turns a pool off when one of its transactions is sent, and another one has a
// nonce and no signature: the first is followed to its end, the second gives its nonce to others.
func TestKillSwitchOfPool(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) { o.Pools = map[string][]string{"vip": {"alice.test"}} }
	open := f.lockKeys()
	open.Store(true)
	m := f.begin("one")
	vip := func(r *txmgr.Request) { r.Pool = "vip" }
	sent := m.submit(vip)
	m.reaches(sent, txmgr.StatusBroadcast)
	open.Store(false)
	assigned := m.submit(vip)
	m.reaches(assigned, txmgr.StatusAssigned)
	off := func(on bool) {
		t.Helper()
		if err := m.m.Kill(t.Context(), txmgr.PoolScope("pool", "vip"), "test", "a test", on); err != nil {
			t.Fatal(err)
		}
	}
	off(true)
	open.Store(true)
	m.reaches(assigned, txmgr.StatusAccepted)
	if _, err := m.m.Submit(t.Context(), request(vip)); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent for the pool: %v", err)
	}
	other := m.submit()
	m.mined(other, txmgr.StatusConfirmed) // the nonce before its own is not left open
	m.reaches(sent, txmgr.StatusConfirmed)
	if got := m.get(assigned); got.Status != txmgr.StatusAccepted || len(got.Attempts) != 0 {
		t.Errorf("while its pool is off, the intent is %s with %d attempts", got.Status, len(got.Attempts))
	}
	off(false)
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned, other)
}

// TestKillSwitchOfSigner turns a signer off: it signs nothing, another one serves what comes, and what
// it has sent is followed to its end.
func TestKillSwitchOfSigner(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	open := f.lockKeys()
	open.Store(true)
	m := f.begin("one")
	pin := func(r *txmgr.Request) { r.Pin = "alice.test" }
	sent := m.submit(pin)
	m.reaches(sent, txmgr.StatusBroadcast)
	open.Store(false)
	assigned := m.submit(pin)
	m.reaches(assigned, txmgr.StatusAssigned)
	scope := txmgr.SignerScope("pool", "alice.test")
	if err := m.m.Kill(t.Context(), scope, "test", "a test", true); err != nil {
		t.Fatal(err)
	}
	open.Store(true)
	if _, err := m.m.Submit(t.Context(), request(pin)); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent for the signer: %v", err)
	}
	other := m.submit()
	if got := m.mined(other, txmgr.StatusConfirmed); got.Signer != "bob.test" {
		t.Errorf("the signer that is off was used: %s", got.Signer)
	}
	m.reaches(sent, txmgr.StatusConfirmed)
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("the signer that is off has signed: the intent is %s", got.Status)
	}
	if err := m.m.Kill(t.Context(), scope, "test", "", false); err != nil {
		t.Fatal(err)
	}
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned, other)
}
