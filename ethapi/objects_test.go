package ethapi

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
	"lockstep/mirror"
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

// A transaction with a type that was signed for chain id 0 is shown on the chain that it is
// on, with its sender's alias, and its encoding is what was sent.
func TestSignedForChainZeroIsShownWhole(t *testing.T) {
	n := newNetworkWith(t, ledger.Config{}, debugging)
	price := big.NewInt(710_000_000_000)
	for nonce, data := range []types.TxData{
		&types.AccessListTx{To: &n.sender, Gas: 21_000, GasPrice: price},
		&types.DynamicFeeTx{Nonce: 1, To: &n.sender, Gas: 21_000, GasFeeCap: price},
	} {
		tx := n.sendFor(eth.AnyChain{}, data)
		hash := `["` + tx.Hash().Hex() + `"]`
		want := []string{`"0x12a"`, `"` + strings.ToLower(n.sender.Hex()) + `"`, `"` + hexutil.EncodeUint64(uint64(nonce)) + `"`}
		if diff := cmp.Diff(want, fields(t, n.call("eth_getTransactionByHash", hash), "chainId", "from", "nonce")); diff != "" {
			t.Errorf("type %d (-want +got):\n%s", tx.Type(), diff)
		}
		raw := must.Get(tx.MarshalBinary())(t)
		n.expect([3]string{"debug_getRawTransaction", hash, `"` + hexutil.Encode(raw) + `"`})
		if got := fields(t, n.call("eth_getTransactionReceipt", hash), "status"); got[0] != `"0x1"` {
			t.Errorf("type %d: status %s", tx.Type(), got)
		}
	}
}

// A contract has a nonce at older blocks, too: nobody keeps what it was then, so that what
// it is now stands for it. Before the contract was there, it had none.
func TestNonceOfAContractAtAnOlderBlock(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, change)
			price := big.NewInt(710_000_000_000)
			n.send(&types.DynamicFeeTx{To: &n.sender, Gas: 21_000, GasFeeCap: price})
			created := n.send(&types.DynamicFeeTx{Nonce: 1, Gas: 200_000, GasFeeCap: price, Data: common.FromHex("60016000526001601ff3")})
			for nonce := range uint64(8) {
				n.send(&types.DynamicFeeTx{Nonce: nonce + 2, To: &n.sender, Gas: 21_000, GasFeeCap: price})
			}
			receipt := fields(t, n.call("eth_getTransactionReceipt", `["`+created.Hash().Hex()+`"]`), "contractAddress", "blockNumber", "blockHash")
			for _, block := range []string{receipt[1], receipt[2], `"0x6"`, `"latest"`} {
				n.expect([3]string{"eth_getTransactionCount", "[" + receipt[0] + "," + block + "]", `"0x1"`})
			}
			n.expect(
				[3]string{"eth_getTransactionCount", "[" + receipt[0] + `,"0x1"]`, `"0x0"`},
				[3]string{"eth_getTransactionCount", `["` + n.sender.Hex() + `","0x2"]`, `"0x2"`},
			)
		})
	}
}

// bothProfiles are relays of either profile.
func bothProfiles() map[string]func(*settings) {
	return map[string]func(*settings){"ethereum": func(*settings) {}, "hiero": hiero}
}

// A creation that failed has no receiver. go-ethereum leaves the member out; clients of
// established relays find it in every call.
func TestTraceOfAFailedCreation(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, debugging, change)
			// Creates a contract of one invalid instruction, and returns; then one that fails itself.
			inner := "60fe60005360016000" + "6000f0" + "00"
			price := big.NewInt(710_000_000_000)
			outer := n.send(&types.DynamicFeeTx{Gas: 1_000_000, GasFeeCap: price, Data: common.FromHex(inner)})
			failed := n.send(&types.DynamicFeeTx{Nonce: 1, Gas: 100_000, GasFeeCap: price, Data: common.FromHex("01121212")})
			trace := func(tx *types.Transaction) (root map[string]any) {
				unmarshal(t, n.call("debug_traceTransaction", `["`+tx.Hash().Hex()+`",{"tracer":"callTracer"}]`), &root)
				return root
			}
			for what, frame := range map[string]map[string]any{
				"the transaction": trace(failed), "a call in it": trace(outer)["calls"].([]any)[0].(map[string]any),
			} {
				to, there := frame["to"]
				if frame["type"] != "CREATE" || frame["error"] == nil || there != (name == "hiero") || to != nil && what == "the transaction" {
					t.Errorf("%s: %v", what, frame)
				}
			}
		})
	}
}

