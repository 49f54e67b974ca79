package ethapi

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/google/go-cmp/cmp"
)

var kinds = []string{"legacy", "unprotected", "accessList", "creation", "reverted", "setCode"}

func TestGoldenObjects(t *testing.T) {
	relay, block := populated(t)
	for i, tx := range block {
		relay.golden("transaction_"+kinds[i], "eth_getTransactionByHash", fmt.Sprintf(`["%s"]`, tx.Hash()))
		relay.golden("receipt_"+kinds[i], "eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, tx.Hash()))
	}
	relay.golden("transaction_synthetic", "eth_getTransactionByHash", `["`+synthetic+`"]`)
	relay.golden("receipt_synthetic", "eth_getTransactionReceipt", `["`+synthetic+`"]`)
	relay.golden("block_hashes", "eth_getBlockByNumber", `["0x11",false]`)
	relay.golden("block_full", "eth_getBlockByNumber", `["latest",true]`)
	relay.golden("block_receipts", "eth_getBlockReceipts", `["0x11"]`)
	relay.golden("block_empty", "eth_getBlockByNumber", `["0xf",true]`)
	relay.golden("logs", "eth_getLogs", `[{"fromBlock":"0x11","toBlock":"0x11"}]`)
}

// Records of what else can become of a transaction: one golden file for each object.
func TestGoldenOutcomes(t *testing.T) {
	populatedRelay, block := populated(t)
	const legacy, call, creation, dynamic = 0, 2, 3, 4
	for name, record := range map[string]member{
		"dynamic": odd(block[dynamic], member{"result": "SUCCESS", "status": "0x1", "error_message": nil}),
		"halted":  odd(block[dynamic], member{"result": "INSUFFICIENT_GAS", "error_message": "INSUFFICIENT_GAS", "gas_used": 70000}),
		// A creation that failed leaves no contract.
		"creationFailed": odd(block[creation], member{
			"result": "CONTRACT_REVERT_EXECUTED", "status": "0x0", "error_message": "0x", "created_contract_ids": []string{}, "contract_id": nil, "address": nil, "to": nil,
		}),
		"tokenCreation": odd(block[call], member{
			"to": "0x0000000000000000000000000000000000000167", "function_parameters": "0x9dc711e0", "call_result": fmt.Sprintf("0x%064x", 0x4d2),
		}),
		// A call by the network's own means, which no Ethereum transaction made.
		"native": odd(block[legacy], member{"type": nil, "v": nil, "r": nil, "s": nil, "nonce": nil, "chain_id": nil}),
		// It is known, and in no block yet.
		"immature": odd(block[legacy], member{"transaction_index": nil, "block_number": nil, "block_hash": "0x"}),
	} {
		relay := newRelay(t, populatedRelay.node) // with nothing remembered
		relay.node.set("contracts/results/"+oddHash+"?hbar=false", text(record))
		relay.golden("transaction_"+name, "eth_getTransactionByHash", `["`+oddHash+`"]`)
		relay.golden("receipt_"+name, "eth_getTransactionReceipt", `["`+oddHash+`"]`)
	}
}

// The same transaction looks the same however it is asked for.
func TestOneBuilder(t *testing.T) {
	relay, block := populated(t)
	var full struct{ Transactions []json.RawMessage }
	var receipts []json.RawMessage
	unmarshal(t, relay.call("eth_getBlockByNumber", `["0x11",true]`), &full)
	unmarshal(t, relay.call("eth_getBlockReceipts", `["0x11"]`), &receipts)
	hashes := []string{}
	for _, tx := range block {
		hashes = append(hashes, tx.Hash().Hex())
	}
	hashes = append(hashes, synthetic)
	if len(full.Transactions) != len(hashes) || len(receipts) != len(hashes) {
		t.Fatalf("%d transactions and %d receipts, want %d", len(full.Transactions), len(receipts), len(hashes))
	}
	for i, hash := range hashes {
		want := string(full.Transactions[i])
		for method, params := range map[string]string{
			"eth_getTransactionByHash":                fmt.Sprintf(`["%s"]`, hash),
			"eth_getTransactionByBlockNumberAndIndex": fmt.Sprintf(`["0x11","0x%x"]`, i),
			"eth_getTransactionByBlockHashAndIndex":   fmt.Sprintf(`["%s","0x%x"]`, blockHash, i),
		} {
			if got := relay.call(method, params).String(); got != want {
				t.Errorf("%s: %s", method, cmp.Diff(want, got))
			}
		}
		if got := relay.call("eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, hash)).String(); got != string(receipts[i]) {
			t.Errorf("receipt: %s", cmp.Diff(string(receipts[i]), got))
		}
	}
}

func unmarshal(t *testing.T, r response, dst any) {
	t.Helper()
	if r.Error != nil {
		t.Fatal(r)
	}
	if err := json.Unmarshal(r.Result, dst); err != nil {
		t.Fatalf("%v: %s", err, r.Result)
	}
}

// go-ethereum's client checks what it decodes: hashes against contents, roots
// against emptiness.
func TestGethDecodes(t *testing.T) {
	relay, block := populated(t)
	address, _ := senderKey()
	for _, params := range []string{`["0x11",true]`, `["0xf",true]`} {
		result := relay.call("eth_getBlockByNumber", params)
		var header types.Header
		unmarshal(t, result, &header)
		var body struct {
			Hash         common.Hash
			Transactions []*types.Transaction
		}
		unmarshal(t, result, &body)
		if (header.TxHash == types.EmptyTxsHash) != (len(body.Transactions) == 0) || header.UncleHash != types.EmptyUncleHash {
			t.Errorf("%s: roots %s, %s for %d transactions", params, header.TxHash, header.UncleHash, len(body.Transactions))
		}
		if header.BaseFee == nil || header.BaseFee.Cmp(price) != 0 {
			t.Errorf("%s: base fee %d", params, header.BaseFee)
		}
	}
	for i, tx := range block {
		var decoded types.Transaction
		unmarshal(t, relay.call("eth_getTransactionByHash", fmt.Sprintf(`["%s"]`, tx.Hash())), &decoded)
		if decoded.Hash() != tx.Hash() {
			t.Errorf("%s: hash of the contents %s, want %s", kinds[i], decoded.Hash(), tx.Hash())
		}
		signer := types.LatestSignerForChainID(big.NewInt(298))
		if from, err := types.Sender(signer, &decoded); err != nil || from != address {
			t.Errorf("%s: sender %s, %v", kinds[i], from, err)
		}
		var receipt types.Receipt
		unmarshal(t, relay.call("eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, tx.Hash())), &receipt)
		if receipt.TxHash != tx.Hash() || receipt.CumulativeGasUsed != uint64(21000*(i+1)) || (receipt.ContractAddress != common.Address{}) != (tx.To() == nil) {
			t.Errorf("%s: receipt %+v", kinds[i], receipt)
		}
		if want := types.CreateBloom(&receipt); want != receipt.Bloom {
			t.Errorf("%s: bloom is not that of the logs", kinds[i])
		}
	}
}

// Roots are those that go-ethereum would make of the same transactions.
func TestRoots(t *testing.T) {
	relay, block := populated(t)
	node := relay.node
	node.set("contracts/results/logs?"+window+"&limit=100&order=desc", logList())
	var header types.Header
	unmarshal(t, relay.call("eth_getBlockByNumber", `["0x11",true]`), &header)
	var sent types.Transactions
	for _, tx := range block {
		sent = append(sent, tx.Transaction)
	}
	if want := types.DeriveSha(sent, trie.NewStackTrie(nil)); header.TxHash != want {
		t.Errorf("transactionsRoot %s, want %s", header.TxHash, want)
	}
}
