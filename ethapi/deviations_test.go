package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"lockstep/rpc"
)

// deviant is a relay of one profile, for what established relays do differently from
// Ethereum's: each subtest is one such point and says what is right.
type deviant struct {
	*relay
	block []signed
	t     *testing.T
}

// says makes calls and compares their results, or their errors without the request id
// that profile hiero puts in front.
func (d *deviant) says(want ...[3]string) {
	d.t.Helper()
	for _, w := range want {
		got := d.call(w[0], w[1])
		if got.Error != nil && d.api.hiero() {
			id, rest, prefixed := strings.Cut(got.Error.Message, "] ")
			if !prefixed || !strings.HasPrefix(id, "[Request ID: ") {
				d.t.Errorf("%s: no request id in %q", w[0], got.Error.Message)
			}
			got.Error.Message = rest
		}
		if want := d.worded(w[2]); got.String() != want {
			d.t.Errorf("%s%s\n got %s\nwant %s", w[0], w[1], got, want)
		}
	}
}

// worded is an error as the profile words it.
func (d *deviant) worded(text string) string {
	if d.api.hiero() {
		return text
	}
	if strings.HasPrefix(text, "-32001 Requested resource not found. block ") {
		return "-32001 header not found"
	}
	for hiero, ethereum := range map[string]string{
		"-32602 Invalid parameter ":         "-32602 invalid argument ",
		"-32000 Request beyond head block:": "-32000 request beyond head block:",
		"-39012 Unknown block":              "-39012 header not found",
	} {
		if rest, ok := strings.CutPrefix(text, hiero); ok {
			return ethereum + rest
		}
	}
	return text
}

// picks compares members of a result.
func (d *deviant) picks(method, params string, want map[string]string) {
	d.t.Helper()
	for name, value := range want {
		if got := fields(d.t, d.call(method, params), name)[0]; got != value {
			d.t.Errorf("%s%s: %s is %s, want %s", method, params, name, got, value)
		}
	}
}

// Every deviation of established relays, in both profiles. Where their clients rely on
// one, profile hiero has it; docs/METHODS.md lists those.
func TestDeviations(t *testing.T) {
	rows := map[string]func(*deviant){
		"01 logs and calls of an open range are not remembered":                        openRanges,
		"02 an error of the fee history is not remembered":                             feeHistoryErrors,
		"03 state near the head is not remembered":                                     nearHead,
		"04 hashes and objects name blocks everywhere":                                 namedBlocks,
		"05 an unknown block hash":                                                     unknownHash,
		"06 the balance at a block":                                                    balanceAtBlock,
		"07 a failed look-up of an address is no answer":                               failedLookUp,
		"08 the last page that is allowed":                                             lastPage,
		"09 addresses and topics of a filter, null is refused in profile hiero":        addressesAndTopics,
		"10 logs of a range beyond the head: an error, in profile hiero what there is": beyondHead,
		"11 filters": filterPolls,
		"12 the count of a block's transactions, the mirror node's in profile hiero":           transactionCount,
		"13 contractAddress of a transfer is null, the mirror node's address in profile hiero": receiptMembers,
		"14 the price that was paid":            paidPrice,
		"15 one object however it is asked for": oneObject,
		"16 a synthetic transaction has a type and its payer, whichever way it is asked for": syntheticMembers,
		"17 yParity of an authorization": authorizationParity,
		"18 signatures are numbers":      signatureNumbers,
		"19 roots are real, transactionsRoot is the block's hash in profile hiero, raw blocks are flat there": rootsAndEncodings,
		"20 a block without a bloom, and one whose bloom lacks events of tokens":                              blooms,
		"21 traces":                 traces,
		"22 state overrides":        overridesForwarded,
		"23 an estimate at a block": estimateAtBlock,
		"24 a failed call says what the contract said": failedCalls,
		"25 what there is not":                         notThere,
		"26 envelopes":                                 envelopes,
		"27 fee history":                               feeHistoryRows,
		"28 a nonce of the past":                       pastNonce,
		"29 the block parameter is required in profile hiero, and bytes are whole": defaults,
	}
	if len(rows) != 29 {
		t.Fatalf("%d rows", len(rows))
	}
	for name, row := range rows {
		for _, profile := range []rpc.Profile{rpc.ProfileEthereum, rpc.ProfileHiero} {
			t.Run(fmt.Sprintf("%s %s", name, profile), func(t *testing.T) {
				r, block := populated(t, debugging, func(s *settings) {
					s.RPC.Profile, s.Mirror.MaxBlockLogPages = profile, 2
					s.deps.Settings = func(context.Context) any { return json.RawMessage(`{"relay":{"config":{}},"upstreamDependencies":[]}`) }
				})
				row(&deviant{relay: r, block: block, t: t})
			})
		}
	}
}

