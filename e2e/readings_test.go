package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// readings are all kinds of objects beside transactions and their receipts, with what every
// client must say of each after a transaction that leaves an event: a client that leaves one
// out fails. What a library has no method for is asked for by its general one and goes
// through its formatter, if it has one.
var readings = map[string]string{
	"block of hashes":                  "<number> block transaction",
	"receipts of a block":              "transaction 1 26597 1", // with status, gas and logs
	"changes of a filter of logs":      event,
	"changes of a filter of blocks":    "block",
	"filter of pending transactions":   "-32601", // there are none
	"subscription to heads":            "<number> parent",
	"subscription to logs":             event,
	"fee history":                      "<number-1> 710000000000,710000000000,710000000000 2 2,2", // base fees, how many ratios, and rewards of each block
	"access list":                      "0x0000000000000000000000000000000000000000 0 contract 1 26597",
	"simulation":                       "1 26597 1, 0 53064 0", // status, gas and logs of each call
	"calls of a transaction":           "call sender contract 26597 1 1",
	"state before a transaction":       "contract sender",
	"state that a transaction changed": "sender, sender",
	"proof":                            "-32601", // the network has none to give
}

// event is the log of the contract: its transaction, index, address and number of topics.
const event = "transaction 0 contract 1"

// reading is one transaction that a client sends, and what it may simulate.
type reading struct {
	raw      string
	hash     common.Hash
	sender   common.Address
	contract common.Address
}

// calls are one that leaves an event and one that fails.
func (r reading) calls() []map[string]any {
	return []map[string]any{
		{"from": r.sender, "to": r.contract, "gas": "0x30d40"},
		{"from": r.sender, "data": "0x" + failing, "gas": "0x30d40"},
	}
}

// check compares what a client says, with names in place of what differs from run to run.
func (r reading) check(t *testing.T, ctx context.Context, client *ethclient.Client, got map[string]string) {
	t.Helper()
	receipt := receiptOf(t, ctx, client, r.hash)
	header := must.Get(client.HeaderByHash(ctx, receipt.BlockHash))(t)
	names := strings.NewReplacer(
		strings.ToLower(r.hash.Hex()), "transaction", receipt.BlockHash.Hex(), "block", header.ParentHash.Hex(), "parent",
		strings.ToLower(r.sender.Hex()), "sender", strings.ToLower(r.contract.Hex()), "contract",
		fmt.Sprintf("<%d>", receipt.BlockNumber), "<number>", fmt.Sprintf("<%d>", receipt.BlockNumber.Uint64()-1), "<number-1>",
	)
	for object, text := range got {
		got[object] = names.Replace(strings.ToLower(text))
	}
	if diff := cmp.Diff(readings, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// everyReading lets every client read every object, one client after the other: each hears
// what it sent itself.
func everyReading(t *testing.T, ctx context.Context, n *network, contract common.Address) {
	client := dial(t, n.RPC)
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	for i, name := range []string{"ethers", "viem", "web3", "go-ethereum"} {
		t.Run("readings/"+name, func(t *testing.T) {
			sender := n.Accounts[4+i]
			tx := must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
				ChainID: big.NewInt(chainID), GasTipCap: new(big.Int), GasFeeCap: price, Gas: 200_000, To: &contract,
			}))(t)
			r := reading{raw(t, tx), tx.Hash(), sender.address(), contract}
			var got map[string]string
			if name == "go-ethereum" {
				got = r.goEthereum(t, ctx, n, tx)
			} else {
				script(t, name, map[string]any{
					"task": "readings", "rpc": n.RPC, "ws": n.WS, "chainId": chainID, "privateKey": sender.PrivateKey,
					"raw": r.raw, "contract": contract, "calls": r.calls(),
				}, &got)
			}
			r.check(t, ctx, client, got)
		})
	}
}

