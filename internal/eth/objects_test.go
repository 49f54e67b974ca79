package eth

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
)

// A transaction that is not in a block yet says so with nulls.
func TestPendingTransactionJSON(t *testing.T) {
	tx := Transaction{Type: types.DynamicFeeTxType, ChainID: big.NewInt(298), Gas: 21000, MaxFee: big.NewInt(5), Value: big.NewInt(1 << 40)}
	raw, err := json.Marshal(&tx)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	must.Do(t, json.Unmarshal(raw, &members))
	for name, want := range map[string]any{
		"blockHash": nil, "blockNumber": nil, "transactionIndex": nil, "to": nil, "gas": "0x5208", "maxFeePerGas": "0x5", "maxPriorityFeePerGas": "0x0",
		"value": "0x10000000000", "input": "0x", "chainId": "0x12a", "yParity": "0x0", "from": "0x0000000000000000000000000000000000000000",
	} {
		if got, ok := members[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, ok := members["authorizationList"]; ok {
		t.Error("a list that the type does not have")
	}
	tx.ChainID, tx.Type = nil, types.LegacyTxType
	if raw, err = json.Marshal(&tx); err != nil || json.Unmarshal(raw, &members) != nil {
		t.Fatal(err)
	}
	var again map[string]any
	must.Do(t, json.Unmarshal(raw, &again))
	for _, name := range []string{"chainId", "accessList", "maxFeePerGas", "yParity"} {
		if _, ok := again[name]; ok {
			t.Errorf("a legacy transaction has %s", name)
		}
	}
}

// What is not there is null or left out, as Ethereum's nodes have it, and no list is null.
func TestEmptyObjectsJSON(t *testing.T) {
	root := common.Hash{1}
	for _, test := range []struct {
		object any
		want   map[string]string
		absent []string
	}{
		{&Receipt{}, map[string]string{"to": `null`, "contractAddress": `null`, "logs": `[]`, "effectiveGasPrice": `"0x0"`, "status": `"0x0"`}, []string{"root", "revertReason"}},
		{&Receipt{Root: &root, RevertReason: []byte{}}, map[string]string{"root": `"` + root.Hex() + `"`, "revertReason": `"0x"`}, nil},
		{&Block{}, map[string]string{"transactions": `[]`, "uncles": `[]`, "withdrawals": `[]`, "baseFeePerGas": `"0x0"`, "nonce": `"0x0000000000000000"`}, []string{"calls"}},
		{&Block{Transactions: []*Transaction{{Hash: root}}, Calls: []int{}}, map[string]string{"transactions": `["` + root.Hex() + `"]`, "calls": `[]`}, nil},
		{&Log{Topics: []common.Hash{}}, map[string]string{"topics": `[]`, "data": `"0x"`, "blockTimestamp": `"0x0"`, "removed": `false`}, nil},
		{&Transaction{Type: types.SetCodeTxType}, map[string]string{"accessList": `[]`, "authorizationList": `[]`, "gasPrice": `"0x0"`}, nil},
		{&Transaction{To: &testTo, Checksums: true}, map[string]string{"to": `"` + testTo.Hex() + `"`}, []string{"accessList"}},
	} {
		var got map[string]json.RawMessage
		must.Do(t, json.Unmarshal(must.Get(json.Marshal(test.object))(t), &got))
		for name, want := range test.want {
			if string(got[name]) != want {
				t.Errorf("%T: %s is %s, want %s", test.object, name, got[name], want)
			}
		}
		for _, name := range test.absent {
			if text, there := got[name]; there {
				t.Errorf("%T: %s is %s", test.object, name, text)
			}
		}
	}
}

// What is rebuilt from its parts is the transaction that was sent.
func TestSignedIsTheOriginal(t *testing.T) {
	for name, data := range everyType() {
		original := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), data)
		v, r, s := original.RawSignatureValues()
		tx := Transaction{
			Type: original.Type(), ChainID: original.ChainId(), To: original.To(), Nonce: original.Nonce(), Value: original.Value(), Input: original.Data(), Gas: original.Gas(),
			GasPrice: original.GasPrice(), MaxFee: original.GasFeeCap(), MaxTip: original.GasTipCap(), AccessList: original.AccessList(), V: v, R: r, S: s,
		}
		for _, a := range original.SetCodeAuthorizations() {
			tx.Authorizations = append(tx.Authorizations, Authorization{ChainID: a.ChainID.ToBig(), Address: a.Address, Nonce: a.Nonce, YParity: uint64(a.V), R: a.R.ToBig(), S: a.S.ToBig()})
		}
		raw, err := tx.Encoding()
		if err != nil {
			t.Fatal(name, err)
		}
		if want, _ := original.MarshalBinary(); string(raw) != string(want) {
			t.Errorf("%s: %x, want %x", name, raw, want)
		}
	}
	for _, tx := range []Transaction{{Type: types.BlobTxType}, {Type: 9}, {Type: types.SetCodeTxType}} {
		if _, err := tx.Encoding(); err == nil {
			t.Errorf("type %d is encoded", tx.Type)
		}
	}
}

func TestBloomOf(t *testing.T) {
	logs := []*Log{{Address: testTo, Topics: []common.Hash{{1}, {2}}}, {Address: testFrom}}
	judge := types.CreateBloom(&types.Receipt{Logs: []*types.Log{{Address: testTo, Topics: []common.Hash{{1}, {2}}}, {Address: testFrom}}})
	if got := BloomOf(logs); got != judge {
		t.Errorf("%x, want %x", got, judge)
	}
}
