package ethapi

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
)

const oddHash = "0x0dd0000000000000000000000000000000000000000000000000000000000dd0"

// odd is the record of a transaction with some of its members replaced.
func odd(of signed, change member) member {
	record := member{}
	for name, value := range of.record {
		record[name] = value
	}
	record["hash"] = oddHash
	for name, value := range change {
		record[name] = value
	}
	return record
}

// fields picks members of an object as JSON text.
func fields(t *testing.T, r response, names ...string) []string {
	t.Helper()
	var object map[string]json.RawMessage
	unmarshal(t, r, &object)
	var picked []string
	for _, name := range names {
		picked = append(picked, string(object[name]))
	}
	return picked
}

func TestOddRecords(t *testing.T) {
	relay, block := populated(t)
	const legacy, dynamic, call = 0, 4, 2
	tokenService := "0x0000000000000000000000000000000000000167"
	created := "0x" + fmt.Sprintf("%064x", 0x4d2)
	tests := []struct {
		name        string
		record      member
		transaction map[string]string
		receipt     map[string]string
	}{
		{
			"a native contract call", odd(block[call], member{"type": nil, "v": nil, "r": nil, "s": nil, "nonce": nil, "gas_price": hexutil.EncodeBig(price), "chain_id": nil}),
			map[string]string{"type": `"0x0"`, "v": `"0x0"`, "r": `"0x0"`, "s": `"0x0"`, "nonce": `"0x0"`, "chainId": `"0x12a"`, "accessList": ""},
			map[string]string{"type": `"0x0"`, "effectiveGasPrice": `"0xa54f4c3c00"`},
		},
		{
			"the recovery id of a protected transaction", odd(block[legacy], member{"v": 1}),
			map[string]string{"v": `"0x278"`, "chainId": `"0x12a"`},
			nil,
		},
		{
			"the recovery id of an unprotected transaction", odd(block[legacy], member{"v": 0, "chain_id": "0x"}),
			map[string]string{"v": `"0x1b"`, "chainId": `"0x12a"`},
			nil,
		},
		{
			"numbers with leading zeros", odd(block[dynamic], member{"r": "0x000a", "s": "0x00", "max_fee_per_gas": "0x00a54f4c3c00"}),
			map[string]string{"r": `"0xa"`, "s": `"0x0"`, "maxFeePerGas": `"0xa54f4c3c00"`},
			nil,
		},
		{
			"an amount beyond 2^53", odd(block[legacy], member{"amount": json.Number("123456789012345678901234567890")}),
			map[string]string{"value": `"0x18ee90ff6c373e0ee4e3f0ad2"`},
			nil,
		},
		{
			"a negative amount", odd(block[legacy], member{"amount": -10}),
			map[string]string{"value": `"0x0"`}, // TestNegativeAmountOfAContractCall has profile hiero's
			nil,
		},
		{
			"less offered than the price", odd(block[dynamic], member{"max_fee_per_gas": "0x5"}),
			map[string]string{"gasPrice": `"0x5"`},
			map[string]string{"effectiveGasPrice": `"0x5"`},
		},
		{
			"a call of a created contract", odd(block[call], member{"created_contract_ids": []string{"0.0.7777"}}),
			map[string]string{"to": `"` + hexutil.Encode(contract[:]) + `"`},
			map[string]string{"contractAddress": "null"},
		},
		{
			"a token made by the token service", odd(block[call], member{"to": tokenService, "function_parameters": "0x9dc711e0", "call_result": created}),
			map[string]string{"to": `"` + tokenService + `"`},
			map[string]string{"contractAddress": `"` + tokenLog + `"`},
		},
		{
			"the same selector elsewhere", odd(block[call], member{"function_parameters": "0x9dc711e0", "call_result": created}),
			nil,
			map[string]string{"contractAddress": "null"},
		},
		{
			"no bloom", odd(block[call], member{"bloom": "0x"}),
			nil,
			map[string]string{"logsBloom": `"` + hexutil.Encode(bloomOf(contract, transferID)) + `"`},
		},
		{
			"an error in words", odd(block[dynamic], member{"error_message": "INSUFFICIENT_GAS"}),
			nil,
			map[string]string{"revertReason": `"0x494e53554646494349454e545f474153"`},
		},
	}
	for _, test := range tests {
		relay := newRelay(t, relay.node) // with nothing remembered
		relay.node.set("contracts/results/"+oddHash+"?hbar=false", text(test.record))
		for method, want := range map[string]map[string]string{"eth_getTransactionByHash": test.transaction, "eth_getTransactionReceipt": test.receipt} {
			for name, value := range want {
				if got := fields(t, relay.call(method, `["`+oddHash+`"]`), name)[0]; got != value {
					t.Errorf("%s: %s %s, want %s", test.name, name, got, value)
				}
			}
		}
	}
}

