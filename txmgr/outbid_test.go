package txmgr_test

import (
	"strings"
	"testing"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// age makes all that was sent old enough to be raised.
func (f *fleet) age() {
	f.Helper()
	f.exec("UPDATE attempts SET signed_at = 1, sent_at = 1")
	f.exec("UPDATE slots SET sent_at = 1 WHERE sent_at > 0")
}

// TestForeignIsNotOutbid has somebody else's transaction take the place of ours in the pool. While it
// waits, nothing of ours is signed for its nonce and nothing pushes it out; when it is final the intent
// gets another nonce, when it is gone the intent goes on with its own.
func TestForeignIsNotOutbid(t *testing.T) {
	const account = "alice.test"
	cheap, dear := int64(1), int64(1_000_000)
	for name, row := range map[string]struct {
		lose     func(f *fleet) (hash string) // what is in the pool is lost to another one, whose hash is returned
		attempts int
		end      func(m *member, id string)
	}{
		"a cheaper one, which becomes final": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, cheap).hash() }, 1,
			func(m *member, id string) {
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"a dearer one, which is dropped": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, dear).hash() }, 1,
			func(m *member, id string) {
				m.drop(account, 0)
				m.until("ours is in the pool again", func() bool { return m.at(account, 0) != "" })
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 0 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"one that comes while a second version is on its way": {
			func(f *fleet) (hash string) {
				f.refusing(func(tx wireTx) *txmgr.SendError {
					if string(tx.Data) == "foreign" || f.waiting[account][0].hash() == tx.hash() {
						return nil
					}
					f.refuse = nil
					stranger := wireTx{From: account, To: account, Data: []byte("foreign"), Max: dear, Tip: dear}
					f.waiting[account][0] = stranger
					hash = stranger.hash()
					return &txmgr.SendError{Class: txmgr.ClassSlotTaken, Text: "replacement transaction underpriced"}
				})
				f.age()
				f.until("the other one came", func() bool { f.pool.mu.Lock(); defer f.pool.mu.Unlock(); return hash != "" })
				return hash
			}, 2,
			func(m *member, id string) {
				if got := m.mined(id, txmgr.StatusConfirmed); got.Nonce != 1 {
					m.Errorf("the intent was executed with nonce %d", got.Nonce)
				}
			},
		},
		"a cancel waits too": {
			func(f *fleet) string { defer f.age(); return f.foreign(account, 0, cheap).hash() }, 1,
			func(m *member, id string) {
				must.Get(m.m.Cancel(m.Context(), "", id))(m)
				m.asksOn()
				if got := m.get(id); len(got.Attempts) != 1 {
					m.Errorf("a cancel was signed for somebody else's nonce: %d attempts", len(got.Attempts))
				}
				m.mined(id, txmgr.StatusCancelled)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, account)
			m := f.begin("one")
			id := m.submit(func(r *txmgr.Request) { r.KeepTrying = true })
			m.reaches(id, txmgr.StatusBroadcast)
			foreign := row.lose(f)
			m.until("the intent says why it waits", func() bool { return strings.HasPrefix(m.get(id).Waiting, "slot_taken") })
			m.asksOn()
			if got := m.get(id); len(got.Attempts) != row.attempts || m.at(account, 0) != foreign {
				t.Errorf("there are %d attempts, not %d, and the pool has %s, not %s", len(got.Attempts), row.attempts, m.at(account, 0), foreign)
			}
			row.end(m, id)
		})
	}
}

// TestOwnPredecessorIsOutbid has a node that wants more of a replacement than others: what stands in
// the way is ours, so it is raised until the node takes it.
func TestOwnPredecessorIsOutbid(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	m := f.begin("one")
	id := m.submit()
	first := m.reaches(id, txmgr.StatusBroadcast).Attempts[0]
	m.refusing(func(tx wireTx) *txmgr.SendError {
		if old := m.waiting["alice.test"][0]; old.hash() != tx.hash() && tx.Max*2 < old.Max*3 {
			return &txmgr.SendError{Class: txmgr.ClassSlotTaken, Text: "replacement transaction underpriced"}
		}
		return nil
	})
	f.exec("UPDATE attempts SET signed_at = 1")
	m.until("a replacement is in the pool", func() bool { return m.at("alice.test", 0) != first.Hash })
	if got := m.mined(id, txmgr.StatusConfirmed); len(got.Attempts) < 3 || got.Nonce != 0 {
		t.Errorf("it was executed with nonce %d after %d attempts", got.Nonce, len(got.Attempts))
	}
	m.once(id)
}
