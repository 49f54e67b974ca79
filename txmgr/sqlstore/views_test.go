package sqlstore_test

import (
	"testing"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// testViews reads the views that other programs may look at.
func testViews(t *testing.T, r *room) {
	r.sent()
	read := func(query ledger.SQL) string {
		t.Helper()
		var text string
		must.Do(r.t, r.db.Read(t.Context(), func(tx *ledger.Tx) error {
			_, err := tx.One(t.Context(), query, nil, &text)
			return err
		}))
		return text
	}
	for query, want := range map[ledger.SQL]string{
		"SELECT status FROM relayer_txs":                                                "broadcasted",
		"SELECT address || ' ' || next_nonce || ' ' || pending_count FROM relayer_keys": signer + " 1 1",
		"SELECT count(*) || '' FROM txidem":                                             "0",
	} {
		if got := read(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	const keys = "SELECT status || ' ' || outcome FROM txidem"
	keyed := func(want string) {
		t.Helper()
		if got := read(keys); got != want {
			t.Errorf("txidem: got %q, want %q", got, want)
		}
	}
	i := intent("a key", "x")
	r.accept(i)
	keyed("inflight accepted")
	r.assign(i)
	a := attempt(i, 1, 1, txmgr.PurposeIntent)
	r.commit(a)
	r.answer(a, "")
	r.mine(a, 9, false, false)
	keyed("failed mined")
	r.mine(a, 9, false, true)
	keyed("failed reverted")
	must.Get(r.Forget(t.Context(), 1<<62, 10))(r.t)
	keyed("failed reverted") // what is forgotten, too
}
