package ethtx_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethtx"
)

// TestTypes: what a request names besides the usual decides the type of its transaction, and is in it.
func TestTypes(t *testing.T) {
	key := must.Get(crypto.HexToECDSA(strings.Repeat("17", 32)))(t)
	form := ethtx.Form{ChainID: 5}
	delegation := must.Get(types.SignSetCode(key, types.SetCodeAuthorization{ChainID: *uint256.NewInt(5), Address: common.Address{9}, Nonce: 3}))(t)
	delegations := must.Get(json.Marshal([]types.SetCodeAuthorization{delegation}))(t)
	accesses := json.RawMessage(`[{"address":"0x00000000000000000000000000000000000000aa","storageKeys":["0x0000000000000000000000000000000000000000000000000000000000000001"]}]`)
	for name, c := range map[string]struct {
		extra txmgr.Extra
		tip   *big.Int
		want  uint8
	}{
		"a market with a base fee":    {tip: big.NewInt(1), want: types.DynamicFeeTxType},
		"one price":                   {want: types.LegacyTxType},
		"an access list":              {extra: txmgr.Extra{AccessList: accesses}, tip: big.NewInt(1), want: types.DynamicFeeTxType},
		"an access list at one price": {extra: txmgr.Extra{AccessList: accesses}, want: types.AccessListTxType},
		"a delegation":                {extra: txmgr.Extra{AccessList: accesses, Authorizations: delegations}, tip: big.NewInt(1), want: types.SetCodeTxType},
	} {
		to := "0x00000000000000000000000000000000000000bb"
		if err := form.Check(txmgr.Call{To: to, Extra: c.extra}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		u, err := form.Prepare(t.Context(), txmgr.Draft{
			Signer: strings.ToLower(crypto.PubkeyToAddress(key.PublicKey).Hex()), Nonce: 7, Fees: txmgr.Fees{Max: big.NewInt(9), Tip: c.tip},
			Call: txmgr.Call{To: to, Value: big.NewInt(4), Gas: 90_000, Extra: c.extra},
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signature := must.Get(crypto.Sign(crypto.Keccak256(u.Bytes), key))(t)
		signed, err := form.Seal(u, signature)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var tx types.Transaction
		if err := tx.UnmarshalBinary(signed.Raw); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tx.Type() != c.want || tx.Value().Int64() != 4 || tx.GasFeeCap().Int64() != 9 || len(tx.AccessList()) != min(len(c.extra.AccessList), 1) || len(tx.SetCodeAuthorizations()) != min(len(c.extra.Authorizations), 1) {
			t.Errorf("%s: %+v", name, &tx)
		}
	}
	const to = "0x00000000000000000000000000000000000000bb"
	for name, c := range map[string]struct {
		to    string
		extra txmgr.Extra
		want  string
	}{
		"no list":              {to, txmgr.Extra{AccessList: json.RawMessage(`{}`)}, "accessList: want a list"},
		"a deployment":         {"", txmgr.Extra{Authorizations: delegations}, "authorizationList: its transaction needs a receiver"},
		"none":                 {to, txmgr.Extra{Authorizations: json.RawMessage(`[]`)}, "authorizationList: want a list"},
		"a delegation's price": {to, txmgr.Extra{Authorizations: delegations, OnePrice: true}, "gasPrice: "},
		"another chain's":      {to, txmgr.Extra{Authorizations: json.RawMessage(strings.Replace(string(delegations), `"chainId":"0x5"`, `"chainId":"0x6"`, 1))}, "authorizationList: signed for chain 6"},
	} {
		if err := form.Check(txmgr.Call{To: c.to, Extra: c.extra}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGasThatIsTooLittle: gas that does not cover what any transaction with this data costs before it runs is refused, whoever signs: some nodes take
// such a transaction, and forget it.
func TestGasThatIsTooLittle(t *testing.T) {
	const to = "0x00000000000000000000000000000000000000bb"
	list := json.RawMessage(`[{"address":"0x00000000000000000000000000000000000000aa","storageKeys":["0x0000000000000000000000000000000000000000000000000000000000000001"]}]`)
	form := ethtx.Form{ChainID: 5}
	for name, c := range map[string]struct {
		call  txmgr.Call
		least uint64
	}{
		"a payment":      {txmgr.Call{To: to}, 21_000},
		"data":           {txmgr.Call{To: to, Data: []byte{0, 1}}, 21_020},
		"a deployment":   {txmgr.Call{Data: []byte{1}}, 53_018},
		"an access list": {txmgr.Call{To: to, Extra: txmgr.Extra{AccessList: list}}, 25_300},
	} {
		for gas, ok := range map[uint64]bool{0: true, c.least: true, c.least - 1: false} { // 0: it is estimated
			c.call.Gas = gas
			if err := form.Check(c.call); (err == nil) != ok || !ok && !strings.Contains(err.Error(), fmt.Sprintf("gas: want at least %d", c.least)) {
				t.Errorf("%s with gas %d: %v", name, gas, err)
			}
		}
	}
	key := must.Get(crypto.GenerateKey())(t)
	raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(5)), &types.LegacyTx{Gas: 21_015, To: &common.Address{7}, Data: []byte{1}, GasPrice: big.NewInt(1)}).MarshalBinary())(t)
	if _, err := form.Decode(raw); err == nil || !strings.Contains(err.Error(), "want at least 21016") {
		t.Errorf("what a caller has signed: %v", err)
	}
}

// TestReason: what a contract returned is told in its own words, with the errors that were declared.
func TestReason(t *testing.T) {
	word := func(n int64) string { return hexutil.Encode(common.LeftPadBytes(big.NewInt(n).Bytes(), 32))[2:] }
	_, declared, err := ethtx.Form{}.Encode(txmgr.Calling{ABI: json.RawMessage(`[{"type":"error","name":"Short","inputs":[{"name":"have","type":"uint256"},{"name":"want","type":"uint256"}]}]`)})
	if err != nil || len(declared) != 1 {
		t.Fatal(declared, err)
	}
	short := hexutil.Encode(crypto.Keccak256([]byte("Short(uint256,uint256)"))[:4])
	for output, want := range map[string]string{
		"0x":                      "",
		short + word(1) + word(2): "Short(have=1, want=2)",
		"0x08c379a0" + word(32) + word(2) + "6e6f" + strings.Repeat("00", 30): "no",
		"0x4e487b71" + word(0x11): "arithmetic underflow or overflow",
		"0x01020304" + word(1):    "an error that no abi declares: 0x01020304" + word(1),
		short + word(1):           "an error that no abi declares: " + short + word(1),
		"0x01":                    "0x01",
	} {
		if got := (ethtx.Form{}).Reason(hexutil.MustDecode(output), declared); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", output, got, want)
		}
	}
	_, declared, err = ethtx.Form{}.Encode(txmgr.Calling{ABI: json.RawMessage(`["error Short(uint256 have, uint256 want)","event E()","function f(bool)"]`)})
	if err != nil || len(declared) != 1 || declared[0] != "Short(uint256 have,uint256 want)" {
		t.Errorf("as texts: %q, %v", declared, err)
	}
}
