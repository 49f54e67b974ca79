package eth

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

var (
	testKey  = mustKey("105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524")
	testFrom = common.HexToAddress("0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69")
	testTo   = common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	chain    = big.NewInt(298)
)

func mustKey(text string) *ecdsa.PrivateKey {
	key, err := crypto.HexToECDSA(text)
	if err != nil {
		panic(err)
	}
	return key
}

// everyType returns an unsigned transaction of each type the decoder knows.
func everyType() map[string]types.TxData {
	access := types.AccessList{{Address: testTo, StorageKeys: []common.Hash{{1}, {2}}}}
	return map[string]types.TxData{
		"legacy":     &types.LegacyTx{Nonce: 1, GasPrice: big.NewInt(71e10), Gas: 21000, To: &testTo, Value: big.NewInt(1e10)},
		"accessList": &types.AccessListTx{ChainID: chain, Nonce: 2, GasPrice: big.NewInt(71e10), Gas: 30000, To: &testTo, AccessList: access},
		"dynamicFee": &types.DynamicFeeTx{ChainID: chain, Nonce: 3, GasFeeCap: big.NewInt(71e10), GasTipCap: big.NewInt(1e10), Gas: 21000, Data: []byte{1, 0}},
		"setCode": &types.SetCodeTx{
			ChainID: uint256.MustFromBig(chain), Nonce: 4, GasFeeCap: uint256.NewInt(71e10), Gas: 100000, To: testTo,
			AuthList: []types.SetCodeAuthorization{{Address: testTo, Nonce: 1}},
		},
	}
}

func TestDecodeTxOfEveryType(t *testing.T) {
	for name, data := range everyType() {
		signed := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), data)
		raw := must.Get(signed.MarshalBinary())(t)
		tx, err := DecodeTx(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tx.From() != testFrom || tx.Hash() != signed.Hash() || tx.Hash() != crypto.Keccak256Hash(raw) {
			t.Errorf("%s: from %s, hash %s", name, tx.From(), tx.Hash())
		}
		if tx.ChainID().Cmp(chain) != 0 || !tx.Protected() || tx.GasPrice().Cmp(big.NewInt(71e10)) != 0 {
			t.Errorf("%s: chain %d, protected %v, price %d", name, tx.ChainID(), tx.Protected(), tx.GasPrice())
		}
		if tx.Type() != signed.Type() || tx.Nonce() != signed.Nonce() || tx.Gas() != signed.Gas() {
			t.Errorf("%s: type %d, nonce %d, gas %d", name, tx.Type(), tx.Nonce(), tx.Gas())
		}
	}
}

func TestDecodeUnprotectedLegacy(t *testing.T) {
	signed := types.MustSignNewTx(testKey, types.HomesteadSigner{}, &types.LegacyTx{Nonce: 9, GasPrice: big.NewInt(1), Gas: 21000, To: &testTo})
	raw, _ := signed.MarshalBinary()
	tx := must.Get(DecodeTx(raw))(t)
	if tx.From() != testFrom || tx.Protected() || tx.ChainID().Sign() != 0 {
		t.Errorf("from %s, protected %v, chain %d", tx.From(), tx.Protected(), tx.ChainID())
	}
}

// The network has no low-s rule, so a mirrored signature is as good as the original.
func TestDecodeAcceptsHighS(t *testing.T) {
	order := crypto.S256().Params().N
	signed := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), everyType()["dynamicFee"])
	v, r, s := signed.RawSignatureValues()
	mirrored := &types.DynamicFeeTx{
		ChainID: chain, Nonce: 3, GasFeeCap: big.NewInt(71e10), GasTipCap: big.NewInt(1e10), Gas: 21000, Data: []byte{1, 0},
		V: new(big.Int).Xor(v, big.NewInt(1)), R: r, S: new(big.Int).Sub(order, s),
	}
	raw := must.Get(types.NewTx(mirrored).MarshalBinary())(t)
	tx, err := DecodeTx(raw)
	if err != nil || tx.From() != testFrom {
		t.Fatalf("DecodeTx = %v, %v", tx, err)
	}
}