// A native call with a negative amount has a contract result and a place in its block. Clients of
// established relays find the amount there as 64 bits in two's complement; to those of Ethereum,
// which knows no such amount, it shows what moved: nothing.
func TestNegativeAmountOfAContractCall(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, debugging, change)
			contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
			for amount, inTwosComplement := range map[int64]string{
				-100:                   `"0xffffff172b5af000"`,
				-1_000_000_000_000_000: `"0xe9ebfeb7b6000000"`, // below -2^64 in weibar
			} {
				rec := n.handle(core.BodyOf(&hapi.ContractCallTransactionBody{
					ContractID: &hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: contract[:]}}, Gas: 500_000, Amount: amount,
				}), nil)
				want := map[string]string{"ethereum": `"0x0"`, "hiero": inTwosComplement}[name]
				hash, block := hexutil.Encode(rec.Hash[:32]), hexutil.EncodeUint64(uint64(rec.Block))
				shown := []string{`"` + hash + `"`, `"` + lower(contract) + `"`, want, `"0x7a120"`}
				if diff := cmp.Diff(shown, fields(t, n.call("eth_getTransactionByHash", `["`+hash+`"]`), "hash", "to", "value", "gas")); diff != "" {
					t.Errorf("%d by hash (-want +got):\n%s", amount, diff)
				}
				var whole struct {
					Transactions []struct{ Hash, Value string }
				}
				unmarshal(t, n.call("eth_getBlockByNumber", `["`+block+`",true]`), &whole)
				if len(whole.Transactions) != 1 || whole.Transactions[0].Hash != hash || `"`+whole.Transactions[0].Value+`"` != want {
					t.Errorf("%d in its block: %+v", amount, whole.Transactions)
				}
				if got := fields(t, n.call("eth_getTransactionReceipt", `["`+hash+`"]`), "status", "gasUsed"); got[0] != `"0x0"` || got[1] != `"0x0"` {
					t.Errorf("%d: receipt %s", amount, got)
				}
				if got := n.call("debug_getRawTransaction", `["`+hash+`"]`); got.Error != nil || len(got.Result) < 10 {
					t.Errorf("%d: encoded %s", amount, got)
				}
				// Nothing ran, so that there is nothing in the trace but the reason.
				trace := fields(t, n.call("debug_traceTransaction", `["`+hash+`",{"tracer":"callTracer"}]`), "type", "value", "gas", "gasUsed", "input", "error", "revertReason", "output")
				const reason = "CONTRACT_NEGATIVE_VALUE"
				traced := []string{`"CALL"`, `"0x0"`, `"0x7a120"`, `"0x0"`, `"0x"`, `"` + reason + `"`, "", ""}
				if name == "hiero" {
					traced[2], traced[6], traced[7] = `"0x61a80"`, `"`+reason+`"`, fmt.Sprintf(`"0x%s"`, hex.EncodeToString([]byte(reason)))
				}
				if diff := cmp.Diff(traced, trace); diff != "" {
					t.Errorf("%d traced (-want +got):\n%s", amount, diff)
				}
			}
		})
	}
}

// Who signed a transaction of any type is known from its record, and nobody is if the
// record does not hold what was signed.
func TestSigner(t *testing.T) {
	b := builder{chainID: big.NewInt(298)}
	key := must.Get(crypto.GenerateKey())(t)
	for i, r := range signedResults(key) {
		shown := b.transaction(r)
		if got, ok := signer(shown); !ok || got != crypto.PubkeyToAddress(key.PublicKey) {
			t.Errorf("transaction %d of type %d: %s, %v", i, shown.Type, got, ok)
		}
		shown.Nonce++
		if got, ok := signer(shown); ok {
			t.Errorf("transaction %d with another nonce: %s", i, got)
		}
	}
	for _, odd := range []*eth.Transaction{
		{},
		{Type: 2},
		{Type: 3},
		{Type: 4},
		{Type: 1, R: eth.Number(big.NewInt(1)), S: eth.Number(big.NewInt(1)), V: eth.Number(big.NewInt(1))},
		{R: eth.Number(big.NewInt(1)), S: eth.Number(big.NewInt(1)), V: eth.Number(big.NewInt(36))},
	} {
		if signed, err := odd.Signed(); err == nil {
			odd.Hash = signed.Hash() // as if the record were right
		}
		if got, ok := signer(odd); ok && got == (common.Address{}) {
			t.Errorf("%+v: %s", odd, got)
		}
	}
}

// signedResults are records of one signed transaction of each type.
func signedResults(key *ecdsa.PrivateKey) (all []*mirror.ContractResult) {
	to, chain := common.Address{7}, big.NewInt(298)
	for _, test := range []struct {
		signer types.Signer
		data   types.TxData
	}{
		{types.HomesteadSigner{}, &types.LegacyTx{Nonce: 1, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.LegacyTx{Nonce: 2, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.AccessListTx{ChainID: chain, Nonce: 3, GasPrice: big.NewInt(9), Gas: 21000, To: &to}},
		{types.LatestSignerForChainID(chain), &types.DynamicFeeTx{ChainID: chain, Nonce: 4, GasFeeCap: big.NewInt(9), GasTipCap: big.NewInt(1), Gas: 21000, To: &to}},
	} {
		tx := types.MustSignNewTx(key, test.signer, test.data)
		v, r, s := tx.RawSignatureValues()
		kind, nonce := uint64(tx.Type()), tx.Nonce()
		result := &mirror.ContractResult{
			Hash: tx.Hash(), Type: &kind, Nonce: &nonce, GasLimit: tx.Gas(), To: tx.To(), GasPrice: tx.GasPrice(), V: v, R: r, S: s,
			MaxFee: tx.GasFeeCap(), MaxTip: tx.GasTipCap(),
		}
		if tx.Protected() {
			result.ChainID = tx.ChainId()
		}
		all = append(all, result)
	}
	return all
}

const oddHash = "0x0dd0000000000000000000000000000000000000000000000000000000000dd0"

// odd is the record of a transaction with some of its members replaced.
func odd(of signed, change member) member {
	record := member{}
	maps.Copy(record, of.record)
	record["hash"] = oddHash
	maps.Copy(record, change)
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
		"eth_getTransactionByBlockHashAndIndex": nowhere + `,"0x0"`, "eth_getTransactionByBlockNumberAndIndex": `"0x11","0xffffffffffffffff"`,
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
