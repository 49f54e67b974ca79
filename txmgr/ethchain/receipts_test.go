package ethchain

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

// TestConsumerByAuthorization: an authorization uses a nonce of the account that signed it, in somebody else's transaction.
func TestConsumerByAuthorization(t *testing.T) {
	account := must.Get(crypto.GenerateKey())(t)
	sender := must.Get(crypto.GenerateKey())(t)
	signer := types.LatestSignerForChainID(big.NewInt(5))
	carrying := func(nonce uint64) *types.Transaction {
		auth := must.Get(types.SignSetCode(account, types.SetCodeAuthorization{ChainID: *uint256.NewInt(5), Address: common.Address{9}, Nonce: nonce}))(t)
		return types.MustSignNewTx(sender, signer, &types.SetCodeTx{
			ChainID: uint256.NewInt(5), Nonce: nonce, GasTipCap: uint256.NewInt(1), GasFeeCap: uint256.NewInt(9), Gas: 50_000, AuthList: []types.SetCodeAuthorization{auth},
		})
	}
	const used = 3 // the block in which the account's nonce grows from 7 to 8
	before, carrier := carrying(6), carrying(7)
	shown := func(tx *types.Transaction) map[string]any {
		return map[string]any{
			"hash": tx.Hash(), "from": crypto.PubkeyToAddress(sender.PublicKey), "nonce": hexutil.Uint64(tx.Nonce()), "authorizationList": tx.SetCodeAuthorizations(),
		}
	}
	c := inLine(t, scripted(t, func(method string, params []any) (any, error) {
		switch method {
		case "eth_getBlockByNumber":
			if params[0] == "latest" {
				return map[string]any{"number": "0x8", "hash": common.Hash{8}, "timestamp": "0x1"}, nil
			}
			return map[string]any{"number": params[0], "hash": common.Hash{used}, "timestamp": "0x1", "transactions": []any{shown(before), shown(carrier)}}, nil
		case counting:
			if block, err := hexutil.DecodeUint64(fmt.Sprint(params[1])); err != nil || block < used {
				return "0x7", err
			}
			return "0x8", nil
		default:
			return nil, fmt.Errorf("the method %s is not known", method)
		}
	}))
	user, err := c.Consumer(t.Context(), crypto.PubkeyToAddress(account.PublicKey).Hex(), 7)
	if err != nil || user == nil || user.Hash != carrier.Hash().Hex() || user.Block != used {
		t.Fatalf("%+v, %v; want %s", user, err, carrier.Hash())
	}
}
