package app_test

import (
	"strings"
	"testing"
)

// A raw transaction of an account that a transaction manager sends from is refused with a
// hint and takes no nonce; the other accounts' go through.
func TestManagedAccountsAreRefused(t *testing.T) {
	w := newWorld(t)
	theirs, mine := w.account(t), w.account(t)
	relay := w.relay(t, "TXM_MANAGED_SIGNERS="+strings.ToLower(theirs.address.Hex()))
	got := relay.send(theirs.sign(theirs.pay(0)))
	if got.Error == nil || got.Error.Code != -32003 || !strings.Contains(got.Error.Message, "POST /v1/transactions") {
		t.Errorf("the answer to a managed account: %+v", got)
	}
	if n := relay.count(theirs, "pending"); n != 0 {
		t.Errorf("it has taken nonces: %d", n)
	}
	if got := relay.send(mine.sign(mine.pay(0))); got.Error != nil {
		t.Errorf("the answer to another account: %+v", got)
	}
}
