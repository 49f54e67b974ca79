package app_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
)

// A transaction with a type that names chain id 0 is executed, as legacy ones without a chain are: libraries make
// them when they are given a gas price only. With another chain's id it is refused.
func TestTypedTransactionsForAnyChainAreExecuted(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t)
	sender, to, one := w.account(t), common.Address{0x77, 2}, big.NewInt(1e10)
	for nonce, data := range []types.TxData{
		&types.AccessListTx{Nonce: 0, GasPrice: price, Gas: 1_000_000, To: &to, Value: one},
		&types.DynamicFeeTx{Nonce: 1, GasFeeCap: price, GasTipCap: new(big.Int), Gas: 1_000_000, To: &to, Value: one},
		&types.LegacyTx{Nonce: 2, GasPrice: price, Gas: 1_000_000, To: &to, Value: one},
	} {
		signer := types.Signer(eth.AnyChain{})
		if _, legacy := data.(*types.LegacyTx); legacy {
			signer = types.HomesteadSigner{}
		}
		tx := types.MustSignNewTx(sender.key, signer, data)
		var hash common.Hash
		if got := r.send(tx); got.Error != nil || json.Unmarshal(got.Result, &hash) != nil || hash != tx.Hash() {
			t.Fatalf("type %d: %s, not %s", tx.Type(), got, tx.Hash())
		}
		var receipt struct {
			Status, Type string
			From         common.Address
		}
		got := r.call("eth_getTransactionReceipt", tx.Hash())
		if err := json.Unmarshal(got.Result, &receipt); err != nil || receipt.Status != "0x1" || receipt.From != sender.address {
			t.Errorf("type %d, nonce %d: receipt %s", tx.Type(), nonce, got)
		}
	}
	if n := w.offered.Load(); n != 3 {
		t.Errorf("the node was offered %d transactions, want 3", n)
	}
	other := types.MustSignNewTx(sender.key, types.LatestSignerForChainID(big.NewInt(299)), &types.AccessListTx{
		ChainID: big.NewInt(299), Nonce: 3, GasPrice: price, Gas: 1_000_000, To: &to, Value: one,
	})
	if got := r.send(other); got.Error == nil || !strings.Contains(got.Error.Message, "ChainId") {
		t.Errorf("another chain's id: %s", got)
	}
}
