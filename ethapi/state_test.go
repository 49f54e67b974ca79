package ethapi

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/must"
	"lockstep/internal/relay/pending"
	"lockstep/rpc"
)

func senderText() string {
	address, _ := senderKey()
	return hexutil.Encode(address[:])
}

// historical is the account as it is asked for at the end of block 15.
const historical = "timestamp=lte:1767225597.999999999"

func TestBalance(t *testing.T) {
	relay, _ := populated(t)
	sender := senderText()
	relay.node.set("accounts/"+sender+"?"+historical+"&limit=100&order=desc",
		`{"account":"0.0.1010","evm_address":"`+sender+`","balance":{"balance":5,"timestamp":"1767225597.999999999"},"created_timestamp":"1767225590.000000001","transactions":[],"links":{"next":null}}`)
	at := func(block string) [3]string {
		return [3]string{"eth_getBalance", fmt.Sprintf(`["%s",%s]`, sender, block), ""}
	}
	expect := func(block, want string) {
		t.Helper()
		q := at(block)
		q[2] = want
		relay.expect(q)
	}
	const live, past = `"0x112210f4768db400"`, `"0xba43b7400"`
	for _, tag := range []string{`"latest"`, `"pending"`, `"safe"`, `"finalized"`, `"0x11"`, `"0x12"`, `"0x16"`, `"` + blockHash + `"`, `{"blockHash":"` + blockHash + `"}`, `{"blockNumber":"latest"}`} {
		expect(tag, live)
	}
	block15 := blockJSON(15)["hash"].(string)[:66]
	for _, ref := range []string{`"0xf"`, `"` + block15 + `"`, `{"blockNumber":"0xf"}`, `{"blockHash":"` + block15 + `","requireCanonical":true}`} {
		expect(ref, past)
	}
	expect(`"0x17"`, "-39012 header not found") // further than the tolerance
	expect(`"0x5"`, "-39012 header not found")
	expect(`"`+common.HexToHash("0x99").Hex()+`"`, "-39012 header not found")
	expect(`{}`, "-32000 Invalid arguments: neither block nor hash specified")
	relay.expect(
		[3]string{"eth_getBalance", `["` + sender + `"]`, live},
		[3]string{"eth_getBalance", `["` + contract.Hex() + `","latest"]`, `"0x0"`},
		[3]string{"eth_getBalance", `["` + contract.Hex() + `","0xf"]`, `"0x0"`},
	)
	relay.node.set("accounts/"+sender+"?transactions=false", `{"account":"0.0.1010","balance":null}`)
	expect(`"latest"`, "-32001 Requested resource not found. Account balance unavailable for address: "+common.HexToAddress(sender).Hex()+".")
}

func TestUpstreamFailureIsNotAnAnswer(t *testing.T) {
	relay, _ := populated(t)
	sender := senderText()
	broken := `{"_status":{"messages":[{"message":"Internal error"}]}}`
	const want = "-32020 Mirror node upstream failure: statusCode=500, message=Internal error 500"
	for _, key := range []string{
		"accounts/" + sender + "?transactions=false", "accounts/0.0.1010?transactions=false", "contracts/" + sender, "contracts/results/" + synthetic + "?hbar=false",
		"contracts/results?" + window + "&limit=100&order=asc&hbar=false",
		"network/fees", "contracts/" + sender + "/state?slot=" + common.Hash{}.Hex() + "&limit=1&order=desc", "contracts/" + sender + "/results/logs?" + window + "&limit=100&order=desc",
	} {
		relay.node.fail(key, 500, broken)
	}
	for method, params := range map[string]string{
		"eth_getBalance": `["` + sender + `","latest"]`, "eth_getTransactionCount": `["` + sender + `","latest"]`, "eth_getCode": `["` + sender + `","latest"]`,
		"eth_getStorageAt": `["` + sender + `","0x0","latest"]`, "eth_getTransactionByHash": `["` + synthetic + `"]`,
		"eth_getTransactionReceipt": `["` + synthetic + `"]`, "eth_gasPrice": `[]`, "eth_feeHistory": `["0x1","latest",[]]`,
		"eth_getLogs": `[{"address":"` + sender + `"}]`, "eth_getBlockByNumber": `["0x11",true]`, "eth_getBlockReceipts": `["0x11"]`,
	} {
		relay.expect([3]string{method, params, want})
	}
}

