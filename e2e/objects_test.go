package e2e

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

// objectReport is what a client says of a transaction that it read in every way there
// is.
type objectReport struct {
	Hash        common.Hash     `json:"hash"`
	Type        uint8           `json:"type"`
	ReceiptType uint8           `json:"receiptType"`
	To          *common.Address `json:"to"`
	Nonce       uint64          `json:"nonce"`
	Status      uint64          `json:"status"`
	Created     *common.Address `json:"created"`
	InBlock     bool            `json:"inBlock"`
	ByIndex     common.Hash     `json:"byIndex"`
	Logs        int             `json:"logs"`
	Listed      int             `json:"listed"`     // addresses of its access list
	Authorized  *common.Address `json:"authorized"` // to run for the first of its authorities
}

// TestObjects has every client read a transaction of every type that the network takes,
// a creation, a failure and one with a log, with its receipt, its block and its logs.
func TestObjects(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, []string{"RELAY_PROFILE=" + d.profile, "DEBUG_API_ENABLED=true", "TX_TYPE_4_ENABLED=true"}, "--set-code")
			objects(t, n, d)
		})
	}
}

func objects(t *testing.T, n *network, d dialect) {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	client := dial(t, n.RPC)
	txs, loud := everyType(t, ctx, n)
	authority := n.Accounts[1].address()
	called := objectReport{To: &loud, Status: 1, Logs: 1}
	listing := called
	listing.Listed = 1
	want := []objectReport{{Status: 1, Created: &loud}, called, listing, called, {}, {To: &authority, Status: 1, Logs: 1, Authorized: &loud}}
	var hashes []string
	for i, tx := range txs {
		receipt, err := client.SendTransactionSync(ctx, tx, nil)
		if err != nil || receipt.TxHash != tx.Hash() || receipt.Status != want[i].Status {
			t.Fatalf("%d: %+v %v", i, receipt, err)
		}
		hashes = append(hashes, tx.Hash().Hex())
		want[i].Hash, want[i].ByIndex, want[i].InBlock = tx.Hash(), tx.Hash(), true
		want[i].Type, want[i].ReceiptType, want[i].Nonce = tx.Type(), tx.Type(), tx.Nonce()
		if d.profile == "hiero" && want[i].Created == nil {
			want[i].Created = want[i].To // what the record is about
		}
	}
	for name, read := range map[string]func(t *testing.T) []objectReport{
		"go-ethereum": func(t *testing.T) []objectReport { return readObjects(t, ctx, client, want, d.profile) },
		"ethers":      func(t *testing.T) []objectReport { return scriptObjects(t, n, "ethers", hashes) },
		"viem":        func(t *testing.T) []objectReport { return scriptObjects(t, n, "viem", hashes) },
		"web3.js":     func(t *testing.T) []objectReport { return scriptObjects(t, n, "web3", hashes) },
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, read(t)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	everyReading(t, ctx, n, loud)
	t.Run("trace of a call", func(t *testing.T) { callTrace(t, ctx, client, n.Accounts[0], loud) })
}

// A contract that leaves an event of one topic and calls the zero address, and the code
// that creates it; and code that fails.
const (
	eventful = "602a60006000a1" + "6000600060006000600060006000f150" + "602a60005560206000f3"
	failing  = "60006000fd"
)

// everyType makes the first account's first transactions, one of every type at least: they create a contract that leaves an event, call it three times,
// fail, and let the second account run its code.
func everyType(t *testing.T, ctx context.Context, n *network) (txs []*types.Transaction, loud common.Address) {
	t.Helper()
	sender, authority := n.Accounts[0], n.Accounts[1]
	loud = crypto.CreateAddress(sender.address(), 0)
	price := must.Get(dial(t, n.RPC).SuggestGasPrice(ctx))(t)
	code := common.FromHex(eventful)
	creation := append([]byte{0x60, byte(len(code)), 0x60, 0x0c, 0x60, 0x00, 0x39, 0x60, byte(len(code)), 0x60, 0x00, 0xf3}, code...)
	chain, tip := big.NewInt(chainID), new(big.Int)
	access := types.AccessList{{Address: loud, StorageKeys: []common.Hash{{31: 1}}}}
	authorization := must.Get(types.SignSetCode(authority.key(t), types.SetCodeAuthorization{ChainID: *uint256.NewInt(chainID), Address: loud}))(t)
	for _, data := range []types.TxData{
		&types.DynamicFeeTx{ChainID: chain, Nonce: 0, GasTipCap: tip, GasFeeCap: price, Gas: 500_000, Data: creation},
		&types.LegacyTx{Nonce: 1, GasPrice: price, Gas: 200_000, To: &loud},
		&types.AccessListTx{ChainID: chain, Nonce: 2, GasPrice: price, Gas: 200_000, To: &loud, AccessList: access},
		&types.DynamicFeeTx{ChainID: chain, Nonce: 3, GasTipCap: tip, GasFeeCap: price, Gas: 200_000, To: &loud},
		&types.DynamicFeeTx{ChainID: chain, Nonce: 4, GasTipCap: tip, GasFeeCap: price, Gas: 200_000, Data: common.FromHex(failing)},
		&types.SetCodeTx{
			ChainID: uint256.NewInt(chainID), Nonce: 5, GasTipCap: new(uint256.Int), GasFeeCap: uint256.MustFromBig(price), Gas: 200_000, To: authority.address(),
			AuthList: []types.SetCodeAuthorization{authorization},
		},
	} {
		txs = append(txs, must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(chain), data))(t))
	}
	return txs, loud
}

