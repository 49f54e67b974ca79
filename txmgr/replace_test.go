package txmgr_test

import (
	"slices"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// replaced has a replacement take the place of a transaction, both of them signed.
func (m *member) replaced(old, other func(*txmgr.Request)) (oldID, otherID string) {
	m.Helper()
	oldID = m.submit(old)
	m.reaches(oldID, txmgr.StatusBroadcast)
	intent := must.Get(m.m.Replace(m.Context(), "", oldID, request(other)))(m)
	m.reaches(intent.ID, txmgr.StatusBroadcast)
	return oldID, intent.ID
}

func keepTrying(r *txmgr.Request) { r.KeepTrying = true }

// cancelled reports whether a cancel of an intent is in the pool.
func (m *member) cancelled(id string) bool {
	return slices.ContainsFunc(m.get(id).Attempts, func(a txmgr.Attempt) bool {
		return a.Purpose == txmgr.PurposeCancel && m.at(a.Signer, a.Nonce) == a.Hash
	})
}

// TestReplacementIsCancelled cancels a replacement that is on its way, by a call or since its time is
// over. Neither it nor what it replaced is executed.
func TestReplacementIsCancelled(t *testing.T) {
	for name, cancel := range map[string]func(m *member, id string){
		"by a call": func(m *member, id string) {
			intent := must.Get(m.m.Cancel(m.Context(), "", id))(m.T)
			if !intent.Cancel {
				m.Errorf("the answer is %+v", intent)
			}
		},
		"its time is over": func(m *member, id string) { m.exec("UPDATE intents SET valid_until = 1 WHERE id = $1", id) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			m := f.begin("one")
			old, other := m.replaced(keepTrying, keepTrying)
			m.asksOn()
			if got := m.get(other); len(got.Attempts) != 1 {
				t.Fatalf("before anybody wants a cancel it has %d attempts", len(got.Attempts))
			}
			cancel(m, other)
			m.until("the pool has a cancel", func() bool { return m.cancelled(other) })
			if got := m.mined(other, txmgr.StatusCancelled); got.Receipt == nil || got.Nonce != 0 {
				t.Errorf("it is cancelled by %+v", got.Receipt)
			}
			m.reaches(old, txmgr.StatusReplaced)
			for _, id := range []string{old, other} {
				if n := m.ran()[string(m.get(id).Data)]; n != 0 {
					t.Errorf("intent %s was executed %d times", id, n)
				}
			}
		})
	}
}

// TestReplacementKeepsTrying: a slot that has waited for long is cancelled only if all of its intents
// allow that.
func TestReplacementKeepsTrying(t *testing.T) {
	none := func(*txmgr.Request) {}
	for name, row := range map[string]struct {
		old, other func(*txmgr.Request)
		cancel     bool
	}{
		"both may be cancelled":   {none, none, true},
		"the first keeps trying":  {keepTrying, none, false},
		"the second keeps trying": {none, keepTrying, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			m := f.begin("one")
			old, other := m.replaced(row.old, row.other)
			f.exec("UPDATE slots SET sent_at = sent_at - $1", 2*f.settings.CancelAfter.Duration().Microseconds())
			if row.cancel {
				m.until("the pool has a cancel", func() bool { return m.cancelled(old) || m.cancelled(other) })
				return
			}
			m.asksOn()
			if m.cancelled(old) || m.cancelled(other) {
				t.Error("it was cancelled for its age")
			}
			m.mined(other, txmgr.StatusConfirmed)
			m.reaches(old, txmgr.StatusReplaced)
		})
	}
}

// TestReplacementExpires: the time of a replacement passes before its first signature. It is not signed
// any more, and what it should have replaced goes on.
func TestReplacementExpires(t *testing.T) {
	f := newFleet(t, "alice.test")
	open := f.lockKeys()
	open.Store(true)
	m := f.begin("one")
	old := m.submit(keepTrying)
	m.reaches(old, txmgr.StatusBroadcast)
	open.Store(false)
	other := must.Get(m.m.Replace(t.Context(), "", old, request()))(t)
	f.exec("UPDATE intents SET valid_until = 1 WHERE id = $1", other.ID)
	m.reaches(other.ID, txmgr.StatusExpired) // before the key is open: a round may have read the intent as it was
	open.Store(true)
	m.mined(old, txmgr.StatusConfirmed)
	if got := m.get(other.ID); !got.Final || got.Status != txmgr.StatusExpired || len(got.Attempts) != 0 {
		t.Errorf("it is %s with %d attempts", got.Status, len(got.Attempts))
	}
}
