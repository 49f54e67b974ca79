package storetest

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/uuid"

	"lockstep/txmgr"
)

// signed is a transaction that its caller signed, under a key or none.
func signed(who, key string, nonce uint64) (*txmgr.Intent, txmgr.Attempt) {
	i := intent(key, "raw")
	i.Tenant, i.Kind, i.Signer, i.Nonce = who, txmgr.KindRaw, signer, nonce
	i.Hash = "0x" + uuid.NewString()
	i.BodyHash = i.Hash
	return i, txmgr.Attempt{
		Chain: chain, Signer: signer, Nonce: nonce, Hash: i.Hash, Intent: i.ID, Purpose: txmgr.PurposeRaw,
		Raw: []byte(i.Hash), Fees: txmgr.Fees{Max: big.NewInt(100), Tip: big.NewInt(1)}, Gas: 21000, State: txmgr.AttemptSigned,
	}
}

// testRawKey hands over the same bytes under keys: the key's own answer comes before what is known of
// the bytes, also when both calls have passed every check before the store's.
func testRawKey(t *testing.T, r *room) {
	again := func(i *txmgr.Intent, a txmgr.Attempt, key, body string) (*txmgr.Intent, error) {
		copied := *i
		copied.ID, copied.IdempotencyKey, copied.BodyHash = uuid.NewString(), key, body
		a.Intent = copied.ID
		return r.AcceptRaw(t.Context(), &copied, a, "")
	}
	first, a := signed(tenant, "first", 0)
	r.must(r.AcceptRaw(t.Context(), first, a, ""))
	second, b := signed(tenant, "second", 1)
	r.must(r.AcceptRaw(t.Context(), second, b, ""))
	got, err := again(first, a, "first", first.BodyHash)
	r.no(err)
	if got.ID != first.ID {
		t.Errorf("the same key and bytes got %s, not %s", got.ID, first.ID)
	}
	_, err = again(first, a, "second", first.BodyHash)
	r.is(err, txmgr.ErrIdempotency)
	for _, key := range []string{"", "third"} {
		got, err = again(first, a, key, first.BodyHash)
		r.is(err, txmgr.ErrDuplicate)
		if got.ID != first.ID {
			t.Errorf("the key %q: the duplicate is %s, not %s", key, got.ID, first.ID)
		}
	}
	_, err = r.ByKey(t.Context(), tenant, "third", "")
	r.is(err, txmgr.ErrNotFound)
	list, _, err := r.Find(t.Context(), txmgr.Query{})
	r.no(err)
	if len(list) != 2 {
		t.Errorf("%d intents are stored, not 2: %s", len(list), fmt.Sprint(list))
	}
}