// What is not in a block, is of no kind that Ethereum has, or never ran.
func TestNoTransaction(t *testing.T) {
	relay, block := populated(t)
	const rejected = `-32003 Transaction rejected: WRONG_NONCE {"detail":%q,"hederaStatus":"WRONG_NONCE","txHash":"` + oddHash + `"}`
	tests := []struct {
		name, transaction, receipt string
		record                     member
	}{
		{"incomplete", "null", "null", odd(block[0], member{"transaction_index": nil})},
		{"refused", "null", fmt.Sprintf(rejected, "The transaction was rejected before execution and will never be included in a block."), odd(block[0], member{"transaction_index": nil, "block_number": nil, "block_hash": "0x", "result": "WRONG_NONCE"})},
		{"refused, with a message", "null", fmt.Sprintf(rejected, "nonce 5"), odd(block[0], member{"transaction_index": nil, "result": "WRONG_NONCE", "error_message": "nonce 5"})},
		{"of an unknown type", "null", "", odd(block[0], member{"type": 3})},
	}
	for _, test := range tests {
		relay := newRelay(t, relay.node)
		relay.node.set("contracts/results/"+oddHash+"?hbar=false", text(test.record))
		relay.expect([3]string{"eth_getTransactionByHash", `["` + oddHash + `"]`, test.transaction})
		if test.receipt != "" {
			relay.expect([3]string{"eth_getTransactionReceipt", `["` + oddHash + `"]`, test.receipt})
		}
	}
	unknown := `["` + common.HexToHash("0x01").Hex() + `"]`
	relay.expect([3]string{"eth_getTransactionByHash", unknown, "null"}, [3]string{"eth_getTransactionReceipt", unknown, "null"})
}

func TestNoBlock(t *testing.T) {
	relay, _ := populated(t)
	nowhere := `"` + common.HexToHash("0x99").Hex() + `"`
	for method, params := range map[string]string{
		"eth_getBlockByHash": nowhere + ",true", "eth_getBlockByNumber": `"0x3e8",false`, "eth_getBlockReceipts": `"0x3e8"`,
		"eth_getBlockTransactionCountByHash": nowhere, "eth_getBlockTransactionCountByNumber": `"0x3e8"`,
		"eth_getTransactionByBlockHashAndIndex": nowhere + `,"0x0"`, "eth_getTransactionByBlockNumberAndIndex": `"0x11","0x63"`,
	} {
		relay.expect([3]string{method, "[" + params + "]", "null"})
	}
	relay.expect(
		[3]string{"eth_getBlockReceipts", `["0xf"]`, "[]"}, [3]string{"eth_getBlockReceipts", `[{"blockNumber":"0xf"}]`, "[]"},
		[3]string{"eth_getBlockTransactionCountByNumber", `["0xf"]`, `"0x0"`},
		// What the block is shown with, not all that the network did in it.
		[3]string{"eth_getBlockTransactionCountByNumber", `["latest"]`, `"0x7"`},
		[3]string{"eth_getBlockTransactionCountByHash", `["` + blockHash + `"]`, `"0x7"`},
	)
	first := fields(t, relay.call("eth_getBlockByNumber", `["earliest",false]`), "number", "timestamp", "gasLimit")
	if diff := cmp.Diff([]string{`"0xa"`, `"0x6955b8f2"`, `"0x8f0d180"`}, first); diff != "" {
		t.Error(diff)
	}
}

// The mirror node is not asked for places that it takes for mistakes.
func TestPlaceBeyondAllBlocks(t *testing.T) {
	relay, _ := populated(t)
	relay.node.requests()
	for _, place := range []string{"0x80000000", "0xffffffffffffffff"} {
		relay.expect(
			[3]string{"eth_getTransactionByBlockHashAndIndex", `["` + blockHash + `","` + place + `"]`, "null"},
			[3]string{"eth_getTransactionByBlockNumberAndIndex", `["0x11","` + place + `"]`, "null"},
		)
	}
	if asked := relay.node.requests(); len(asked) > 0 {
		t.Errorf("asked for %v", asked)
	}
}

func TestTooManyTransactions(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.MaxFullTransactions = 7 })
	relay.expect([3]string{"eth_getBlockByNumber", `["0x11",true]`, "-32000 Exceeded max transactions that can be returned in a block: 7"})
	if got := relay.call("eth_getBlockByNumber", `["0x11",false]`); got.Error != nil {
		t.Errorf("hashes alone: %s", got)
	}
}

// What each question costs the mirror node, the first time and again.
func TestMirrorRequests(t *testing.T) {
	relay, block := populated(t)
	hash := block[0].Hash().Hex()
	count := func(method, params string, want int) {
		t.Helper()
		relay.node.requests()
		if answer := relay.call(method, params); answer.Error != nil {
			t.Error(answer)
		}
		if asked := relay.node.requests(); len(asked) != want {
			t.Errorf("%s: asked %q, want %d", method, asked, want)
		}
	}
	count("eth_getTransactionReceipt", `["`+hash+`"]`, 2) // the result and the price; the signature tells the sender
	count("eth_getTransactionReceipt", `["`+hash+`"]`, 0)
	count("eth_getTransactionReceipt", `["`+block[5].Hash().Hex()+`"]`, 2) // the result, and those before it
	count("eth_getTransactionByHash", `["`+hash+`"]`, 0)
	count("eth_getBlockByNumber", `["0x11",true]`, 3) // the block, its logs, and who paid for the synthetic transaction
	count("eth_getBlockByNumber", `["0x11",true]`, 0)
	count("eth_getBlockReceipts", `["0x11"]`, 0)
	count("eth_getBalance", `["`+senderText()+`","latest"]`, 1)
}