func openRanges(d *deviant) {
	for _, filter := range []string{`[{}]`, `[{"fromBlock":"0x11"}]`, `[{"fromBlock":"0x11","toBlock":"latest"}]`} {
		if got := indexes(d.t, d.call("eth_getLogs", filter)); len(got) != 2 {
			d.t.Errorf("%s: %v", filter, got)
		}
	}
	d.node.grow(18)
	both := "timestamp=gte:1767225600.000000001&timestamp=lte:1767225603.999999999"
	d.node.set("contracts/results/logs?"+both+"&limit=100&order=desc", logList(logJSON(synthetic, tokenLog, "0x", 0, 0, 18)))
	for _, filter := range []string{`[{}]`, `[{"fromBlock":"0x11"}]`, `[{"fromBlock":"0x11","toBlock":"0x12"}]`} {
		if got := indexes(d.t, d.call("eth_getLogs", filter)); !slices.Equal(got, []string{"0x12:0x0"}) {
			d.t.Errorf("%s after the head moved: %v", filter, got)
		}
	}
	for _, block := range []string{`"latest"`, `{"blockNumber":"latest"}`} {
		sent := `{"estimate":false,"block":"latest",` + to + `}`
		for _, answer := range []string{"0x01", "0x02"} {
			d.node.set(sent, `{"result":"`+answer+`"}`)
			d.says([3]string{"eth_call", `[{` + to + `},` + block + `]`, `"` + answer + `"`})
		}
	}
}

func feeHistoryErrors(d *deviant) {
	d.says([3]string{"eth_feeHistory", `["0x1","0x12",[]]`, "-32000 Request beyond head block: requested 18, head 17"})
	d.node.grow(18)
	d.picks("eth_feeHistory", `["0x1","0x12",[]]`, map[string]string{"oldestBlock": `"0x12"`})
}

func nearHead(d *deviant) {
	sender := senderText()
	account := func(balance, nonce int) {
		d.node.set("accounts/"+sender+"?transactions=false", fmt.Sprintf(
			`{"account":"0.0.1010","evm_address":"%s","balance":{"balance":%d,"timestamp":"1767225602.000000000"},"created_timestamp":"1767225590.000000001","ethereum_nonce":%d}`, sender, balance, nonce))
	}
	deployed := hexutil.Encode(contract[:])
	for n := 1; n <= 2; n++ {
		account(n, n)
		for _, block := range []string{"latest", "0x11", "0x12"} {
			d.says(
				[3]string{"eth_getBalance", `["` + sender + `","` + block + `"]`, fmt.Sprintf(`"0x%x"`, n*10_000_000_000)},
				[3]string{"eth_getTransactionCount", `["` + sender + `","` + block + `"]`, fmt.Sprintf(`"0x%x"`, n)},
			)
		}
	}
	d.says([3]string{"eth_getCode", `["` + deployed + `","0x12"]`, `"0x"`})
	d.node.set("contracts/"+deployed, `{"contract_id":"0.0.1003","evm_address":"`+deployed+`","created_timestamp":"1767225601.000000000","runtime_bytecode":"0x6001"}`)
	d.says([3]string{"eth_getCode", `["` + deployed + `","0x12"]`, `"0x6001"`})
}

// references are all ways to name the head.
func references() []string {
	return []string{`"0x11"`, `"` + blockHash + `"`, `{"blockNumber":"0x11"}`, `{"blockHash":"` + blockHash + `"}`, `{"blockHash":"` + blockHash + `","requireCanonical":true}`}
}

