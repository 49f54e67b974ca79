package e2e

import (
	"context"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/internal/must"
)

// TestEthclient uses go-ethereum's own client, whose decoders are the strictest
// of all, over HTTP and over WebSocket.
func TestEthclient(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	for i, transport := range []struct{ name, url string }{{"HTTP", n.RPC}, {"WebSocket", n.WS}} {
		t.Run(transport.name, func(t *testing.T) {
			t.Parallel()
			ethclientStory(t, dial(t, transport.url), n.Accounts[i])
		})
	}
}

func ethclientStory(t *testing.T, client *ethclient.Client, sender account) {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	chain, err := client.ChainID(ctx)
	if err != nil || chain.Int64() != chainID {
		t.Fatalf("chain id %v, %v", chain, err)
	}

	token := contract(t, "Token")
	parsed := token.parsed(t)
	arguments := must.Get(parsed.Pack("", "Lock", "LCK", big.NewInt(5000)))(t)
	created := mine(t, ctx, client, sender, nil, append(token.code(), arguments...))
	address := crypto.CreateAddress(sender.address(), created.nonce)
	expect(t, created.receipt.ContractAddress, address)

	to := common.HexToAddress("0x00000000000000000000000000000000000c0de1")
	transfer := must.Get(parsed.Pack("transfer", to, big.NewInt(42)))(t)
	moved := mine(t, ctx, client, sender, &address, transfer)

	query := ethereum.FilterQuery{FromBlock: created.receipt.BlockNumber, Addresses: []common.Address{address}}
	logs, err := client.FilterLogs(ctx, query)
	if err != nil || len(logs) != 2 {
		t.Fatalf("%d logs, %v; want those of the creation and of the transfer", len(logs), err)
	}
	expect(t, logs[1].TxHash, moved.receipt.TxHash)
	if !types.BloomLookup(moved.receipt.Bloom, address) {
		t.Error("the receipt's bloom does not hold the contract")
	}

	balance := must.Get(parsed.Pack("balanceOf", to))(t)
	result, err := client.CallContract(ctx, ethereum.CallMsg{To: &address, Data: balance}, nil)
	if err != nil || new(big.Int).SetBytes(result).Int64() != 42 {
		t.Errorf("balance %x, %v", result, err)
	}
	checkEthclientBatch(t, ctx, client, sender.address())
	checkOtherBlock(t, ctx, client, to)
}

// checkOtherBlock calls code that tells the number and the time of its block, with what
// go-ethereum's client makes of overrides.
func checkOtherBlock(t *testing.T, ctx context.Context, client *ethclient.Client, at common.Address) {
	t.Helper()
	code := map[common.Address]ethereum.OverrideAccount{at: {Code: common.FromHex(blockTelling)}}
	block := ethereum.BlockOverrides{Number: big.NewInt(77), Time: 88, Difficulty: new(big.Int)}
	var told hexutil.Bytes
	err := client.Client().CallContext(ctx, &told, "eth_call", map[string]any{"to": at}, "latest", &code, block)
	if err != nil || len(told) != 64 || told[31] != 77 || told[63] != 88 {
		t.Errorf("in another block: %x, %v", told, err)
	}
}

// blockTelling is code that returns the number of its block and its time.
const blockTelling = "0x436000524260205260406000f3"

func checkEthclientBatch(t *testing.T, ctx context.Context, client *ethclient.Client, owner common.Address) {
	t.Helper()
	var chain, nonce string
	batch := []rpc.BatchElem{
		{Method: "eth_chainId", Result: &chain},
		{Method: "eth_getTransactionCount", Args: []any{owner, "latest"}, Result: &nonce},
		{Method: "eth_noSuchMethod", Result: new(string)},
	}
	must.Do(t, client.Client().BatchCallContext(ctx, batch))
	if batch[0].Error != nil || batch[1].Error != nil || batch[2].Error == nil {
		t.Errorf("batch errors %v, %v, %v", batch[0].Error, batch[1].Error, batch[2].Error)
	}
	expect(t, chain, "0x12a")
	expect(t, nonce, "0x2")
}

// mined is a transaction with its receipt.
type mined struct {
	nonce   uint64
	receipt *types.Receipt
}

// mine estimates, signs, sends and waits, and fails unless it was executed.
func mine(t *testing.T, ctx context.Context, client *ethclient.Client, sender account, to *common.Address, data []byte) mined {
	t.Helper()
	nonce := must.Get(client.PendingNonceAt(ctx, sender.address()))(t)
	gas := must.Get(client.EstimateGas(ctx, ethereum.CallMsg{From: sender.address(), To: to, Data: data}))(t)
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	signer := types.LatestSignerForChainID(big.NewInt(chainID))
	transaction := must.Get(types.SignNewTx(sender.key(t), signer, &types.DynamicFeeTx{
		ChainID: big.NewInt(chainID), Nonce: nonce, GasTipCap: new(big.Int), GasFeeCap: price, Gas: gas, To: to, Data: data,
	}))(t)
	must.Do(t, client.SendTransaction(ctx, transaction))
	receipt := receiptOf(t, ctx, client, transaction.Hash())
	if receipt.Status != types.ReceiptStatusSuccessful {
		t.Fatalf("transaction %s failed", transaction.Hash())
	}
	return mined{nonce, receipt}
}

// receiptOf waits for a receipt.
func receiptOf(t *testing.T, ctx context.Context, client *ethclient.Client, hash common.Hash) *types.Receipt {
	t.Helper()
	var receipt *types.Receipt
	until(t, "receipt of "+hash.Hex(), func() bool {
		var err error
		receipt, err = client.TransactionReceipt(ctx, hash)
		return err == nil
	})
	return receipt
}