func scriptObjects(t *testing.T, n *network, client string, hashes []string) (got []objectReport) {
	script(t, client, map[string]any{"task": "objects", "rpc": n.RPC, "chainId": chainID, "privateKey": n.Accounts[1].PrivateKey, "hashes": hashes}, &got)
	return got
}

// readObjects is the task for go-ethereum's client, which checks what it decodes: blocks
// of profile hiero, whose withdrawalsRoot is that of the TypeScript relay, it does not take.
func readObjects(t *testing.T, ctx context.Context, client *ethclient.Client, of []objectReport, profile string) (got []objectReport) {
	for _, one := range of {
		tx, _ := must.Get2(client.TransactionByHash(ctx, one.Hash))(t)
		receipt := must.Get(client.TransactionReceipt(ctx, one.Hash))(t)
		listed := transactionsOf(t, ctx, client, receipt, profile)
		receipts, err := client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithHash(receipt.BlockHash, true))
		if err != nil || len(receipts) != len(listed) || receipts[receipt.TransactionIndex].TxHash != one.Hash {
			t.Errorf("receipts of the block: %v %v", receipts, err)
		}
		logs := must.Get(client.FilterLogs(ctx, ethereum.FilterQuery{BlockHash: &receipt.BlockHash}))(t)
		byIndex := must.Get(client.TransactionInBlock(ctx, receipt.BlockHash, receipt.TransactionIndex))(t)
		report := objectReport{
			Hash: tx.Hash(), Type: tx.Type(), ReceiptType: receipt.Type, To: tx.To(), Nonce: tx.Nonce(), Status: receipt.Status,
			InBlock: slices.Contains(listed, one.Hash), ByIndex: byIndex.Hash(), Listed: len(tx.AccessList()),
		}
		if list := tx.SetCodeAuthorizations(); len(list) > 0 {
			report.Authorized = &list[0].Address
		}
		if receipt.ContractAddress != (common.Address{}) {
			report.Created = &receipt.ContractAddress
		}
		for _, l := range logs {
			if l.TxHash == one.Hash {
				report.Logs++
			}
		}
		got = append(got, report)
	}
	return got
}

// transactionsOf returns what go-ethereum's client finds in a receipt's block.
func transactionsOf(t *testing.T, ctx context.Context, client *ethclient.Client, receipt *types.Receipt, profile string) (hashes []common.Hash) {
	t.Helper()
	block, err := client.BlockByNumber(ctx, receipt.BlockNumber)
	if profile == "hiero" {
		if err == nil || !strings.Contains(err.Error(), "withdrawal") {
			t.Errorf("a block with another withdrawalsRoot: %v", err)
		}
		var raw struct{ Transactions []types.Transaction }
		must.Do(t, client.Client().CallContext(ctx, &raw, "eth_getBlockByHash", receipt.BlockHash, true))
		for i := range raw.Transactions {
			hashes = append(hashes, raw.Transactions[i].Hash())
		}
		return hashes
	}
	if err != nil {
		t.Fatal(err)
	}
	same, err := client.BlockByHash(ctx, receipt.BlockHash)
	if err != nil || same.NumberU64() != block.NumberU64() || len(same.Transactions()) != len(block.Transactions()) {
		t.Errorf("by hash: %+v %v", same, err)
	}
	for _, tx := range block.Transactions() {
		hashes = append(hashes, tx.Hash())
	}
	return hashes
}

// callTrace has go-ethereum's client decode a trace of what was never in a block.
func callTrace(t *testing.T, ctx context.Context, client *ethclient.Client, sender account, loud common.Address) {
	message := map[string]any{"from": sender.Address, "to": loud, "gas": "0x30d40"}
	var frame struct {
		Type        string
		Calls, Logs []any
	}
	options := map[string]any{"tracer": "callTracer", "tracerConfig": map[string]any{"withLog": true}}
	if err := client.Client().CallContext(ctx, &frame, "debug_traceCall", message, "latest", options); err != nil || frame.Type != "CALL" || len(frame.Calls) != 1 || len(frame.Logs) != 1 {
		t.Errorf("%+v %v", frame, err)
	}
}

// TestNewerMethods has viem use the methods that came to Ethereum last.
func TestNewerMethods(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	token, sender := contract(t, "Token"), n.Accounts[0]
	arguments := must.Get(token.parsed(t).Pack("", "Lock", "LCK", big.NewInt(5000)))(t)
	created := mine(t, ctx, dial(t, n.RPC), sender, nil, append(token.code(), arguments...))
	type report struct {
		Status      int      `json:"status"`
		Filled      string   `json:"filled"`
		FilledNonce int      `json:"filledNonce"`
		FilledGas   int      `json:"filledGas"`
		Listed      int      `json:"listed"`
		GasUsed     int      `json:"gasUsed"`
		Simulated   []string `json:"simulated"`
		Told        string   `json:"told"` // by the code of blockTelling
	}
	var got report
	script(t, "viem", map[string]any{
		"task": "newer", "rpc": n.RPC, "chainId": chainID, "privateKey": sender.PrivateKey, "artifact": token,
		"contract": created.receipt.ContractAddress, "recipient": n.Accounts[1].Address, "stranger": n.Accounts[2].Address,
		"blockTelling": blockTelling,
	}, &got)
	if got.FilledGas < got.GasUsed || got.GasUsed < 21_000 {
		t.Errorf("gas: %+v", got)
	}
	got.FilledGas, got.GasUsed, got.Filled = 0, 0, common.HexToAddress(got.Filled).Hex()
	want := report{Status: 1, Filled: created.receipt.ContractAddress.Hex(), FilledNonce: 2, Listed: 1, Simulated: []string{"success", "failure"}, Told: fmt.Sprintf("0x%064x%064x", 77, 88)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