func namedBlocks(d *deviant) {
	deployed := hexutil.Encode(contract[:])
	d.node.set("contracts/"+deployed, `{"contract_id":"0.0.1003","evm_address":"`+deployed+`","created_timestamp":"1.000000000","runtime_bytecode":"0x6001"}`)
	for _, ref := range references() {
		for _, estimate := range []string{"false", "true"} {
			for _, block := range []string{"0x11", blockHash} {
				d.node.set(`{"estimate":`+estimate+`,"block":"`+block+`",`+to+`}`, `{"result":"0x2a"}`)
			}
		}
		d.says(
			[3]string{"eth_getCode", `["` + deployed + `",` + ref + `]`, `"0x6001"`},
			[3]string{"eth_getBalance", `["` + senderText() + `",` + ref + `]`, `"0x112210f4768db400"`},
			[3]string{"eth_getTransactionCount", `["` + senderText() + `",` + ref + `]`, `"0x6"`},
			[3]string{"eth_getStorageAt", `["` + deployed + `","0x0",` + ref + `]`, `"` + common.Hash{}.Hex() + `"`},
			[3]string{"eth_call", `[{` + to + `},` + ref + `]`, `"0x2a"`},
			[3]string{"eth_estimateGas", `[{` + to + `},` + ref + `]`, `"0x2a"`},
		)
		for _, method := range []string{"eth_getBlockReceipts", "debug_getRawReceipts", "debug_getRawBlock", "debug_getRawHeader"} {
			if got := d.call(method, `[`+ref+`]`); got.Error != nil || got.String() == "[]" || got.String() == `"0x"` {
				d.t.Errorf("%s %s: %s", method, ref, got)
			}
		}
	}
	// What names no block is refused in the words that clients know.
	const number = `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`
	d.says(
		[3]string{"eth_getCode", `["` + deployed + `","3"]`, "-32602 Invalid parameter 1: The value passed is not valid: 3. " + number + " OR Expected Expected 0x prefixed string representing the hash (32 bytes) of a block"},
		[3]string{"eth_estimateGas", `[{` + to + `},"3"]`, "-32602 Invalid parameter 1: " + number + ", value: 3"},
		[3]string{"eth_call", `[{` + to + `},{"blockNumber":"3"}]`, "-32602 Invalid parameter 'blockNumber' for BlockNumberObject: " + number + ", value: 3"},
	)
}

func unknownHash(d *deviant) {
	for _, method := range []string{"eth_getBalance", "eth_getTransactionCount", "eth_getCode"} {
		d.says([3]string{method, `["` + senderText() + `","` + common.MaxHash.Hex() + `"]`, "-39012 Unknown block"})
	}
	d.says([3]string{"eth_getStorageAt", `["` + senderText() + `","0x0","` + common.MaxHash.Hex() + `"]`, "-32001 Requested resource not found. block '" + common.MaxHash.Hex() + "'."})
	status := http.StatusOK
	if d.api.hiero() {
		status = http.StatusBadRequest
	}
	if got := d.call("eth_getBalance", `["`+senderText()+`","`+common.MaxHash.Hex()+`"]`); got.status != status {
		d.t.Errorf("HTTP status %d, want %d", got.status, status)
	}
}

func balanceAtBlock(d *deviant) {
	sender := senderText()
	// What is asked for is the balance after the last transaction of the block.
	d.node.set("accounts/"+sender+"?"+historical+"&limit=100&order=desc",
		`{"account":"0.0.1010","evm_address":"`+sender+`","balance":{"balance":5,"timestamp":"1767225597.999999999"},"created_timestamp":"1767225590.000000001","transactions":[]}`)
	d.says(
		[3]string{"eth_getBalance", `["` + sender + `","0xf"]`, `"0xba43b7400"`},
		[3]string{"eth_getBalance", `["` + sender + `","0x3e8"]`, "-39012 Unknown block"},
	)
}

func failedLookUp(d *deviant) {
	const service = "0x00000000000000000000000000000000000004d2"
	d.node.fail("tokens/0.0.1234", http.StatusTooManyRequests, `{"_status":{"messages":[{"message":"Too many"}]}}`)
	d.says([3]string{"eth_getCode", `["` + service + `","latest"]`, "-32020 Mirror node upstream failure: statusCode=429, message=Too many 429"})
	d.node.set("tokens/0.0.1234", `{"created_timestamp":"1.000000000"}`)
	d.says([3]string{"eth_getCode", `["` + service + `","latest"]`, `"0xef01000000000000000000000000000000000000000167"`})
	// Nor is the number of a receiver shown for want of its alias.
	d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[4], member{"to": service})))
	const alias = "accounts/0.0.1234?transactions=false"
	d.node.fail(alias, http.StatusServiceUnavailable, `{"_status":{"messages":[{"message":"Down"}]}}`)
	d.says([3]string{"eth_getTransactionByHash", `["` + oddHash + `"]`, "-32020 Mirror node upstream failure: statusCode=503, message=Down 503"})
	d.node.set(alias, `{"account":"0.0.1234","evm_address":"`+senderText()+`","balance":{"balance":1,"timestamp":"1.000000000"}}`)
	d.picks("eth_getTransactionByHash", `["`+oddHash+`"]`, map[string]string{"to": `"` + senderText() + `"`})
}

