package ethapi

import (
	"crypto/ecdsa"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/mirror"
)

// Who signed a transaction of any type is known from its record, and nobody is if the
// record does not hold what was signed.
func TestSigner(t *testing.T) {
	b := builder{chainID: big.NewInt(298)}
	key := must.Get(crypto.GenerateKey())(t)
	for i, r := range signedResults(key) {
		shown := b.transaction(r)
		if got, ok := signer(shown); !ok || got != crypto.PubkeyToAddress(key.PublicKey) {
			t.Errorf("transaction %d of type %d: %s, %v", i, shown.Type, got, ok)
		}
		shown.Nonce++
		if got, ok := signer(shown); ok {
			t.Errorf("transaction %d with another nonce: %s", i, got)
		}
	}
	for _, odd := range []*eth.Transaction{
		{},
		{Type: 2},
		{Type: 3},
		{Type: 4},
		{Type: 1, R: eth.Number(big.NewInt(1)), S: eth.Number(big.NewInt(1)), V: eth.Number(big.NewInt(1))},
		{R: eth.Number(big.NewInt(1)), S: eth.Number(big.NewInt(1)), V: eth.Number(big.NewInt(36))},
	} {
		if signed, err := odd.Signed(); err == nil {
			odd.Hash = signed.Hash() // as if the record were right
		}
		if got, ok := signer(odd); ok && got == (common.Address{}) {
			t.Errorf("%+v: %s", odd, got)
		}
	}
}

// signedResults are records of one signed transaction of each type.
func signedResults(key *ecdsa.PrivateKey) (all []*mirror.ContractResult) {
	to, chain := common.Address{7}, big.NewInt(298)
	for _, test := range []struct {
		signer types.Signer
		data   types.TxData
	}{
		{types.HomesteadSigner{}, &types.LegacyTx{Nonce: 1, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.LegacyTx{Nonce: 2, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.AccessListTx{ChainID: chain, Nonce: 3, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.DynamicFeeTx{ChainID: chain, Nonce: 4, GasFeeCap: big.NewInt(9), GasTipCap: big.NewInt(1), Gas: 21000, To: &to}},
	} {
		tx := types.MustSignNewTx(key, test.signer, test.data)
		v, r, s := tx.RawSignatureValues()
		kind, nonce := uint64(tx.Type()), tx.Nonce()
		result := &mirror.ContractResult{
			Hash: tx.Hash(), Type: &kind, Nonce: &nonce, GasLimit: tx.Gas(), To: tx.To(), GasPrice: tx.GasPrice(), V: v, R: r, S: s,
			MaxFee: tx.GasFeeCap(), MaxTip: tx.GasTipCap(),
		}
		if tx.Protected() {
			result.ChainID = tx.ChainId()
		}
		all = append(all, result)
	}
	return all
}
