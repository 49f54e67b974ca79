package eth_test

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/must"
)

// Everything but the data survives, byte for byte, and putting the data back gives the
// transaction that was signed.
func TestWithoutData(t *testing.T) {
	key := must.Get(crypto.GenerateKey())(t)
	id, to, data := big.NewInt(298), common.Address{7}, bytes.Repeat([]byte{0xab}, 6000)
	list := types.AccessList{{Address: to}}
	tests := map[string]struct {
		tx types.TxData
		ok bool
	}{
		"legacy":                     {&types.LegacyTx{Nonce: 3, GasPrice: big.NewInt(9), Gas: 1e6, To: &to, Value: big.NewInt(5), Data: data}, true},
		"legacy creation":            {&types.LegacyTx{Nonce: 3, GasPrice: big.NewInt(9), Gas: 1e6, Data: data}, true},
		"type 1":                     {&types.AccessListTx{ChainID: id, Nonce: 3, GasPrice: big.NewInt(9), Gas: 1e6, To: &to, Data: data}, true},
		"type 1 with an access list": {&types.AccessListTx{ChainID: id, GasPrice: big.NewInt(9), To: &to, Data: data, AccessList: list}, false},
		"type 2": {
			&types.DynamicFeeTx{ChainID: id, Nonce: 3, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(9), Gas: 1e6, To: &to, Value: big.NewInt(5), Data: data}, true,
		},
		"type 4": {
			&types.SetCodeTx{ChainID: uint256.NewInt(298), To: to, Data: data, AuthList: []types.SetCodeAuthorization{{Address: to}}}, false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(id), test.tx).MarshalBinary())(t)
			whole := must.Get(eth.DecodeTx(raw))(t)
			bare, err := whole.WithoutData()
			if (err == nil) != test.ok {
				t.Fatalf("error %v", err)
			}
			if !test.ok {
				return
			}
			got := new(types.Transaction)
			must.Do(t, got.UnmarshalBinary(bare))
			if len(got.Data()) != 0 {
				t.Errorf("%d bytes of data are left", len(got.Data()))
			}
			want, have := whole.Fields(), got
			wv, wr, ws := want.RawSignatureValues()
			v, r, s := have.RawSignatureValues()
			if wv.Cmp(v) != 0 || wr.Cmp(r) != 0 || ws.Cmp(s) != 0 {
				t.Error("the signature changed")
			}
			if want.Nonce() != have.Nonce() || want.Gas() != have.Gas() || want.GasFeeCap().Cmp(have.GasFeeCap()) != 0 ||
				want.GasTipCap().Cmp(have.GasTipCap()) != 0 || want.Value().Cmp(have.Value()) != 0 || want.Type() != have.Type() ||
				(want.To() == nil) != (have.To() == nil) || want.ChainId().Cmp(have.ChainId()) != 0 {
				t.Error("a field changed")
			}
			if len(raw)-len(bare) < len(data) {
				t.Errorf("%d bytes became %d", len(raw), len(bare))
			}
		})
	}
}
