package ethapi

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
)

type filled struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

// A transaction that is filled in, signed and sent is executed.
func TestFilledTransactionRuns(t *testing.T) {
	n := newNetwork(t, 0)
	n.dynamic(0, nil, 0, 500_000, initCode(counter))
	contract := common.HexToAddress("0x77000000000000000000000000000000000beef1")
	for i, request := range []string{
		fmt.Sprintf(`{"from":"%s","data":"0x%x"}`, n.sender, initCode(counter)),
		fmt.Sprintf(`{"from":"%s","to":"%s","value":"0xde0b6b3a7640000"}`, n.sender, contract),
		fmt.Sprintf(`{"from":"%s","to":"%s","input":"0x01","gasPrice":"0xba43b7400000"}`, n.sender, contract),
	} {
		var f filled
		unmarshal(t, n.call("eth_fillTransaction", `[`+request+`]`), &f)
		if f.Tx.Nonce() != uint64(i+1) || f.Tx.Gas() < 21_000 || f.Tx.GasFeeCap().Sign() == 0 {
			t.Errorf("%s: %s", request, n.call("eth_fillTransaction", `[`+request+`]`))
		}
		var decoded types.Transaction
		if err := decoded.UnmarshalBinary(f.Raw); err != nil || decoded.Hash() != f.Tx.Hash() {
			t.Errorf("%s: the encoding is of another transaction: %v", request, err)
		}
		signed := n.send(inner(f.Tx))
		if receipt := n.receipt(signed); receipt.Status != types.ReceiptStatusSuccessful {
			t.Errorf("%s: %+v", request, receipt)
		}
	}
}

// inner is what there is to sign of a transaction.
func inner(tx *types.Transaction) types.TxData {
	if tx.Type() == types.LegacyTxType {
		return &types.LegacyTx{Nonce: tx.Nonce(), GasPrice: tx.GasPrice(), Gas: tx.Gas(), To: tx.To(), Value: tx.Value(), Data: tx.Data()}
	}
	return &types.DynamicFeeTx{
		ChainID: tx.ChainId(), Nonce: tx.Nonce(), GasTipCap: tx.GasTipCap(), GasFeeCap: tx.GasFeeCap(),
		Gas: tx.Gas(), To: tx.To(), Value: tx.Value(), Data: tx.Data(), AccessList: tx.AccessList(),
	}
}