func TestHead(t *testing.T) {
	relay, _ := populated(t)
	none := listOf("blocks")
	newest := relay.node.answers["blocks?limit=1&order=desc"].body
	relay.node.set("blocks?limit=1&order=desc", none)
	const want = "-32607 Error encountered retrieving latest block"
	relay.expect(
		[3]string{"eth_blockNumber", `[]`, want}, [3]string{"eth_getBlockByNumber", `["latest",false]`, want},
		[3]string{"eth_getLogs", `[{}]`, want}, [3]string{"eth_newBlockFilter", `[]`, want},
	)
	for _, list := range []string{newest, none} { // a block that was there does not go away
		relay.node.set("blocks?limit=1&order=desc", list)
		relay.expect([3]string{"eth_blockNumber", `[]`, `"0x11"`})
	}
}

func TestTransactionCount(t *testing.T) {
	pool := pending.New(pending.Config{MaxEntries: 10, MaxBytes: 1 << 20}, pending.Deps{})
	for nonce := uint64(6); nonce < 9; nonce++ {
		pool.Add(pooled(t, &types.LegacyTx{Nonce: nonce, Gas: 21000, GasPrice: big.NewInt(71e10), To: &common.Address{1}}))
	}
	relay, block := populated(t, func(s *settings) { s.deps.Pool = pool })
	sender := senderText()
	query := "contracts/results?from=" + sender + "&timestamp=lte:1767225597.999999999&limit=10&order=desc&hbar=false"
	with := func(tx signed, change member) member {
		copied := member{}
		maps.Copy(copied, tx.record)
		maps.Copy(copied, change)
		return copied
	}
	count := func(who, block, want string) [3]string {
		return [3]string{"eth_getTransactionCount", fmt.Sprintf(`["%s","%s"]`, who, block), want}
	}
	relay.expect(count(sender, "latest", `"0x6"`), count(sender, "pending", `"0x9"`), count(sender, "0x11", `"0x6"`), count(sender, "0x14", `"0x6"`))
	relay.expect(count("0x00000000000000000000000000000000000000aa", "latest", `"0x0"`), count("0x00000000000000000000000000000000000000aa", "0xf", `"0x0"`))

	for _, test := range []struct {
		results []any
		want    string
	}{
		{nil, `"0x0"`},
		{[]any{block[2].record}, `"0x3"`},
		// A transaction that only went to the address, one that never ran and one that is not Ethereum's do not count.
		{[]any{with(block[4], member{"from": "0x00000000000000000000000000000000000003f3"}), with(block[3], member{"gas_used": 0}), with(block[3], member{"nonce": nil, "type": nil}), block[1].record}, `"0x2"`},
	} {
		relay.node.set(query, listOf("results", test.results...))
		relay.expect(count(sender, "0xf", test.want))
	}
	// Before the account existed.
	relay.expect(count(sender, "0xa", `"0x0"`))

	relay.node.set("accounts/"+hexutil.Encode(contract[:])+"?transactions=false", `{"account":"0.0.1003","ethereum_nonce":null,"created_timestamp":"1.000000000"}`)
	relay.expect(count(contract.Hex(), "latest", `"0x1"`), count(contract.Hex(), "0xf", `"0x1"`))
}

