package eth

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

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