// What the client gave stays, and decides on the type; the price offered is a fifth
// above the network's 71 tinybars.
func TestFillTransaction(t *testing.T) {
	n := newNetwork(t, 0)
	const to = `"to":"0x77000000000000000000000000000000000beef1","gas":"0x5208","nonce":"0x7"`
	const authorization = `{"chainId":"0x12a","address":"0x77000000000000000000000000000000000beef1","nonce":"0x01","yParity":"0x1","r":"0x0a","s":"0x0b"}`
	for request, want := range map[string]string{
		`{` + to + `}`: "2 fee 860000000000 tip 0 value 0",
		`{` + to + `,"maxPriorityFeePerGas":"0x5"}`: "2 fee 860000000005 tip 5 value 0",
		`{` + to + `,"maxFeePerGas":"0x9"}`:         "2 fee 9 tip 0 value 0",
		`{` + to + `,"gasPrice":"0x9"}`:             "0 fee 9 tip 9 value 0",
		`{` + to + `,"gasPrice":"0x9","accessList":[{"address":"0x77000000000000000000000000000000000beef1","storageKeys":["0x1"]}]}`: "1 fee 9 tip 9 value 0",
		`{` + to + `,"value":"0x10","chainId":"0x12a","authorizationList":[` + authorization + `]}`:                                   "4 fee 860000000000 tip 0 value 16",
	} {
		var f filled
		unmarshal(t, n.call("eth_fillTransaction", `[`+request+`]`), &f)
		got := fmt.Sprintf("%d fee %d tip %d value %d", f.Tx.Type(), f.Tx.GasFeeCap(), f.Tx.GasTipCap(), f.Tx.Value())
		if got != want || f.Tx.Nonce() != 7 || f.Tx.Gas() != 21_000 || f.Tx.Protected() && f.Tx.ChainId().Cmp(big.NewInt(298)) != 0 {
			t.Errorf("%s\n got %s\nwant %s", request, got, want)
		}
		if len(f.Tx.SetCodeAuthorizations()) == 1 && f.Tx.SetCodeAuthorizations()[0].S.Uint64() != 11 {
			t.Errorf("authorization %+v", f.Tx.SetCodeAuthorizations()[0])
		}
	}
	for request, want := range map[string]string{
		`{"nonce":"0x1"}`: "-32000 Invalid arguments: contract creation without any data provided",
		`{` + to + `,"gasPrice":"0x1","maxFeePerGas":"0x1"}`:                        "-32000 Invalid arguments: both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
		`{` + to + `,"gasPrice":"0x0"}`:                                             "-32000 Invalid arguments: gasPrice must be non-zero",
		`{` + to + `,"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x2"}`:            "-32000 Invalid arguments: maxFeePerGas (1) < maxPriorityFeePerGas (2)",
		`{` + to + `,"maxPriorityFeePerGas":"0x` + strings.Repeat("f", 64) + `"}`:   "-32000 Invalid arguments: maxPriorityFeePerGas 115792089237316195423570985008687907853269984665640564039457584007913129639935 is too high",
		`{` + to + `,"chainId":"0x1"}`:                                              "-32000 invalid chain id for signer: have 1 want 298",
		`{` + to + `,"data":"0x01","input":"0x02"}`:                                 `-32000 Invalid arguments: both "data" and "input" are set and not equal; use "input"`,
		`{` + to + `,"blobVersionedHashes":[]}`:                                     "-32611 transaction type not supported: type 3",
		`{` + to + `,"gasPrice":"0x1","authorizationList":[` + authorization + `]}`: "-32000 Invalid arguments: both gasPrice and authorizationList specified",
	} {
		n.expect([3]string{"eth_fillTransaction", `[` + request + `]`, want})
	}
	if got := n.call("eth_fillTransaction", `[{"data":"0x60006000fd"}]`); got.Error == nil || got.Error.Code != eth.CodeReverted {
		t.Errorf("a creation that reverts: %s", got)
	}
}

// A receipt that comes in time is the answer; else the error has the hash; and a
// verdict is not waited for any longer.
func TestAwaitReceipt(t *testing.T) {
	n := newNetwork(t, 300*time.Millisecond)
	tx := n.dynamic(0, nil, 0, 500_000, initCode(counter))
	receipt, err := n.api.awaitReceipt(t.Context(), tx.Hash(), time.Minute)
	if r, ok := receipt.(*eth.Receipt); err != nil || !ok || r.TxHash != tx.Hash() || r.Status != 1 {
		t.Errorf("%+v %v", receipt, err)
	}
	unknown := common.Hash{1}
	_, err = n.api.awaitReceipt(t.Context(), unknown, 50*time.Millisecond)
	if client := forClient(err); client.Code != 4 || client.Data != unknown.Hex() {
		t.Errorf("%v", err)
	}
	refused := n.dynamic(9, &common.Address{1}, 1, 21_000, nil)
	_, err = n.api.awaitReceipt(t.Context(), refused.Hash(), time.Minute)
	if client := forClient(err); client.Code != eth.CodeRejected {
		t.Errorf("%v", err)
	}
}

// forClient is the error that a client sees, or an empty one.
func forClient(err error) *eth.Error {
	if client := (*eth.Error)(nil); errors.As(err, &client) {
		return client
	}
	return new(eth.Error)
}

func TestSyncWait(t *testing.T) {
	c := SyncConfig{Default: envx.Millis(20 * time.Second), Max: envx.Millis(time.Minute)}
	for asked, want := range map[uint64]time.Duration{0: 20 * time.Second, 5: 5 * time.Millisecond, 60_000: time.Minute, 1 << 63: time.Minute} {
		if got := c.wait(asked); got != want {
			t.Errorf("%d: %v, want %v", asked, got, want)
		}
	}
}