func TestCode(t *testing.T) {
	relay, _ := populated(t)
	node := relay.node
	code := func(address, block, want string) [3]string {
		return [3]string{"eth_getCode", fmt.Sprintf(`["%s","%s"]`, address, block), want}
	}
	const account = `{"account":"0.0.%d","evm_address":"%s","delegation_address":"%s","created_timestamp":"1767225596.000000000"}`
	deployed := hexutil.Encode(contract[:])
	node.set("contracts/"+deployed, `{"contract_id":"0.0.1003","evm_address":"`+deployed+`","created_timestamp":"1767225596.000000000","runtime_bytecode":"0x6001"}`)
	node.set("tokens/0.0.1234", `{"created_timestamp":"1767225596.000000000"}`)
	node.set("schedules/0.0.1235", `{"consensus_timestamp":"1767225596.000000000"}`)
	delegating, plain := "0x00000000000000000000000000000000000004d4", "0x00000000000000000000000000000000000004d5"
	node.set("accounts/"+delegating+"?transactions=false", fmt.Sprintf(account, 1236, "", deployed))
	node.set("accounts/"+plain+"?transactions=false", fmt.Sprintf(account, 1237, "", "0x"))
	designator := func(to string) string { return `"0xef0100` + to[2:] + `"` }
	for address, want := range map[string]string{
		deployed: `"0x6001"`, tokenLog: designator("0x0000000000000000000000000000000000000167"),
		"0x00000000000000000000000000000000000004d3": designator("0x000000000000000000000000000000000000016b"),
		delegating: designator(deployed), plain: `"0x"`, "0x00000000000000000000000000000000000004d6": `"0x"`, "0x" + strings.Repeat("9", 40): `"0x"`,
	} {
		relay.expect(code(address, "latest", want), code(address, "0xf", want), code(address, blockHash, want))
		relay.expect(code(address, "0xd", `"0x"`)) // before any of them was made
	}
	for _, service := range []string{"0x0000000000000000000000000000000000000167", "0x000000000000000000000000000000000000016B"} {
		relay.expect(code(service, "latest", `"0xfe"`))
	}
	relay.expect(code(deployed, "0x5", "-39012 header not found"))
}

func TestStorageAt(t *testing.T) {
	relay, _ := populated(t)
	address := hexutil.Encode(contract[:])
	slot := common.HexToHash("0x0a").Hex()
	value := func(n int) string { return fmt.Sprintf(`{"state":[{"slot":"%s","value":"0x%064x"}]}`, slot, n) }
	relay.node.set("contracts/"+address+"/state?slot="+slot+"&limit=1&order=desc", value(1))
	relay.node.set("contracts/"+address+"/state?timestamp=1767225597.999999999&slot="+slot+"&limit=1&order=desc", value(2))
	word := func(n int) string { return fmt.Sprintf(`"0x%064x"`, n) }
	at := func(key, block, want string) [3]string {
		return [3]string{"eth_getStorageAt", fmt.Sprintf(`["%s","%s"%s]`, address, key, block), want}
	}
	relay.expect(
		at("0xa", `,"latest"`, word(1)), at("0x0a", ``, word(1)), at(slot, `,"0x11"`, word(1)), at("0xa", `,"0xf"`, word(2)),
		at("0xb", `,"latest"`, word(0)), at("0xa", `,"0x5"`, "-32001 header not found"),
	)
}

func TestGasPrice(t *testing.T) {
	relay, _ := populated(t)
	relay.expect([3]string{"eth_gasPrice", `[]`, `"0xa54f4c3c00"`})
	const want = "-32603 Error invoking RPC: Failed to retrieve gas price from network fees"
	for _, answer := range []string{`{"fees":[],"timestamp":"1.0"}`, fees(0)} {
		relay.node.set("network/fees", answer)
		relay.expect([3]string{"eth_gasPrice", `[]`, want})
	}
	relay.node.fail("network/fees", http.StatusNotFound, `{"_status":{"messages":[{"message":"Not found"}]}}`)
	relay.expect([3]string{"eth_gasPrice", `[]`, want})

	// 10 % of 71 tinybar, in whole tinybars.
	buffered, _ := populated(t, func(s *settings) { s.API.GasPriceBufferPercent = 10 })
	buffered.expect([3]string{"eth_gasPrice", `[]`, `"0xb59b9f7800"`})
}