func lastPage(d *deviant) {
	page := func(next string) string {
		return text(member{"logs": []any{logJSON(synthetic, tokenLog, "0x", 0, 1, 17)}, "links": member{"next": next}})
	}
	first, second := "contracts/results/logs?"+window+"&limit=100&order=desc", "contracts/results/logs?page=2"
	d.node.set(first, page("/api/v1/"+second))
	d.node.set(second, listOf("logs"))
	if got := indexes(d.t, d.call("eth_getLogs", `[{}]`)); len(got) != 1 { // two pages are allowed, and two there are
		d.t.Errorf("%v", got)
	}
	d.node.set(second, page("/api/v1/contracts/results/logs?page=3"))
	fresh := &deviant{relay: newRelay(d.t, d.node, func(s *settings) { s.RPC.Profile, s.Mirror.MaxBlockLogPages = d.settings.RPC.Profile, 2 }), t: d.t}
	fresh.says([3]string{"eth_getLogs", `[{}]`, "-32011 Exceeded maximum mirror node pagination count: 2"})
}

func addressesAndTopics(d *deviant) {
	a := hexutil.Encode(contract[:])
	for filter, want := range map[string]int{
		`{"address":["` + a + `","` + a + `","0x` + strings.ToUpper(a[2:]) + `"]}`: 1,
		`{"address":[]}`: 2,
		`{"topics":[["` + transferID + `",null]]}`: 2,
	} {
		if got := indexes(d.t, d.call("eth_getLogs", `[`+filter+`]`)); len(got) != want {
			d.t.Errorf("%s: %v", filter, got)
		}
	}
	nullFields(d)
	d.says([3]string{"eth_getLogs", `[{"topics":[null,null,null,null,null]}]`, "-32602 Invalid parameter 0: exceed max topics: at most 4"})
}

// nullFields: a null in a filter counts as absent for clients of Ethereum, and is refused
// for those of established relays.
func nullFields(d *deviant) {
	for field, text := range map[string]string{
		"address":   "Expected 0x prefixed string representing the address (20 bytes) or an array of addresses",
		"topics":    "Expected an array or array of arrays containing Expected 0x prefixed string representing the hash (32 bytes) of a topic",
		"fromBlock": `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`,
		"toBlock":   `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`,
		"blockHash": "Expected Expected 0x prefixed string representing the hash (32 bytes) of a block",
	} {
		filter := `[{"` + field + `":null}]`
		if d.api.hiero() {
			for _, method := range []string{"eth_getLogs", "eth_newFilter"} {
				d.says([3]string{method, filter, "-32602 Invalid parameter '" + field + "' for FilterObject: " + text + ", value: null"})
			}
		} else if got := indexes(d.t, d.call("eth_getLogs", filter)); len(got) != 2 {
			d.t.Errorf("%s: %v", filter, got)
		}
	}
}