func TestDecodeTxErrors(t *testing.T) {
	signed := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), everyType()["legacy"])
	raw, _ := signed.MarshalBinary()
	unsigned, _ := types.NewTx(everyType()["dynamicFee"]).MarshalBinary()
	badV, _ := types.NewTx(&types.DynamicFeeTx{ChainID: chain, V: big.NewInt(7), R: big.NewInt(1), S: big.NewInt(1)}).MarshalBinary()
	noChain, _ := types.NewTx(&types.DynamicFeeTx{ChainID: new(big.Int), V: new(big.Int), R: big.NewInt(5), S: big.NewInt(1)}).MarshalBinary()
	legacyNoChain, _ := types.NewTx(&types.LegacyTx{V: big.NewInt(36), R: big.NewInt(1), S: big.NewInt(1)}).MarshalBinary()
	list, _ := rlp.EncodeToBytes([]uint{1, 2, 3})
	tests := map[string]struct {
		raw  []byte
		want string
	}{
		"empty":          {nil, "Invalid arguments: empty transaction"},
		"unknown type":   {[]byte{0x05, 0xc0}, "Invalid arguments: unsupported transaction type: 0x05"},
		"zero":           {[]byte{0x00}, "Invalid arguments: invalid transaction encoding"},
		"garbage":        {[]byte{0xff, 0xff}, "Invalid arguments: invalid transaction encoding"},
		"truncated":      {raw[:len(raw)-1], "Invalid arguments: invalid transaction encoding"},
		"trailing":       {append(append([]byte{}, raw...), 0), "Invalid arguments: unexpected junk after rlp payload"},
		"trailing type":  {append(append([]byte{}, unsigned...), 0), "Invalid arguments: unexpected junk after rlp payload"},
		"too few items":  {list, "Invalid arguments: invalid transaction encoding"},
		"unsigned":       {unsigned, "Invalid arguments: the transaction is not signed"},
		"no signature":   {noChain, "Invalid arguments: invalid signature"},
		"legacy chain 0": {legacyNoChain, "Invalid arguments: the signature covers chain id 0"},
		"bad parity":     {badV, "Invalid arguments: invalid signature"},
	}
	for name, test := range tests {
		_, err := DecodeTx(test.raw)
		var client *Error
		if !errors.As(err, &client) || client.ErrorCode() != CodeServerError || !strings.HasPrefix(client.Message, test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestCost(t *testing.T) {
	signed := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), everyType()["legacy"])
	raw, _ := signed.MarshalBinary()
	tx := must.Get(DecodeTx(raw))(t)
	want := new(big.Int).Add(big.NewInt(1e10), new(big.Int).Mul(big.NewInt(71e10), big.NewInt(21000)))
	if tx.Cost().Cmp(want) != 0 {
		t.Errorf("Cost = %d, want %d", tx.Cost(), want)
	}
}

func TestIntrinsicGas(t *testing.T) {
	to := &testTo
	tests := map[string]struct {
		data types.TxData
		want uint64
	}{
		"plain transfer": {&types.LegacyTx{To: to}, 21000},
		"zero bytes":     {&types.LegacyTx{To: to, Data: make([]byte, 10)}, 21100}, // the floor: 10 per token
		"other bytes":    {&types.LegacyTx{To: to, Data: []byte{1, 1}}, 21080},
		"creation":       {&types.LegacyTx{Data: make([]byte, 33)}, 21000 + 32000 + 4*33 + 2*2},
		"access list": {
			&types.AccessListTx{To: to, AccessList: types.AccessList{{StorageKeys: make([]common.Hash, 2)}}},
			21000 + 2400 + 2*1900,
		},
		"authorizations": {&types.SetCodeTx{AuthList: make([]types.SetCodeAuthorization, 2)}, 21000 + 2*25000},
	}
	for name, test := range tests {
		tx := types.NewTx(test.data)
		raw := must.Get(tx.MarshalBinary())(t)
		if got := IntrinsicGas(txOf(raw, tx, common.Address{})); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func FuzzDecodeTx(f *testing.F) {
	for _, data := range everyType() {
		raw, _ := types.MustSignNewTx(testKey, types.LatestSignerForChainID(chain), data).MarshalBinary()
		f.Add(raw)
	}
	noChain, _ := types.NewTx(&types.DynamicFeeTx{ChainID: new(big.Int), V: new(big.Int), R: big.NewInt(1), S: big.NewInt(1)}).MarshalBinary()
	f.Add(noChain)
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := DecodeTx(raw)
		if err != nil {
			return
		}
		again, err := tx.Fields().MarshalBinary()
		if err != nil || string(again) != string(raw) {
			t.Errorf("an accepted transaction is not canonical: %x became %x (%v)", raw, again, err)
		}
		if tx.Hash() != crypto.Keccak256Hash(raw) {
			t.Errorf("hash %s is not that of the bytes", tx.Hash())
		}
		IntrinsicGas(tx)
		tx.Cost()
	})
}