func TestFeeHistory(t *testing.T) {
	history := func(params, want string) [3]string { return [3]string{"eth_feeHistory", params, want} }
	const p = `"0xa54f4c3c00"`
	relay, _ := populated(t)
	relay.expect(
		history(`["0x0","latest",[]]`, `{"gasUsedRatio":null,"oldestBlock":"0x0"}`),
		history(`["0x1","latest"]`, `{"baseFeePerGas":[`+p+`,`+p+`],"gasUsedRatio":[0.5],"oldestBlock":"0x11"}`),
		history(`["0x2","0x10",[25,75]]`, `{"baseFeePerGas":[`+p+`,`+p+`,`+p+`],"gasUsedRatio":[0.5,0.5],"oldestBlock":"0xf","reward":[["0x0","0x0"],["0x0","0x0"]]}`),
		// Before the first block there is nothing: the rows are those of the blocks there are.
		history(`["0x5","0x1",[50]]`, `{"baseFeePerGas":[`+p+`,`+p+`,`+p+`],"gasUsedRatio":[0.5,0.5],"oldestBlock":"0x0","reward":[["0x0"],["0x0"]]}`),
		history(`["0x1","0x12",[]]`, "-32000 request beyond head block: requested 18, head 17"),
		history(`["0x","latest",[]]`, "-32602 invalid argument 0: Expected 0x prefixed hexadecimal value, value: 0x"),
		history(`["0x1","latest",[0,50,50]]`, "-32000 invalid reward percentile: #1:50.000000 >= #2:50.000000"),
	)
	drop, _ := populated(t, hiero)
	drop.expect(history(`["0x1","latest",[50,50,0]]`, `{"baseFeePerGas":[`+p+`,`+p+`],"gasUsedRatio":[0.5],"oldestBlock":"0x11","reward":[["0x0","0x0","0x0"]]}`))
	var long struct{ GasUsedRatio []float64 }
	unmarshal(t, relay.call("eth_feeHistory", `["0x64","latest",[]]`), &long)
	if len(long.GasUsedRatio) != 10 {
		t.Errorf("%d blocks of history", len(long.GasUsedRatio))
	}

	read, _ := populated(t, func(s *settings) { s.API.FeeHistoryFixed = false })
	blocks := func(first, last int) string {
		return fmt.Sprintf("blocks?block.number=gte:%d&block.number=lte:%d&limit=100&order=asc", first, last)
	}
	early := blockJSON(15)
	early["hapi_version"], early["gas_used"] = "0.68.1", 40_000_000
	read.node.set(blocks(15, 17), listOf("blocks", early, blockJSON(16), blockJSON(17)))
	read.node.set(blocks(16, 17), listOf("blocks", blockJSON(16), blockJSON(17)))
	read.node.set("network/fees?timestamp=lte:1767225590.000000000", fees(70))
	read.expect(
		history(`["0x2","latest",[]]`, `{"baseFeePerGas":[`+`"0xa2fb405800"`+`,`+p+`,`+p+`],"gasUsedRatio":[0.00084,0.00084],"oldestBlock":"0x10"}`),
		history(`["0x2","0x10",[]]`, `{"baseFeePerGas":[`+`"0xa2fb405800","0xa2fb405800"`+`,`+p+`],"gasUsedRatio":[1,0.00084],"oldestBlock":"0xf"}`),
	)
}

