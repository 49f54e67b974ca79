package txm_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/txmgr"
)

// TestReasonOfARevert: a transaction that failed on chain tells why, in the words of the errors that its caller declared.
func TestReasonOfARevert(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t)
	// Memory has the selector, 1 and 2, and REVERT returns them.
	selector := hex.EncodeToString(crypto.Keccak256([]byte("Short(uint256,uint256)"))[:4])
	chain.call("anvil_setCode", nil, reverting, "0x63"+selector+"60e01b60005260016004526002602452604460"+"00fd")
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 31337, URLs: []string{chain.url}, Keys: devKeys[:1], Instance: "node", Reconcile: time.Second,
	}
	c := newCaller(t, n)
	n.start(t)
	sent := func(to, abi string) *txmgr.Transaction {
		id := c.must(func(r *txmgr.Request) {
			r.To, r.Data, r.Simulate, r.Gas, r.Calling = to, []byte{1}, "off", 100_000, &txmgr.Calling{ABI: json.RawMessage(abi)}
		}).ID
		return c.reaches(id, txmgr.StatusReverted)
	}
	named := sent(reverting, `["error Short(uint256 have,uint256 want)"]`)
	if named.Receipt.Reason != "Short(have=1, want=2)" || !strings.HasSuffix(named.Error.Message, "failed: Short(have=1, want=2)") {
		t.Errorf("receipt %+v, error %+v", named.Receipt, named.Error)
	}
	if raw := sent(reverting, `[]`); !strings.Contains(raw.Error.Message, "0x"+selector) {
		t.Errorf("without a declaration: %+v", raw.Error)
	}
	const endless = "0x52000000000000000000000000000000000bad02"
	chain.call("anvil_setCode", nil, endless, "0x5b600056")
	if out := sent(endless, ""); !strings.Contains(out.Error.Message, "it used all of its gas, 100000") {
		t.Errorf("an endless loop: %+v", out.Error)
	}
}
