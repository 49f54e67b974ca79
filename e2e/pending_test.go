package e2e

import (
	"context"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// pendingReport is what a client says of a transaction that is in no block yet.
type pendingReport struct {
	Hash    common.Hash `json:"hash"`
	Type    uint8       `json:"type"`
	Nonce   uint64      `json:"nonce"`
	InBlock bool        `json:"inBlock"`
}

// TestPending: a transaction that is held back for its predecessor is in the pool as the
// document says, and clients read it where the profile shows it to them.
func TestPending(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			pending(t, d.profile, startDev(t, []string{"RELAY_PROFILE=" + d.profile, ordering, holding, "TXPOOL_API_ENABLED=true"}))
		})
	}
}

func pending(t *testing.T, profile string, n *network) {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	client, sender := dial(t, n.RPC), n.Accounts[0]
	to := n.Accounts[1].address()
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	signed := func(nonce uint64) *types.Transaction {
		tx := must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
			ChainID: big.NewInt(chainID), Nonce: nonce, GasTipCap: new(big.Int), GasFeeCap: price, Gas: 21_000, To: &to,
		}))(t)
		return tx
	}
	held, first := signed(1), signed(0)
	sent := make(chan error, 1)
	go func() { sent <- client.SendTransaction(ctx, held) }()
	c := &conformance{t: t, network: n, document: discover(t, n.RPC)}
	hash := held.Hash().Hex()
	var status struct{ Pending, Queued string }
	until(t, "the transaction in the pool", func() bool {
		err := client.Client().CallContext(ctx, &status, "txpool_status")
		return err == nil && status.Pending+status.Queued != "0x00x0"
	})
	for _, one := range [][2]string{
		{"eth_getTransactionByHash", `["` + hash + `"]`},
		{"eth_getTransactionReceipt", `["` + hash + `"]`},
		{"txpool_content", `[]`},
		{"txpool_contentFrom", `["` + sender.Address + `"]`},
		{"txpool_status", `[]`},
	} {
		c.answered(c.document.Methods[slices.IndexFunc(c.document.Methods, func(m methodSchema) bool { return m.Name == one[0] })], one[1])
	}
	if profile == "ethereum" { // the other one shows it in the pool only
		readPending(t, ctx, n, held)
	}

	must.Do(t, client.SendTransaction(ctx, first))
	must.Do(t, <-sent)
	if receipt := receiptOf(t, ctx, client, held.Hash()); receipt.Status != 1 {
		t.Errorf("%+v", receipt)
	}
}

func readPending(t *testing.T, ctx context.Context, n *network, held *types.Transaction) {
	t.Helper()
	want := pendingReport{Hash: held.Hash(), Type: held.Type(), Nonce: held.Nonce()}
	for _, client := range []string{"ethers", "viem", "web3"} {
		var got pendingReport
		script(t, client, map[string]any{
			"task": "pending", "rpc": n.RPC, "chainId": chainID, "privateKey": n.Accounts[1].PrivateKey, "hash": held.Hash(),
		}, &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", client, diff)
		}
	}
	tx, waits := must.Get2(dial(t, n.RPC).TransactionByHash(ctx, held.Hash()))(t)
	if diff := cmp.Diff(want, pendingReport{tx.Hash(), tx.Type(), tx.Nonce(), !waits}); diff != "" {
		t.Errorf("go-ethereum (-want +got)\n%s", diff)
	}
}
