package eth

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

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
