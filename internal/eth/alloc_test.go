//go:build !race

package eth

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// What decoding a raw transaction and recovering its sender may allocate: this comes before its place in line.
// Most is the signature's: the published binary has it in Go. The race detector allocates on its own.
func TestAllocationBudgets(t *testing.T) {
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	chain := big.NewInt(298)
	raw, err := types.MustSignNewTx(key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, GasFeeCap: big.NewInt(2e12), Gas: 30_000, To: &common.Address{1}, Value: big.NewInt(1e10),
	}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	const budget = 70
	got := testing.AllocsPerRun(100, func() {
		if _, err := DecodeTx(raw); err != nil {
			t.Fatal(err)
		}
	})
	if got > budget {
		t.Errorf("%v allocations, the budget is %d", got, budget)
	}
}
