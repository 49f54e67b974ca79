package eth

import (
	"fmt"
	"math/big"

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
			Nonce: t.Nonce, GasPrice: whole(t.GasPrice), Gas: t.Gas, To: t.To, Value: whole(t.Value), Data: t.Input,
			V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.AccessListTxType:
		return types.NewTx(&types.AccessListTx{
			ChainID: t.signedChain(), Nonce: t.Nonce, GasPrice: whole(t.GasPrice), Gas: t.Gas, To: t.To, Value: whole(t.Value), Data: t.Input,
			AccessList: t.AccessList, V: whole(t.V), R: whole(t.R), S: whole(t.S),
		}), nil
	case types.DynamicFeeTxType:
		return types.NewTx(&types.DynamicFeeTx{
			ChainID: t.signedChain(), Nonce: t.Nonce, GasTipCap: whole(t.MaxTip), GasFeeCap: whole(t.MaxFee), Gas: t.Gas, To: t.To,
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
	list := make([]types.SetCodeAuthorization, len(t.Authorizations))
	for i, a := range t.Authorizations {
		list[i] = types.SetCodeAuthorization{
			ChainID: *word(a.ChainID), Address: a.Address, Nonce: a.Nonce, V: uint8(a.YParity), R: *word(a.R), S: *word(a.S),
		}
	}
	return types.NewTx(&types.SetCodeTx{
		ChainID: word(t.signedChain()), Nonce: t.Nonce, GasTipCap: word(t.MaxTip), GasFeeCap: word(t.MaxFee), Gas: t.Gas, To: *t.To,
		Value: word(t.Value), Data: t.Input, AccessList: t.AccessList, AuthList: list, V: word(t.V), R: word(t.R), S: word(t.S),
	}), nil
}

// signedChain is the chain id that the signature of a transaction with a type covers.
func (t *Transaction) signedChain() *big.Int {
	if t.AnyChain {
		return new(big.Int)
	}
	return whole(t.ChainID)
}

func whole(n *big.Int) *big.Int {
	if n == nil {
		return new(big.Int)
	}
	return n
}

// word cuts a number to 256 bits; none of these fields has more.
func word(n *big.Int) *uint256.Int {
	if n == nil {
		return new(uint256.Int)
	}
	w, _ := uint256.FromBig(n)
	return w
}
