package txm_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestReasonOfARevert: a transaction that failed on chain tells why, in the words of the errors that its caller declared.
func TestReasonOfARevert(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, nil)
	// Memory has the selector, 1 and 2, and REVERT returns them.
	selector := hex.EncodeToString(crypto.Keccak256([]byte("Short(uint256,uint256)"))[:4])
	chain.call("anvil_setCode", nil, reverting, "0x63"+selector+"60e01b60005260016004526002602452604460"+"00fd")
	sent := func(to, abi string) *txmgr.Transaction {
		id := c.must(func(r *txmgr.Request) {
			r.To, r.Data, r.Simulate, r.Gas, r.Calling = to, []byte{1}, "off", 100_000, &txmgr.Calling{ABI: json.RawMessage(abi)}
		}).ID
		return c.reaches(id, txmgr.StatusReverted)
	}
	named := sent(reverting, `["error Short(uint256 have,uint256 want)"]`)
	if named.Receipt.Reason != "Short(have=1, want=2)" || !strings.HasSuffix(named.Message, "failed: Short(have=1, want=2)") {
		t.Errorf("receipt %+v, error %+v", named.Receipt, named.Failure)
	}
	if n := c.count("SELECT count(*) FROM outbox WHERE subject = $1 AND kind = 'tx.reverted' AND body LIKE '%Short(have=1, want=2)%'", named.ID); n != 1 { // what webhooks and streams tell
		t.Errorf("%d events say why", n)
	}
	if raw := sent(reverting, `[]`); !strings.Contains(raw.Message, "0x"+selector) {
		t.Errorf("without a declaration: %+v", raw.Failure)
	}
	const endless = "0x52000000000000000000000000000000000bad02"
	chain.call("anvil_setCode", nil, endless, "0x5b600056")
	if out := sent(endless, ""); !strings.Contains(out.Message, "it used all of its gas, 100000") {
		t.Errorf("an endless loop: %+v", out.Failure)
	}
}

// TestDelegation: a transaction with an authorization (EIP-7702) makes an account run a contract's code, and the next call to the account
// is answered by that code. The manager pays; the account has signed its authorization only.
func TestDelegation(t *testing.T) {
	t.Parallel()
	c, chain := alone(t, nil, "--hardfork", "prague", "--mixed-mining", "--block-time", "1")
	// It returns 7 for whatever it is asked.
	contract := common.HexToAddress("0x5200000000000000000000000000000000007702")
	chain.call("anvil_setCode", nil, contract.Hex(), "0x600760005260206000f3")
	authority := must.Get(crypto.GenerateKey())(t)
	account := crypto.PubkeyToAddress(authority.PublicKey).Hex()
	signed := must.Get(types.SignSetCode(authority, types.SetCodeAuthorization{ChainID: *uint256.NewInt(31337), Address: contract}))(t)
	list := must.Get(json.Marshal([]types.SetCodeAuthorization{signed}))(t)
	sent := c.reaches(c.must(func(r *txmgr.Request) { r.To, r.Data, r.Extra = account, nil, txmgr.Extra{Authorizations: list} }).ID, txmgr.StatusConfirmed)
	var code, answer hexutil.Bytes
	chain.call("eth_getCode", &code, account, "latest")
	chain.call("eth_call", &answer, map[string]any{"to": account}, "latest")
	if want := append([]byte{0xef, 0x01, 0x00}, contract.Bytes()...); !bytes.Equal(code, want) || len(answer) != 32 || answer[31] != 7 {
		t.Errorf("the account has the code %s and answers %s", code, answer)
	}
	var tx struct {
		Type          hexutil.Uint64
		Authorization []json.RawMessage `json:"authorizationList"`
	}
	chain.call("eth_getTransactionByHash", &tx, sent.Hash)
	if tx.Type != types.SetCodeTxType || len(tx.Authorization) != 1 {
		t.Errorf("sent as %+v", tx)
	}
}
