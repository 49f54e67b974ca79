package eth

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// Unproven makes a transaction of a sender that nobody has proved, for networks of
// development, which run such. Its signature is none, and its hash, over the sender too, is
// not that of its bytes: nobody can take it for one that was signed.
func Unproven(unsigned *types.Transaction, from common.Address) (*Tx, error) {
	var fields types.TxData
	v, r, s := new(big.Int), new(big.Int).SetBytes(from[:]), big.NewInt(1)
	switch unsigned.Type() {
	case types.LegacyTxType:
		fields = &types.LegacyTx{
			Nonce: unsigned.Nonce(), GasPrice: unsigned.GasPrice(), Gas: unsigned.Gas(), To: unsigned.To(), Value: unsigned.Value(), Data: unsigned.Data(),
			V: big.NewInt(27), R: r, S: s,
		}
	case types.DynamicFeeTxType:
		fields = &types.DynamicFeeTx{
			ChainID: unsigned.ChainId(), Nonce: unsigned.Nonce(), GasTipCap: unsigned.GasTipCap(), GasFeeCap: unsigned.GasFeeCap(), Gas: unsigned.Gas(),
			To: unsigned.To(), Value: unsigned.Value(), Data: unsigned.Data(), AccessList: unsigned.AccessList(), V: v, R: r, S: s,
		}
	default:
		return nil, ErrTransactionType(unsigned.Type())
	}
	signed := types.NewTx(fields)
	raw, err := signed.MarshalBinary()
	if err != nil {
		return nil, ErrInvalidArguments("%s", err)
	}
	tx := txOf(raw, signed, from)
	tx.hash = crypto.Keccak256Hash([]byte("unproven"), from[:], raw)
	return tx, nil
}
