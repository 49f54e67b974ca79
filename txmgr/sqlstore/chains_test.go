package sqlstore_test

import (
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// testChain notes a chain's final block as the owners of several lanes do, each from what it has read: the
// block only rises, a halt stays, and a reset takes both away.
func testChain(t *testing.T, r *room) {
	is := func(want txmgr.ChainState) {
		t.Helper()
		got := must.Get(r.Chain(t.Context(), chain))(r.t)
		if got != want {
			t.Fatalf("the chain is %+v, want %+v", got, want)
		}
	}
	note := func(s txmgr.ChainState) { t.Helper(); must.Do(r.t, r.NoteChain(t.Context(), chain, s)) }
	is(txmgr.ChainState{})
	note(txmgr.ChainState{Identity: "first"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 4, FinalHash: "four"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "another five"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 5, FinalHash: "five", Halted: "it was reset"})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 6, FinalHash: "six"})
	is(txmgr.ChainState{Identity: "first", FinalNumber: 6, FinalHash: "six", Halted: "it was reset"})
	r.is(r.ResetChain(t.Context(), chain, "test", "second", 1), txmgr.ErrStale)
	must.Do(r.t, r.ResetChain(t.Context(), chain, "test", "second", 0))
	is(txmgr.ChainState{Identity: "second", Era: 1})
	note(txmgr.ChainState{Identity: "first", FinalNumber: 7, FinalHash: "seven"}) // of an owner who does not know yet
	is(txmgr.ChainState{Identity: "second", Era: 1})
}

// testHaltOfFirstUse: what an owner found of a lane that nobody knew yet does not undo an operator's
// word that came meanwhile; any other halt does.
func testHaltOfFirstUse(t *testing.T, r *room) {
	why := "somebody else sends"
	found := func(first bool) string {
		t.Helper()
		must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, txmgr.Observation{Halted: &why, FirstUse: first}))
		return r.lane().Halted
	}
	must.Do(r.t, r.db.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE signer_chains SET known = FALSE")
		return err
	}))
	if got := found(true); got != why {
		t.Fatalf("a lane that is not known is halted because %q", got)
	}
	must.Get(r.Reconcile(t.Context(), chain, signer, "test", 3, 3))(r.t)
	if got := found(true); got != "" {
		t.Errorf("after an operator's word the lane is halted because %q", got)
	}
	if got := found(false); got != why {
		t.Errorf("a halt of a known lane is %q", got)
	}
}

// testHaltOfALaneBehind: what an owner found of a lane whose nonce is behind the chain's does not undo an operator's
// word that came meanwhile.
func testHaltOfALaneBehind(t *testing.T, r *room) {
	why, ahead := "unknown transactions", uint64(5)
	found := func() string {
		t.Helper()
		must.Do(r.t, r.Observe(t.Context(), r.fence, chain, signer, txmgr.Observation{Halted: &why, Ahead: &ahead}))
		return r.lane().Halted
	}
	if got := found(); got != why {
		t.Fatalf("a lane that is behind is halted because %q", got)
	}
	must.Get(r.Reconcile(t.Context(), chain, signer, "test", ahead, ahead))(r.t)
	if got := found(); got != "" {
		t.Errorf("after an operator's word the lane is halted because %q", got)
	}
	ahead++ // another transaction that nobody knows
	if got := found(); got != why {
		t.Errorf("a lane that is behind again is halted because %q", got)
	}
}
