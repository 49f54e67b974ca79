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

// Deviations of established relays, in both profiles, which no other test shows as a whole. Where their clients rely on one,
// profile hiero has it (TestWhereTheProfilesDiffer).
func TestDeviations(t *testing.T) {
	rows := map[string]func(*deviant){
		"logs and calls of an open range are not remembered":                    openRanges,
		"state near the head is not remembered":                                 nearHead,
		"hashes and objects name blocks everywhere":                             namedBlocks,
		"an unknown block hash":                                                 unknownHash,
		"a failed look-up of an address is no answer":                           failedLookUp,
		"null in a filter is refused in profile hiero":                          nullFields,
		"raw blocks are flat in profile hiero":                                  flatRawBlock,
		"there is admin_config":                                                 adminConfig,
		"the block parameter is required in profile hiero, and bytes are whole": defaults,
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

// flatRawBlock: established relays write the header's fields, the transactions as strings,
// no uncles and no withdrawals in one list.
func flatRawBlock(d *deviant) {
	if !d.api.hiero() {
		return // debug_test.go has the others
	}
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

func adminConfig(d *deviant) {
	d.says(
		[3]string{"admin_config", `[]`, `{"relay":{"config":{}},"upstreamDependencies":[]}`},
	)
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
