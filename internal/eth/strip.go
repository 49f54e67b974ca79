package eth

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"
)

// WithoutData encodes the transaction again with its data field empty and all else, the
// signature included, as it was. This is the form in which the network takes a
// transaction whose call data is in a file. The hash stays that of the whole
// transaction: the network puts the data back before it looks at either.
//
// Types 0 to 2 without an access list have such a form; the others give an error.
func (t *Tx) WithoutData() ([]byte, error) {
	if t.accesses > 0 {
		return nil, fmt.Errorf("transaction %s has an access list and cannot keep its data elsewhere", t.hash)
	}
	f := t.Fields()
	v, r, s := f.RawSignatureValues()
	var bare types.TxData
	switch f.Type() {
	case types.LegacyTxType:
		bare = &types.LegacyTx{Nonce: f.Nonce(), GasPrice: f.GasPrice(), Gas: f.Gas(), To: f.To(), Value: f.Value(), V: v, R: r, S: s}
	case types.AccessListTxType:
		bare = &types.AccessListTx{
			ChainID: f.ChainId(), Nonce: f.Nonce(), GasPrice: f.GasPrice(), Gas: f.Gas(), To: f.To(), Value: f.Value(), V: v, R: r, S: s,
		}
	case types.DynamicFeeTxType:
		bare = &types.DynamicFeeTx{
			ChainID: f.ChainId(), Nonce: f.Nonce(), GasTipCap: f.GasTipCap(), GasFeeCap: f.GasFeeCap(), Gas: f.Gas(), To: f.To(),
			Value: f.Value(), V: v, R: r, S: s,
		}
	default:
		return nil, fmt.Errorf("transaction type %d cannot keep its data elsewhere", f.Type())
	}
	raw, err := types.NewTx(bare).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode transaction %s without its data: %w", t.hash, err)
	}
	return raw, nil
}