// A typed transaction that names chain id 0 is signed for any chain.
func TestTypedTransactionForChainZero(t *testing.T) {
	for name, data := range everyType() {
		if name == "legacy" {
			continue
		}
		raw := must.Get(types.MustSignNewTx(testKey, AnyChain{}, data).MarshalBinary())(t)
		tx, err := DecodeTx(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tx.From() != testFrom || tx.Protected() || tx.ChainID().Sign() != 0 || tx.Hash() != crypto.Keccak256Hash(raw) {
			t.Errorf("%s: from %s, protected %v, chain %d, hash %s", name, tx.From(), tx.Protected(), tx.ChainID(), tx.Hash())
		}
		if sender, err := (AnyChain{}).Sender(tx.Fields()); err != nil || sender != testFrom {
			t.Errorf("%s: %s, %v", name, sender, err)
		}
	}
}

// What ethers 6.17 makes of the key of these tests and no chain id.
const (
	accessListFromEthers = "01f89f800285a54f4c3c008275309405fba803be258049a27b820088bab1cad20588718080f838f79405fba803be258049a27b820088bab1cad2058871e1a0010101010101010101010101010101010101010101010101010101010101010180a01f8c071867ac95cba18dfbd9e52a4eeb009eb445735139aea6d667dcfa8431daa073ff66f4aa2f7d7cd25f201444384fd3993238faca5088a87e7192924c9dc2c5"
	dynamicFeeFromEthers = "02f87180038502540be40085a54f4c3c008252089405fba803be258049a27b820088bab1cad20588718502540be40080c080a062184722057b9262278fd755e670074ea1cc03dd6d8e75fdfa4e666fb0f142e5a024a078ab4792864337f913dc8e5d46121ff31185d5dbf0d7e629d61914d6109d"
)

func TestSenderForChainZeroIsTheSignerInEthers(t *testing.T) {
	for kind, signed := range map[uint8]string{
		types.AccessListTxType: accessListFromEthers,
		types.DynamicFeeTxType: dynamicFeeFromEthers,
	} {
		tx, err := DecodeTx(common.FromHex(signed))
		if err != nil || tx.Type() != kind || tx.From() != testFrom || tx.Protected() {
			t.Errorf("type %d: %+v, %v", kind, tx, err)
		}
	}
}

func TestSignersAreTold(t *testing.T) {
	if !(AnyChain{}).Equal(AnyChain{}) || (AnyChain{}).Equal(types.HomesteadSigner{}) {
		t.Error("equality")
	}
	if _, _, _, err := (AnyChain{}).SignatureValues(nil, make([]byte, 64)); err == nil {
		t.Error("a short signature")
	}
	setCode := types.NewTx(&types.SetCodeTx{ChainID: new(uint256.Int), Value: new(uint256.Int)})
	if signer, err := SignerOf(setCode); err != nil || signer.ChainID().Sign() != 0 {
		t.Errorf("%v, %v", signer, err)
	}
	if signer, err := SignerOf(types.NewTx(&types.DynamicFeeTx{ChainID: big.NewInt(298)})); err != nil || signer.ChainID().Int64() != 298 {
		t.Errorf("%v, %v", signer, err)
	}
}

// What makes a type 4 transaction undecodable is told in the words for it.
func TestSetCodeErrors(t *testing.T) {
	large := new(big.Int).Lsh(common.Big1, 64)
	larger := new(big.Int).Lsh(common.Big1, 256)
	const limit = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	for name, test := range map[string]struct {
		change func(*looseSetCode)
		code   int
		want   string // a prefix
	}{
		"nonce":    {func(tx *looseSetCode) { tx.Authorizations[1].Nonce = large }, CodeInvalidParams, "Invalid parameter authorizationList: authorization nonce '18446744073709551616' exceeds uint64 maximum of 18446744073709551615"},
		"chain id": {func(tx *looseSetCode) { tx.Authorizations[1].ChainID = larger }, CodeInvalidParams, "Invalid parameter authorizationList: authorization chainId '" + larger.String() + "' exceeds uint256 maximum of " + limit},
		"nonce comes first": {func(tx *looseSetCode) {
			tx.Authorizations[0].Nonce, tx.Authorizations[0].ChainID, tx.To = large, larger, nil
		}, CodeInvalidParams, "Invalid parameter authorizationList: authorization nonce"},
		"creation":             {func(tx *looseSetCode) { tx.To = nil }, CodeInvalidParams, "Invalid parameter to: type 4 transaction cannot be used to create contract"},
		"receiver of 19 bytes": {func(tx *looseSetCode) { tx.To = tx.To[1:] }, CodeServerError, "Invalid arguments: invalid transaction encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			zero := new(big.Int)
			tx := looseSetCode{ChainID: chain, Tip: zero, FeeCap: zero, To: testTo[:], Value: zero, V: zero, R: common.Big1, S: common.Big1}
			for range 2 {
				tx.Authorizations = append(tx.Authorizations, looseAuthorization{ChainID: chain, Nonce: zero, V: zero, R: common.Big1, S: common.Big1})
			}
			test.change(&tx)
			body, err := rlp.EncodeToBytes(&tx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeTx(append([]byte{4}, body...))
			var client *Error
			if !errors.As(err, &client) || client.Code != test.code || !strings.HasPrefix(client.Message, test.want) {
				t.Errorf("%v, want %d %s", err, test.code, test.want)
			}
		})
	}
}
