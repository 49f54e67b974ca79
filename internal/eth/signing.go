package eth

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"
)

// SignerOf returns the signer that a transaction was signed with, as its fields tell.
func SignerOf(tx *types.Transaction) (types.Signer, error) {
	switch {
	case tx.Type() == types.LegacyTxType && !tx.Protected():
		return types.HomesteadSigner{}, nil
	case tx.ChainId().Sign() > 0:
		return types.LatestSignerForChainID(tx.ChainId()), nil
	case tx.Type() == types.LegacyTxType:
		return nil, errors.New("the signature covers chain id 0, which no chain has")
	}
	return AnyChain{}, nil
}

// AnyChain signs transactions of all types but legacy with chain id 0. The network takes
// them on any chain, as it does unprotected legacy ones; ethers makes them when it is
// given a gas price and no chain id. go-ethereum's signers know no chain 0.
type AnyChain struct{}

// ChainID returns 0.
func (AnyChain) ChainID() *big.Int { return new(big.Int) }

// Equal tells whether the other signer is of the same kind.
func (AnyChain) Equal(other types.Signer) bool {
	_, same := other.(AnyChain)
	return same
}

// Hash returns what is signed: the type and the fields with chain id 0.
func (AnyChain) Hash(tx *types.Transaction) common.Hash {
	fields := []any{new(big.Int), tx.Nonce()}
	if tx.Type() == types.AccessListTxType {
		fields = append(fields, tx.GasPrice())
	} else {
		fields = append(fields, tx.GasTipCap(), tx.GasFeeCap())
	}
	fields = append(fields, tx.Gas(), tx.To(), tx.Value(), tx.Data(), tx.AccessList())
	if tx.Type() == types.SetCodeTxType {
		fields = append(fields, tx.SetCodeAuthorizations())
	}
	body, err := rlp.EncodeToBytes(fields)
	if err != nil {
		panic("fields that were decoded do not encode: " + err.Error())
	}
	return crypto.Keccak256Hash([]byte{tx.Type()}, body)
}

// SignatureValues splits a signature of 65 bytes.
func (AnyChain) SignatureValues(_ *types.Transaction, signature []byte) (r, s, v *big.Int, err error) {
	if len(signature) != crypto.SignatureLength {
		return nil, nil, nil, types.ErrInvalidSig
	}
	number := func(b []byte) *big.Int { return new(big.Int).SetBytes(b) }
	return number(signature[:32]), number(signature[32:64]), number(signature[64:]), nil
}

// Sender recovers who signed.
func (AnyChain) Sender(tx *types.Transaction) (common.Address, error) { return recoverSender(tx) }

// Signed returns the transaction in go-ethereum's form. Its hash is the
// transaction's own unless the network kept less than was sent, such as a value's
// part below one tinybar.
func (t *Transaction) Signed() (*types.Transaction, error) {
	switch t.Type {
	case types.LegacyTxType:
		return types.NewTx(&types.LegacyTx{
			Nonce: uint64(t.Nonce), GasPrice: whole(t.GasPrice), Gas: uint64(t.Gas), To: t.To, Value: whole(t.Value), Data: t.Input,
			V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.AccessListTxType:
		return types.NewTx(&types.AccessListTx{
			ChainID: whole(t.signedChain()), Nonce: uint64(t.Nonce), GasPrice: whole(t.GasPrice), Gas: uint64(t.Gas), To: t.To, Value: whole(t.Value), Data: t.Input,
			AccessList: t.AccessList, V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.DynamicFeeTxType:
		return types.NewTx(&types.DynamicFeeTx{
			ChainID: whole(t.signedChain()), Nonce: uint64(t.Nonce), GasTipCap: whole(t.MaxTip), GasFeeCap: whole(t.MaxFee), Gas: uint64(t.Gas), To: t.To,
			Value: whole(t.Value), Data: t.Input, AccessList: t.AccessList, V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.SetCodeTxType:
		return t.setCode()
	}
	return nil, fmt.Errorf("transaction type %d", t.Type)
}

func (t *Transaction) setCode() (*types.Transaction, error) {
	if t.To == nil {
		return nil, fmt.Errorf("transaction type %d without a receiver", t.Type)
	}
	return types.NewTx(&types.SetCodeTx{
		ChainID: word(t.signedChain()), Nonce: uint64(t.Nonce), GasTipCap: word(t.MaxTip), GasFeeCap: word(t.MaxFee), Gas: uint64(t.Gas), To: *t.To,
		Value: word(t.Value), Data: t.Input, AccessList: t.AccessList, AuthList: t.Authorizations, V: word(t.V), R: word(t.R), S: word(t.S),
	}), nil
}

// signedChain is the chain id that the signature of a transaction with a type covers.
func (t *Transaction) signedChain() *hexutil.Big {
	if t.AnyChain {
		return nil
	}
	return t.ChainID
}

func whole(n *hexutil.Big) *big.Int { return Number(n.ToInt()).ToInt() }

// word cuts a number to 256 bits; none of these fields has more.
func word(n *hexutil.Big) *uint256.Int {
	w, _ := uint256.FromBig(whole(n))
	return w
}