// beyondHead: a range that is not all on the chain yet is an error. Established relays end it at the head, and have
// nothing to say of one that ends further beyond it than MAX_BLOCK_RANGE. Neither is remembered when the chain has grown, and
// a block that the relay has not heard of is asked for.
func beyondHead(d *deviant) {
	filter := d.filter("eth_newFilter", `[{"fromBlock":"0x12"}]`)
	if d.api.hiero() {
		for last, want := range map[string]int{"0x16": 2, "0x17": 0, "0x64": 0} {
			if got := indexes(d.t, d.call("eth_getLogs", `[{"fromBlock":"0x11","toBlock":"`+last+`"}]`)); len(got) != want {
				d.t.Errorf("up to %s: %v", last, got)
			}
		}
		for _, to := range []string{`,"toBlock":"0x64"`, `,"toBlock":"latest"`, ""} {
			d.says([3]string{"eth_getLogs", `[{"fromBlock":"0x12"` + to + `}]`, "[]"})
		}
		d.says([3]string{"eth_getFilterLogs", `["` + filter + `"]`, "[]"})
	} else {
		for range 2 {
			d.says([3]string{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x12"}]`, "-32602 block range extends beyond current head block: requested 18, head 17"})
		}
		d.says([3]string{"eth_getFilterLogs", `["` + filter + `"]`, "-32602 block range extends beyond current head block: requested 18, head 17"})
	}
	d.says([3]string{"eth_getFilterChanges", `["` + filter + `"]`, "[]"})
	d.node.grow(18)
	if got := indexes(d.t, d.call("eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x12"}]`)); len(got) != 1 {
		d.t.Errorf("remembered: %v", got)
	}
}

func filterPolls(d *deviant) {
	ofHash := d.filter("eth_newFilter", `[{"blockHash":"`+blockHash+`"}]`)
	bounded := d.filter("eth_newFilter", `[{"toBlock":"0x12"}]`)
	blocks := d.filter("eth_newBlockFilter", `[]`)
	changes := func(id string) string { return d.changes(id).String() }
	if got := indexes(d.t, d.changes(ofHash)); len(got) != 2 {
		d.t.Errorf("of a block by its hash: %v", got)
	}
	if got := changes(bounded); got != "[]" {
		d.t.Errorf("the block in which the filter was made: %s", got)
	}
	d.node.grow(18)
	d.node.set("blocks?block.number=gte:18&block.number=lte:18&limit=100&order=asc", listOf("blocks", blockJSON(18)))
	if got := changes(blocks); got != fmt.Sprintf(`["%s"]`, blockJSON(18)["hash"].(string)[:66]) {
		d.t.Errorf("new blocks: %s", got)
	}
	// The head moves on after the poll has looked at it: nothing is passed over.
	d.node.grow(19)
	d.node.set("blocks?block.number=gte:19&block.number=lte:19&limit=100&order=asc", listOf("blocks", blockJSON(19)))
	if got := changes(blocks); got != fmt.Sprintf(`["%s"]`, blockJSON(19)["hash"].(string)[:66]) {
		d.t.Errorf("new blocks: %s", got)
	}
	if got := indexes(d.t, d.changes(bounded)); !slices.Equal(got, []string{"0x12:0x0"}) {
		d.t.Errorf("up to its last block: %v", got)
	}
	if got := changes(bounded); got != "[]" {
		d.t.Errorf("past its last block: %s", got)
	}
}

func transactionCount(d *deviant) {
	var block struct{ Transactions []common.Hash }
	unmarshal(d.t, d.call("eth_getBlockByNumber", `["0x11",false]`), &block)
	want := fmt.Sprintf(`"0x%x"`, len(block.Transactions))
	if d.api.hiero() {
		want = `"0x9"` // what the record file counts: native transactions, too
	}
	d.says(
		[3]string{"eth_getBlockTransactionCountByNumber", `["0x11"]`, want},
		[3]string{"eth_getBlockTransactionCountByHash", `["` + blockHash + `"]`, want},
	)
}

func receiptMembers(d *deviant) {
	root := ""
	if d.api.hiero() {
		root = `"` + types.EmptyRootHash.Hex() + `"`
	}
	for i, tx := range d.block {
		want := "null"
		if kinds[i] == "creation" {
			want = `"0xc0ffee0000000000000000000000000000000001"`
		} else if address, ok := tx.record["address"].(string); ok && d.api.hiero() {
			want = `"` + address + `"` // what the record is about
		}
		d.picks("eth_getTransactionReceipt", `["`+tx.Hash().Hex()+`"]`, map[string]string{"contractAddress": want, "root": root, "status": fmt.Sprintf(`"%s"`, tx.record["status"])})
	}
}

func paidPrice(d *deviant) {
	d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[4], member{"max_fee_per_gas": "0x5"})))
	d.picks("eth_getTransactionReceipt", `["`+oddHash+`"]`, map[string]string{"effectiveGasPrice": `"0x5"`})
	d.picks("eth_getTransactionReceipt", `["`+d.block[1].Hash().Hex()+`"]`, map[string]string{"effectiveGasPrice": `"0xa54f4c3c00"`}) // more was offered
}

func oneObject(d *deviant) {
	var full struct{ Transactions []json.RawMessage }
	unmarshal(d.t, d.call("eth_getBlockByNumber", `["0x11",true]`), &full)
	for i, object := range full.Transactions {
		hash := synthetic
		if i < len(d.block) {
			hash = d.block[i].Hash().Hex()
		}
		for method, params := range map[string]string{
			"eth_getTransactionByHash":                fmt.Sprintf(`["%s"]`, hash),
			"eth_getTransactionByBlockNumberAndIndex": fmt.Sprintf(`["0x11","0x%x"]`, i),
			"eth_getTransactionByBlockHashAndIndex":   fmt.Sprintf(`["%s","0x%x"]`, blockHash, i),
		} {
			d.says([3]string{method, params, string(object)})
		}
	}
	d.picks("eth_getTransactionByHash", `["`+d.block[3].Hash().Hex()+`"]`, map[string]string{"to": "null"})
}

func syntheticMembers(d *deviant) {
	for method, params := range map[string]string{"eth_getTransactionByHash": `["` + synthetic + `"]`, "eth_getTransactionByBlockNumberAndIndex": `["0x11","0x6"]`} {
		d.picks(method, params, map[string]string{"type": `"0x0"`, "chainId": `"0x12a"`, "from": `"` + senderText() + `"`})
	}
	d.picks("eth_getTransactionReceipt", `["`+synthetic+`"]`, map[string]string{"type": `"0x0"`, "from": `"` + senderText() + `"`})
	d.picks("debug_traceTransaction", `["`+synthetic+`",{"tracer":"callTracer"}]`, map[string]string{"from": `"` + senderText() + `"`})
}

func authorizationParity(d *deviant) {
	d.picks("eth_getTransactionByHash", `["`+d.block[5].Hash().Hex()+`"]`, map[string]string{
		"authorizationList": fmt.Sprintf(`[{"chainId":"0x12a","address":"%s","nonce":"0x9","yParity":"0x1","r":"0xa","s":"0xb"}]`, hexutil.Encode(contract[:])),
	})
}

func signatureNumbers(d *deviant) {
	d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[4], member{"r": "0x000a", "s": "0x00"})))
	d.picks("eth_getTransactionByHash", `["`+oddHash+`"]`, map[string]string{"r": `"0xa"`, "s": `"0x0"`})
}

func rootsAndEncodings(d *deviant) {
	zero, empty := `"`+(common.Hash{}).Hex()+`"`, `"`+types.EmptyRootHash.Hex()+`"`
	nothing := map[string]string{"transactionsRoot": empty, "receiptsRoot": empty, "withdrawalsRoot": empty}
	if d.api.hiero() {
		nothing["receiptsRoot"], nothing["withdrawalsRoot"] = zero, zero
	}
	d.picks("eth_getBlockByNumber", `["0xf",true]`, nothing)
	for _, root := range []string{"transactionsRoot", "receiptsRoot"} {
		got := fields(d.t, d.call("eth_getBlockByNumber", `["0x11",true]`), root)[0]
		if isHash := got == `"`+blockHash+`"`; isHash != (d.api.hiero() && root == "transactionsRoot") || got == zero || got == empty {
			d.t.Errorf("%s %s", root, got)
		}
	}
	if d.api.hiero() {
		flatRawBlock(d)
	} else {
		var block types.Block
		n := &network{relay: d.relay}
		if err := rlp.DecodeBytes(n.bytes("debug_getRawBlock", `["0x11"]`), &block); err != nil || len(block.Transactions()) != len(d.block)+1 {
			d.t.Errorf("raw block: %v, %d transactions", err, len(block.Transactions()))
		}
	}
	var raw []hexutil.Bytes
	unmarshal(d.t, d.call("debug_getRawReceipts", `["0x11"]`), &raw)
	for i, encoded := range raw {
		var receipt types.Receipt
		err := receipt.UnmarshalBinary(encoded)
		if d.api.hiero() { // a root where the status would be
			if err != nil || len(receipt.PostState) != common.HashLength {
				d.t.Errorf("raw receipt %d: %v, root %x", i, err, receipt.PostState)
			}
			continue
		}
		if err != nil || i < len(d.block) && (receipt.Status == 1) != (d.block[i].record["status"] == "0x1") {
			d.t.Errorf("raw receipt %d: %v, status %d", i, err, receipt.Status)
		}
	}
}

// flatRawBlock: established relays write the header's fields, the transactions as strings,
// no uncles and no withdrawals in one list.
func flatRawBlock(d *deviant) {
	n := &network{relay: d.relay}
	var list, head []rlp.RawValue
	if err := rlp.DecodeBytes(n.bytes("debug_getRawBlock", `["0x11"]`), &list); err != nil || len(list) != 20 {
		d.t.Fatalf("raw block: %v, %d parts", err, len(list))
	}
	if err := rlp.DecodeBytes(n.bytes("debug_getRawHeader", `["0x11"]`), &head); err != nil || len(head) != 17 {
		d.t.Fatalf("raw header: %v, %d parts", err, len(head))
	}
	for i, field := range head {
		if !bytes.Equal(field, list[i]) {
			d.t.Errorf("part %d is %x, in the header %x", i, list[i], field)
		}
	}
	var transactions [][]byte
	if err := rlp.DecodeBytes(list[17], &transactions); err != nil || len(transactions) != len(d.block)+1 {
		d.t.Fatalf("transactions: %v, %d of them", err, len(transactions))
	}
	var first types.Transaction
	if err := first.UnmarshalBinary(transactions[0]); err != nil || first.Hash() != d.block[0].Hash() {
		d.t.Errorf("%v, %s", err, first.Hash())
	}
	if string(list[18]) != "\xc0" || string(list[19]) != "\xc0" {
		d.t.Errorf("uncles %x, withdrawals %x", list[18], list[19])
	}
}

func blooms(d *deviant) {
	block := blockJSON(15)
	block["logs_bloom"] = nil
	d.node.set("blocks/15", text(block))
	d.picks("eth_getBlockByNumber", `["0xf",false]`, map[string]string{"logsBloom": `"0x` + strings.Repeat("00", types.BloomByteLength) + `"`})
	var full struct{ LogsBloom types.Bloom }
	var receipts []struct{ LogsBloom types.Bloom }
	unmarshal(d.t, d.call("eth_getBlockByNumber", `["0x11",false]`), &full)
	unmarshal(d.t, d.call("eth_getBlockReceipts", `["0x11"]`), &receipts)
	var union types.Bloom
	for _, r := range receipts {
		for i, bits := range r.LogsBloom {
			union[i] |= bits
		}
	}
	if full.LogsBloom != union || !types.BloomLookup(union, common.HexToAddress(tokenLog)) {
		d.t.Errorf("bloom of the block %x, of its receipts %x", full.LogsBloom, union)
	}
}

func traces(d *deviant) {
	hash := d.block[2].Hash().Hex()
	action := func(depth int, m member) member { return actionJSON(depth, "CALL", m) }
	d.node.set("contracts/results/"+hash+"/actions?limit=100&order=asc", listOf("actions", action(0, nil), action(1, nil), action(2, nil), action(1, nil)))
	var root callFrame
	unmarshal(d.t, d.call("debug_traceTransaction", `["`+hash+`",{"tracer":"callTracer","tracerConfig":{"unknown":true}}]`), &root)
	if len(root.Calls) != 2 || len(root.Calls[0].Calls) != 1 || len(root.Calls[1].Calls) != 0 || root.Error != "" {
		d.t.Errorf("not a tree: %+v", root)
	}
	for _, options := range []string{`{}`, `{"timeout":"5s"}`, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`} {
		if got := d.call("debug_traceTransaction", `["`+synthetic+`",`+options+`]`); got.Error != nil {
			d.t.Errorf("%s: %s", options, got)
		}
	}
	var transfer callFrame // it did what it was meant to, without an action
	unmarshal(d.t, d.call("debug_traceTransaction", `["`+d.block[0].Hash().Hex()+`",{"tracer":"callTracer"}]`), &transfer)
	if transfer.Error != "" || transfer.RevertReason != "" || transfer.Type != "CALL" {
		d.t.Errorf("a transfer: %+v", transfer)
	}
}

func overridesForwarded(d *deviant) {
	sent := `{"estimate":false,"block":"latest",` + to + `,"state_overrides":[{"address":"0x05fba803be258049a27b820088bab1cad2058871","nonce":"0x5"}]}`
	d.node.set(sent, `{"result":"0x2a"}`)
	d.says([3]string{"eth_call", `[{` + to + `},"latest",{"0x05fba803be258049a27b820088bab1cad2058871":{"nonce":"0x5"}}]`, `"0x2a"`})
}

func estimateAtBlock(d *deviant) {
	d.node.set(`{"estimate":true,"block":"0x10",`+to+`,"data":"0x02"}`, `{"result":"0x5208"}`)
	d.says(
		[3]string{"eth_estimateGas", `[{` + to + `,"data":null,"input":"0x02"},"0x10"]`, `"0x5208"`},
		[3]string{"eth_estimateGas", `[{` + to + `,"input":"0x2"}]`, "-32602 Invalid parameter 'input' for TransactionObject: Expected 0x prefixed hexadecimal value with even length, value: 0x2"},
	)
}

func failedCalls(d *deviant) {
	sent := `{"estimate":false,"block":"latest",` + to + `}`
	d.node.fail(sent, 400, `{"_status":{"messages":[{"message":"CONTRACT_REVERT_EXECUTED","detail":"not 0xabc","data":"`+errorHi+`"}]}}`)
	want := "hi" // what the contract said
	if d.api.hiero() {
		want = "not 0xabc" // what the mirror node says that it said
	}
	d.says([3]string{"eth_call", `[{` + to + `},"latest"]`, `3 execution reverted: ` + want + ` "` + errorHi + `"`})
	for _, status := range []int{429, 503} {
		d.node.fail(sent, status, `{"_status":{"messages":[{"message":"Busy"}]}}`)
		d.says([3]string{"eth_call", `[{` + to + `},"latest"]`, fmt.Sprintf("-32020 Mirror node upstream failure: statusCode=%d, message=Busy %d", status, status)})
	}
}

func notThere(d *deviant) {
	d.says(
		[3]string{"eth_syncing", `[]`, "false"},
		[3]string{"net_peerCount", `[]`, "-32601 Unsupported JSON-RPC method"},
		[3]string{"eth_coinbase", `[]`, "-32601 Unsupported JSON-RPC method"},
		[3]string{"admin_config", `[]`, `{"relay":{"config":{}},"upstreamDependencies":[]}`}, // there is
	)
}

func envelopes(d *deviant) {
	post := func(body string) string {
		_, answer := d.posts(body)
		return answer
	}
	for body, want := range map[string][]string{
		`{"jsonrpc":"2.0","id":0,"method":"eth_getBalance","params":null}`:      {`"code":-32602`, `"id":0`},
		`{"jsonrpc":"2.0","id":"","method":"eth_getBalance","params":[]}`:       {`"code":-32602`, `"id":""`},
		`{"jsonrpc":"2.0","id":true,"method":"eth_chainId"}`:                    {`"code":-32600`, `"id":null`},
		`{"jsonrpc":"2.0","id":{"a":1},"method":"eth_chainId","params":[]}`:     {`"code":-32600`, `"id":null`},
		`{"jsonrpc":"2.0","id":7,"method":"eth_noSuchMethod","params":{"a":1}}`: {`"code":-32601`, `"id":7`},
	} {
		got := post(body)
		for _, part := range append(want, `"error"`) {
			if !strings.Contains(got, part) {
				d.t.Errorf("%s: %s lacks %s", body, got, part)
			}
		}
	}
	batch := post(`[{"jsonrpc":"2.0","id":1,"method":"eth_newBlockFilter","params":[]},{"jsonrpc":"2.0","id":2,"method":"eth_chainId","params":[]}]`)
	if refused := strings.Contains(batch, `"code":-32007`); refused != d.api.hiero() || !strings.Contains(batch, `"0x12a"`) {
		d.t.Errorf("a filter made in a batch: %s", batch)
	}
	named := strings.Contains(post(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[]}`), "[Request ID: ")
	if named != d.api.hiero() {
		d.t.Errorf("a request id in the message: %v", named)
	}
}

func feeHistoryRows(d *deviant) {
	d.says([3]string{"eth_feeHistory", `["0x5","0x1",[50]]`, `{"baseFeePerGas":["0xa54f4c3c00","0xa54f4c3c00","0xa54f4c3c00"],"gasUsedRatio":[0.5,0.5],"oldestBlock":"0x0","reward":[["0x0"],["0x0"]]}`})
	d.node.fail("network/fees", http.StatusInternalServerError, `{"_status":{"messages":[{"message":"Internal error"}]}}`)
	d.says([3]string{"eth_feeHistory", `["0x1","latest",[]]`, "-32020 Mirror node upstream failure: statusCode=500, message=Internal error 500"})
}

func pastNonce(d *deviant) {
	query := "contracts/results?from=" + senderText() + "&timestamp=lte:1767225597.999999999&limit=10&order=desc&hbar=false"
	for want, results := range map[string][]any{
		`"0x0"`: {odd(d.block[4], member{"from": "0x00000000000000000000000000000000000003f3"})}, // it was the receiver only
		`"0x3"`: {odd(d.block[4], member{"gas_used": 0}), d.block[2].record},                     // the last one never ran
	} {
		d.node.set(query, listOf("results", results...))
		d.says([3]string{"eth_getTransactionCount", `["` + senderText() + `","0xf"]`, want})
	}
}

// defaults: clients of Ethereum may leave the block out; established relays want it.
func defaults(d *deviant) {
	d.node.set(`{"estimate":false,"block":"latest",`+to+`}`, `{"result":"0x2a"}`)
	for method, want := range map[string][3]string{ // parameters without the block, the answer, and the block's place
		"eth_getBalance":          {`"` + senderText() + `"`, `"0x112210f4768db400"`, "1"},
		"eth_getTransactionCount": {`"` + senderText() + `"`, `"0x6"`, "1"},
		"eth_getCode":             {`"` + contract.Hex() + `"`, `"0x"`, "1"},
		"eth_getStorageAt":        {`"` + contract.Hex() + `","0x0"`, `"` + common.Hash{}.Hex() + `"`, "2"},
		"eth_call":                {`{` + to + `}`, `"0x2a"`, "1"},
	} {
		d.says([3]string{method, "[" + want[0] + `,"latest"]`, want[1]})
		without, null := want[1], want[1]
		if d.api.hiero() {
			without = "-32602 Missing value for required parameter " + want[2]
			null = "-32602 Invalid parameter " + want[2] + ": The value passed is not valid: null."
		}
		d.says([3]string{method, "[" + want[0] + "]", without}, [3]string{method, "[" + want[0] + ",null]", null})
	}
	d.says([3]string{"web3_sha3", `["0x1"]`, "-32602 Invalid parameter 0: Expected 0x prefixed hexadecimal value with even length, value: 0x1"})
}
