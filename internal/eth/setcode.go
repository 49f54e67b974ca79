package eth

import (
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// looseSetCode is a type 4 transaction with room for what none may have: numbers of any
// size in its authorizations, and no receiver.
type looseSetCode struct {
	ChainID        *big.Int
	Nonce          uint64
	Tip, FeeCap    *big.Int
	Gas            uint64
	To             []byte
	Value          *big.Int
	Data           []byte
	AccessList     types.AccessList
	Authorizations []looseAuthorization
	V, R, S        *big.Int
}

type looseAuthorization struct {
	ChainID *big.Int
	Address common.Address
	Nonce   *big.Int
	V, R, S *big.Int
}

var maxUint256 = new(big.Int).Sub(new(big.Int).Lsh(common.Big1, 256), common.Big1)

// setCodeError says what is wrong with a type 4 transaction that did not decode, in the
// words that clients know for it; nil if it is none of that.
func setCodeError(raw []byte) *Error {
	var tx looseSetCode
	if len(raw) == 0 || raw[0] != types.SetCodeTxType || rlp.DecodeBytes(raw[1:], &tx) != nil {
		return nil
	}
	for _, a := range tx.Authorizations {
		if !a.Nonce.IsUint64() {
			return ErrInvalidParam("authorizationList", "authorization nonce '%d' exceeds uint64 maximum of %d", a.Nonce, uint64(math.MaxUint64))
		}
		if a.ChainID.Cmp(maxUint256) > 0 {
			return ErrInvalidParam("authorizationList", "authorization chainId '%d' exceeds uint256 maximum of %d", a.ChainID, maxUint256)
		}
	}
	if len(tx.To) == 0 {
		return ErrInvalidParam("to", "type 4 transaction cannot be used to create contract")
	}
	return nil
}
