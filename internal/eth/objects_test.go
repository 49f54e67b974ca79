package eth

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
)

// What is not there is null or left out, as Ethereum's nodes have it.
func TestEmptyObjectsJSON(t *testing.T) {
	root := common.Hash{1}
	hashes, whole := &Block{}, &Block{}
	hashes.Show([]*Transaction{{Hash: root}}, false)
	whole.Show([]*Transaction{{Hash: root}}, true)
	for _, test := range []struct {
		object any
		want   map[string]string
		absent []string
	}{
		{&Receipt{Logs: []*Log{}}, map[string]string{"to": `null`, "contractAddress": `null`, "logs": `[]`, "status": `"0x0"`}, []string{"root", "revertReason"}},
		{&Receipt{Root: &root, RevertReason: []byte{}}, map[string]string{"root": `"` + root.Hex() + `"`, "revertReason": `"0x"`}, nil},
		{hashes, map[string]string{"transactions": `["` + root.Hex() + `"]`, "uncles": `[]`, "withdrawals": `[]`, "extraData": `"0x"`, "nonce": `"0x0000000000000000"`}, []string{"calls"}},
		{&Block{BaseFee: Number(nil), Calls: []int{}}, map[string]string{"baseFeePerGas": `"0x0"`, "calls": `[]`}, nil},
		{&Log{Topics: []common.Hash{}}, map[string]string{"topics": `[]`, "data": `"0x"`, "blockTimestamp": `"0x0"`, "removed": `false`}, nil},
		{
			&Transaction{},
			map[string]string{"blockHash": `null`, "blockNumber": `null`, "transactionIndex": `null`, "to": `null`, "input": `"0x"`},
			[]string{"chainId", "accessList", "maxFeePerGas", "maxPriorityFeePerGas", "yParity", "authorizationList"},
		},
		{
			&Transaction{AccessList: types.AccessList{}, Authorizations: []types.SetCodeAuthorization{}, YParity: Number(nil), MaxFee: Number(big.NewInt(298))},
			map[string]string{"accessList": `[]`, "authorizationList": `[]`, "yParity": `"0x0"`, "maxFeePerGas": `"0x12a"`},
			nil,
		},
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
	if raw := must.Get(json.Marshal(whole))(t); !bytes.Contains(raw, []byte(`"transactions":[{"blockHash":null`)) {
		t.Errorf("a block with its transactions: %s", raw)
	}
}

// What is rebuilt from its parts is the transaction that was sent.
func TestSignedIsTheOriginal(t *testing.T) {
	for name, data := range everyType() {
		original := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), data)
		v, r, s := original.RawSignatureValues()
		tx := Transaction{
			Type: hexutil.Uint64(original.Type()), ChainID: Number(original.ChainId()), To: original.To(), Nonce: hexutil.Uint64(original.Nonce()),
			Value: Number(original.Value()), Input: original.Data(), Gas: hexutil.Uint64(original.Gas()), GasPrice: Number(original.GasPrice()),
			MaxFee: Number(original.GasFeeCap()), MaxTip: Number(original.GasTipCap()), AccessList: original.AccessList(),
			Authorizations: original.SetCodeAuthorizations(), V: Number(v), R: Number(r), S: Number(s),
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

func TestBlockRef(t *testing.T) {
	hash := common.HexToHash("0x01")
	for want, ref := range map[string]BlockRef{
		"latest": {}, "pending": TagRef(TagPending), "safe": TagRef(TagSafe), "finalized": TagRef(TagFinalized),
		"earliest": TagRef(TagEarliest), "0x11": NumberRef(17), hash.Hex(): HashRef(hash),
	} {
		if ref.String() != want {
			t.Errorf("%s, want %s", ref, want)
		}
		parsed, ok := ParseBlockTag(want)
		_, numbered := ref.Number()
		_, hashed := ref.Hash()
		if ok == (numbered || hashed) || ok && parsed != ref {
			t.Errorf("%s parsed as %v, %v", want, parsed, ok)
		}
		if ref.IsLatest() == (numbered || hashed || ref == TagRef(TagEarliest)) {
			t.Errorf("%s: latest %v", want, ref.IsLatest())
		}
	}
}