func TestGasLimit(t *testing.T) {
	for version, want := range map[string]uint64{
		"0.69.0": 150_000_000, "0.75.2": 150_000_000, "1.0.0": 150_000_000, "0.69.0-rc.1": 150_000_000, "0.70.1+build": 150_000_000,
		"0.68.9": 30_000_000, "": 30_000_000, "0.69": 30_000_000, "x.y.z": 30_000_000, "0.69.0.1": 30_000_000,
	} {
		if got := gasLimit(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

func TestConstants(t *testing.T) {
	relay, _ := populated(t)
	hash := `"` + blockHash + `"`
	for _, w := range [][3]string{
		{"eth_accounts", `[]`, `[]`},
		{"eth_chainId", `[]`, `"0x12a"`},
		{"eth_hashrate", `[]`, `"0x0"`},
		{"eth_maxPriorityFeePerGas", `[]`, `"0x0"`},
		{"eth_mining", `[]`, `false`},
		{"eth_submitWork", `["0x1","0x2","0x3"]`, `false`},
		{"eth_syncing", `[]`, `false`},
		{"eth_getUncleByBlockHashAndIndex", `[` + hash + `,"0x0"]`, `null`},
		{"eth_getUncleByBlockNumberAndIndex", `["latest","0x0"]`, `null`},
		{"eth_getUncleCountByBlockHash", `[` + hash + `]`, `"0x0"`},
		{"eth_getUncleCountByBlockNumber", `["0x1"]`, `"0x0"`},
		{"net_listening", `[]`, `true`},
		{"net_version", `[]`, `"298"`},
		{"web3_clientVersion", `[]`, `"lockstep/1.2.3"`},
		{"web3_sha3", `["0x"]`, `"0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"`},
		{"web3_sha3", `["0x68656c6c6f20776f726c64"]`, `"0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad"`},
		{"web3_sha3", `["0x1"]`, "-32602 invalid argument 0: Expected 0x prefixed hexadecimal value with even length, value: 0x1"},
		{"web3_sha3", `["zz"]`, "-32602 invalid argument 0: Expected 0x prefixed hexadecimal value, value: zz"},
	} {
		relay.expect(w)
	}
	for _, name := range unsupportedMethods() {
		relay.expect([3]string{name, `[1,2,3]`, "-32601 Unsupported JSON-RPC method"})
	}
	missing := func(name string) string { return "the method " + name + " does not exist/is not available" }
	for name, want := range map[string]string{
		"engine_newPayloadV1": "Unsupported JSON-RPC method", "trace_block": "Not yet implemented", "debug_storageRangeAt": "Not yet implemented",
		"eth_signTypedData": missing("eth_signTypedData"), "eth_getRawTransactionByHash": missing("eth_getRawTransactionByHash"),
		"eth_config": missing("eth_config"), "eth_baseFee": missing("eth_baseFee"), "admin_peers": missing("admin_peers"),
	} {
		relay.expect([3]string{name, `[]`, "-32601 " + want})
	}
	if len(relay.node.requests()) != 0 {
		t.Error("a constant asks the mirror node")
	}
	drop, _ := populated(t, hiero)
	drop.expect([3]string{"web3_clientVersion", `[]`, `"relay/1.2.3"`})
	built, _ := populated(t, hiero, func(s *settings) { s.deps.Version = "3ca656a" })
	built.expect([3]string{"web3_clientVersion", `[]`, `"relay/0.0.0-3ca656a"`})
	named, _ := populated(t, func(s *settings) { s.API.ClientName = "acme" })
	named.expect([3]string{"web3_clientVersion", `[]`, `"acme/1.2.3"`})
}

// Every rule of every method: what is missing, ill-typed or too much.
func TestParameters(t *testing.T) {
	relay, _ := populated(t)
	const (
		address   = "Expected 0x prefixed string representing the address (20 bytes)"
		number    = `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`
		hash      = "Expected Expected 0x prefixed string representing the hash (32 bytes) of a "
		boolean   = "Expected boolean type"
		hex       = "Expected 0x prefixed hexadecimal value"
		good      = `"0x05fba803be258049a27b820088bab1cad2058871"`
		goodHash  = `"` + blockHash + `"`
		call      = `{"to":` + good + `}`
		badObject = `{"fromBlock":"0x1","bogus":1}`
	)
	bad := func(i int, expected string) string {
		return fmt.Sprintf("-32602 invalid argument %d: %s, value: bad", i, expected)
	}
	missing := func(i int) string { return fmt.Sprintf("-32602 missing value for required argument %d", i) }
	for _, w := range [][3]string{
		{"eth_getBalance", `[]`, missing(0)},
		{"eth_getBalance", `["bad","latest"]`, bad(0, address)},
		{"eth_getBalance", `[null,"latest"]`, missing(0)},
		{"eth_getBalance", `[` + good + `,"latest",1]`, "-32602 too many arguments, want at most 2"},
		{"eth_getTransactionCount", `["bad","latest"]`, bad(0, address)},
		{"eth_getCode", `["bad","latest"]`, bad(0, address)},
		{"eth_getStorageAt", `[` + good + `]`, missing(1)},
		{"eth_getStorageAt", `[` + good + `,"bad","latest"]`, bad(1, "Expected 0x prefixed string representing the hash (32 bytes)")},
		{"eth_feeHistory", `["bad","latest"]`, bad(0, hex)},
		{"eth_feeHistory", `["0x1"]`, missing(1)},
		{"eth_feeHistory", `["0x1","bad"]`, bad(1, number)},
		{"eth_feeHistory", `["0x1","latest",[101]]`, "-32602 invalid argument 2: Expected an array of up to 100 numbers, each between 0 and 100, value: [101]"},
		{"eth_getBlockByNumber", `["bad",true]`, bad(0, number)},
		{"eth_getBlockByNumber", `["0x1"]`, missing(1)},
		{"eth_getBlockByNumber", `["0x1","bad"]`, bad(1, boolean)},
		{"eth_getBlockByHash", `["bad",true]`, bad(0, hash+"block")},
		{"eth_getBlockTransactionCountByNumber", `["bad"]`, bad(0, number)},
		{"eth_getBlockTransactionCountByHash", `["bad"]`, bad(0, hash+"block")},
		{"eth_getTransactionByBlockNumberAndIndex", `["bad","0x0"]`, bad(0, number)},
		{"eth_getTransactionByBlockHashAndIndex", `[` + goodHash + `,"bad"]`, bad(1, hex)},
		{"eth_getTransactionByBlockHashAndIndex", `[` + goodHash + `,"0x"]`, "-32602 invalid argument 1: " + hex + ", value: 0x"},
		{"eth_getTransactionByHash", `["bad"]`, bad(0, hash+"transaction")},
		{"eth_getTransactionReceipt", `["bad"]`, bad(0, hash+"transaction")},
		{"eth_call", `[]`, missing(0)},
		{"eth_call", `["bad"]`, bad(0, "Expected TransactionObject")},
		{"eth_call", `[` + call + `,"latest","bad"]`, bad(2, "Expected StateOverride object (currently accepting any object structure)")},
		{"eth_call", `[{"to":"bad"}]`, "-32602 invalid argument 'to' for TransactionObject: " + address + ", value: bad"},
		{"eth_estimateGas", `[]`, missing(0)},
		{"eth_getLogs", `["bad"]`, bad(0, "Expected FilterObject")},
		{"eth_getLogs", `[` + badObject + `]`, "-32602 invalid argument 'bogus' for FilterObject: Unknown parameter"},
		{"eth_newFilter", `[{"fromBlock":"bad"}]`, "-32602 invalid argument 'fromBlock' for FilterObject: " + number + ", value: bad"},
		{"eth_getFilterChanges", `["bad"]`, bad(0, hex)},
		{"eth_getFilterLogs", `[]`, missing(0)},
		{"eth_uninstallFilter", `["bad"]`, bad(0, hex)},
	} {
		relay.expect(w)
	}
	if len(relay.node.requests()) != 0 {
		t.Error("malformed parameters reach the mirror node")
	}
}

func TestMethodTable(t *testing.T) {
	relay, _ := populated(t)
	must.Get(rpc.NewRegistry(relay.api.Methods()...))(t)
	// Without parameter rules nothing is refused.
	relay.expect([3]string{"eth_blockNumber", `[1,{"a":2}]`, `"0x11"`}, [3]string{"eth_chainId", `[null]`, `"0x12a"`})
}

func TestConfigValidate(t *testing.T) {
	relay, _ := populated(t)
	good := relay.api.cfg
	bad := good
	bad.Sync.Max = bad.Sync.Default - 1
	if _, err := New(bad, relay.api.deps); err == nil || !strings.Contains(err.Error(), "SEND_RAW_TRANSACTION_SYNC_TIMEOUT") {
		t.Error(err)
	}
	if _, err := New(good, Deps{}); err == nil {
		t.Error("an API without a mirror node")
	}
}

func TestParallelPanicReachesTheCaller(t *testing.T) {
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "a mistake") {
			t.Errorf("recovered %v", p)
		}
	}()
	err := each(t.Context(), 2, []int{1, 2, 3}, func(_ context.Context, i, _ int) error {
		if i == 1 {
			panic("a mistake")
		}
		return nil
	})
	t.Errorf("no panic: %v", err)
}