// goEthereum is the task for go-ethereum's client.
func (r reading) goEthereum(t *testing.T, ctx context.Context, n *network, tx *types.Transaction) map[string]string {
	client, live := dial(t, n.RPC), dial(t, n.WS)
	ask := func(into any, method string, params ...any) {
		t.Helper()
		if err := client.Client().CallContext(ctx, into, method, params...); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
	refusal := func(method string, params ...any) string { // over HTTP the client shows the status in place of the code, where an error has one
		var refused rpc.Error
		if err := live.Client().CallContext(ctx, new(any), method, params...); !errors.As(err, &refused) {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(refused.ErrorCode())
	}

	headers, events := make(chan *types.Header, 100), make(chan types.Log, 100)
	heads := must.Get(live.SubscribeNewHead(ctx, headers))(t)
	defer heads.Unsubscribe()
	query := ethereum.FilterQuery{Addresses: []common.Address{r.contract}}
	heard := must.Get(live.SubscribeFilterLogs(ctx, query, events))(t)
	defer heard.Unsubscribe()
	var logFilter, blockFilter string
	ask(&logFilter, "eth_newFilter", map[string]any{"address": r.contract})
	ask(&blockFilter, "eth_newBlockFilter")
	receipt := must.Get(client.SendTransactionSync(ctx, tx, nil))(t)

	var block struct {
		Number       *hexutil.Big
		Hash         common.Hash
		Transactions []common.Hash
	}
	ask(&block, "eth_getBlockByHash", receipt.BlockHash, false)
	receipts := must.Get(client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithHash(receipt.BlockHash, false)))(t)
	var logs []types.Log
	until(t, "changes of the filter of logs", func() bool { ask(&logs, "eth_getFilterChanges", logFilter); return len(logs) > 0 })
	var blocks []common.Hash
	until(t, "changes of the filter of blocks", func() bool { ask(&blocks, "eth_getFilterChanges", blockFilter); return len(blocks) > 0 })
	history := must.Get(client.FeeHistory(ctx, 2, receipt.BlockNumber, []float64{10, 50}))(t)
	var list struct {
		AccessList types.AccessList
		GasUsed    hexutil.Uint64
	}
	ask(&list, "eth_createAccessList", r.calls()[0])
	simulated := must.Get(client.SimulateV1(ctx, ethclient.SimulateOptions{BlockStateCalls: []ethclient.SimulateBlock{{Calls: []ethereum.CallMsg{
		{From: r.sender, To: &r.contract, Gas: 200_000}, {From: r.sender, Data: common.FromHex(failing), Gas: 200_000},
	}}}}, nil))(t)

	head := next(t, headers)
	for head.Number.Cmp(receipt.BlockNumber) < 0 {
		head = next(t, headers)
	}
	said := map[string]string{
		"block of hashes":                line(numbered(block.Number.ToInt()), block.Hash, words(block.Transactions)),
		"receipts of a block":            ofReceipts(receipts),
		"changes of a filter of logs":    ofLogs(logs...),
		"changes of a filter of blocks":  words(blocks),
		"filter of pending transactions": refusal("eth_newPendingTransactionFilter"),
		"subscription to heads":          line(numbered(head.Number), head.ParentHash),
		"subscription to logs":           ofLogs(next(t, events)),
		"fee history":                    ofHistory(history),
		"access list":                    ofAccessList(list.AccessList, uint64(list.GasUsed)),
		"simulation":                     ofSimulation(simulated[0].Calls),
		"proof":                          refusal("eth_getProof", r.contract, []string{}, "latest"),
	}
	maps.Copy(said, r.traces(ask))
	return said
}

// traces are read into what go-ethereum's own tracers write.
func (r reading) traces(ask func(into any, method string, params ...any)) map[string]string {
	trace := func(into any, tracer string, config map[string]any) {
		ask(into, "debug_traceTransaction", r.hash, map[string]any{"tracer": tracer, "tracerConfig": config})
	}
	var call struct {
		Type        string
		From, To    common.Address
		GasUsed     hexutil.Uint64
		Calls, Logs []any
	}
	trace(&call, "callTracer", map[string]any{"withLog": true})
	var before types.GenesisAlloc
	trace(&before, "prestateTracer", map[string]any{"diffMode": false})
	var changed struct{ Pre, Post types.GenesisAlloc }
	trace(&changed, "prestateTracer", map[string]any{"diffMode": true})
	return map[string]string{
		"calls of a transaction":           line(call.Type, call.From, call.To, uint64(call.GasUsed), len(call.Calls), len(call.Logs)),
		"state before a transaction":       words(addressesOf(before)),
		"state that a transaction changed": words(addressesOf(changed.Pre)) + ", " + words(addressesOf(changed.Post)),
	}
}

// The facts as clients/task.mjs puts them.

func line(facts ...any) string { return strings.TrimSuffix(fmt.Sprintln(facts...), "\n") }

func words[T any](list []T) string { return strings.Trim(fmt.Sprint(list), "[]") }

func numbered(number *big.Int) string { return fmt.Sprintf("<%d>", number) }

func addressesOf(state types.GenesisAlloc) []common.Address {
	return slices.SortedFunc(maps.Keys(state), common.Address.Cmp)
}

func ofLogs(logs ...types.Log) string {
	var lines []string
	for _, l := range logs {
		lines = append(lines, line(l.TxHash, l.Index, l.Address, len(l.Topics)))
	}
	return strings.Join(lines, ", ")
}

func ofReceipts(receipts []*types.Receipt) string {
	var lines []string
	for _, one := range receipts {
		lines = append(lines, line(one.TxHash, one.Status, one.GasUsed, len(one.Logs)))
	}
	return strings.Join(lines, ", ")
}

func ofHistory(h *ethereum.FeeHistory) string {
	var fees, rewards []string
	for _, fee := range h.BaseFee {
		fees = append(fees, fee.String())
	}
	for _, row := range h.Reward {
		rewards = append(rewards, fmt.Sprint(len(row)))
	}
	return line(numbered(h.OldestBlock), strings.Join(fees, ","), len(h.GasUsedRatio), strings.Join(rewards, ","))
}

func ofAccessList(list types.AccessList, gas uint64) string {
	var lines []string
	for _, one := range list {
		lines = append(lines, strings.ToLower(line(one.Address, len(one.StorageKeys))))
	}
	slices.Sort(lines)
	return line(strings.Join(lines, " "), gas)
}

func ofSimulation(calls []ethclient.SimulateCallResult) string {
	var lines []string
	for _, one := range calls {
		lines = append(lines, line(one.Status, one.GasUsed, len(one.Logs)))
	}
	return strings.Join(lines, ", ")
}
