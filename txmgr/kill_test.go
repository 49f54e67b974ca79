package txmgr_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestKillSwitchOfPool turns a pool off when one of its transactions is sent, and another one has a
// nonce and no signature: the first is followed to its end, the second gives its nonce to others.
func TestKillSwitchOfPool(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) { o.Pools = map[string][]string{"vip": {"alice.test"}} }
	vip := func(r *txmgr.Request) { r.Pool = "vip" }
	m, sent, assigned, open := signedAndAssigned(f, vip)
	off := func(on bool) {
		t.Helper()
		must.Do(t, m.m.Kill(t.Context(), txmgr.PoolScope("pool", "vip"), "test", "a test", on))
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
	pin := func(r *txmgr.Request) { r.Pin = "alice.test" }
	m, sent, assigned, open := signedAndAssigned(f, pin)
	scope := txmgr.SignerScope("pool", "alice.test")
	must.Do(t, m.m.Kill(t.Context(), scope, "test", "a test", true))
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
	must.Do(t, m.m.Kill(t.Context(), scope, "test", "", false))
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned, other)
}

// signedAndAssigned has one intent that is sent, and one with a nonce and no signature, whose key is locked.
func signedAndAssigned(f *fleet, change ...func(*txmgr.Request)) (m *member, sent, assigned string, open *atomic.Bool) {
	f.Helper()
	open = f.lockKeys()
	open.Store(true)
	m = f.begin("one")
	sent = m.submit(change...)
	m.reaches(sent, txmgr.StatusBroadcast)
	open.Store(false)
	assigned = m.submit(change...)
	m.reaches(assigned, txmgr.StatusAssigned)
	return m, sent, assigned, open
}

// TestKillSwitchOfAll turns everything off: nothing is accepted or signed, what is sent is followed to its end, and all goes on
// afterwards.
func TestKillSwitchOfAll(t *testing.T) {
	f := newFleet(t, "alice.test")
	m, sent, assigned, open := signedAndAssigned(f)
	off := func(on bool) {
		t.Helper()
		must.Do(t, m.m.Kill(t.Context(), txmgr.ScopeAll, "test", "a test", on))
	}
	off(true)
	open.Store(true)
	if _, err := m.m.Submit(t.Context(), request()); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent: %v", err)
	}
	if _, err := m.m.Acquire(t.Context(), "", "pool", "alice.test"); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("a reservation: %v", err)
	}
	m.mined(sent, txmgr.StatusConfirmed)
	m.asksOn()
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("while all is off, something was signed: the intent is %s", got.Status)
	}
	m.until("it says why", func() bool { return m.get(assigned).Waiting == "killed: the kill switch is on" })
	off(false)
	if got := m.mined(assigned, txmgr.StatusConfirmed); got.Waiting != "" {
		t.Errorf("it is executed, and waits: %s", got.Waiting)
	}
	m.once(sent, assigned)
}

// TestTimePassesWhileSignersAreOff: what may not be executed any more ends, also while the only signer may sign nothing: an intent of the
// queue, one that has a nonce, and one whose predecessor has failed.
func TestTimePassesWhileSignersAreOff(t *testing.T) {
	f := newFleet(t, "alice.test")
	_ = f.lockKeys()
	m := f.begin("one")
	soon := func(r *txmgr.Request) { r.ValidUntil = time.Now().Add(5 * time.Second).UnixMicro() }
	assigned := m.submit(soon)
	must.Do(t, m.m.Kill(t.Context(), txmgr.SignerScope("pool", "alice.test"), "test", "a test", true))
	queued := m.submit(soon, func(r *txmgr.Request) { r.OrderKey = "a" })
	follower := m.submit(func(r *txmgr.Request) { r.OrderKey, r.OnFailure = "a", txmgr.OnFailureStop })
	m.reaches(assigned, txmgr.StatusExpired)
	m.reaches(queued, txmgr.StatusExpired)
	m.reaches(follower, txmgr.StatusCancelled)
}

// TestDisabled: with RELAYER_ENABLED=false a manager refuses intents and signs nothing; what is signed it follows to its end.
func TestDisabled(t *testing.T) {
	f := newFleet(t, "alice.test")
	m, sent, assigned, open := signedAndAssigned(f)
	m.stop()
	open.Store(true)
	f.settings.Enabled = false
	m = f.begin("one")
	if _, err := m.m.Submit(t.Context(), request()); !errors.Is(err, txmgr.ErrKilled) {
		t.Errorf("an intent: %v", err)
	}
	m.mined(sent, txmgr.StatusConfirmed)
	m.asksOn()
	if got := m.get(assigned); len(got.Attempts) != 0 {
		t.Errorf("a manager that is not enabled has signed: the intent is %s", got.Status)
	}
	m.stop()
	f.settings.Enabled = true
	m = f.begin("one")
	m.mined(assigned, txmgr.StatusConfirmed)
	m.once(sent, assigned)
}

// TestWaitingSaysWhy: an intent whose only signers are halted or off says so, also while none of their owners may sign, and no
// longer when one of them works.
func TestWaitingSaysWhy(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	says := func(id, want string) {
		t.Helper()
		m.until(id+" says "+want, func() bool { return m.get(id).Waiting == want })
	}
	f.exec("UPDATE signer_chains SET halted = 'a test' WHERE signer = 'alice.test'")
	must.Do(t, operated("bob.test", txmgr.Operation{Enabled: new(false), Reason: "rest"})(m))
	free, pinned := m.submit(), m.submit(func(r *txmgr.Request) { r.Pin = "alice.test" })
	says(free, "halted: a test; paused: rest")
	says(pinned, "halted: a test")
	f.exec("UPDATE signer_chains SET halted = 'another' WHERE signer = 'bob.test'")
	says(free, "halted: a test; halted: another")
	m.until("the intent is not written again, since nothing changes", func() bool {
		before := m.get(free).Updated
		m.asksOn()
		return m.get(free).Updated == before
	})
	says(free, "halted: a test; halted: another")
	f.exec("UPDATE signer_chains SET halted = ''")
	if got := m.mined(pinned, txmgr.StatusConfirmed); got.Waiting != "" {
		t.Errorf("it is executed, and waits: %s", got.Waiting)
	}
	m.mined(free, txmgr.StatusConfirmed)
}
