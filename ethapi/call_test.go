package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
)

const (
	to      = `"to":"0x05fba803be258049a27b820088bab1cad2058871"`
	errorHi = "0x08c379a0" + // Error("hi")
		"0000000000000000000000000000000000000000000000000000000000000020" +
		"0000000000000000000000000000000000000000000000000000000000000002" +
		"6869000000000000000000000000000000000000000000000000000000000000"
	panic11 = "0x4e487b710000000000000000000000000000000000000000000000000000000000000011"
	custom  = "0xdeadbeef"
)

// What is sent to the mirror node for a transaction object, a block and overrides.
func TestCallRequest(t *testing.T) {
	operator := common.HexToAddress("0x0a")
	relay, _ := populated(t, func(s *settings) { s.deps.Operator = &operator; s.deps.MaxCallGas = 1000 })
	const operatorText = `"from":"0x000000000000000000000000000000000000000a",`
	tests := []struct{ params, sent string }{
		{`[{` + to + `}]`, `{"estimate":false,"block":"latest",` + to + `}`},
		{`[{` + to + `,"data":"0x01"},"0x10"]`, `{"estimate":false,"block":"0x10",` + to + `,"data":"0x01"}`},
		{`[{` + to + `,"input":"0x02"},"earliest"]`, `{"estimate":false,"block":"earliest",` + to + `,"data":"0x02"}`},
		{`[{` + to + `,"input":"0x02","data":"0x01"},{"blockNumber":"0x1"}]`, `{"estimate":false,"block":"0x1",` + to + `,"data":"0x02"}`},
		{`[{` + to + `,"input":"0x","data":"0x01"},"pending"]`, `{"estimate":false,"block":"pending",` + to + `,"data":"0x01"}`},
		{`[{` + to + `,"input":"0x02","data":null},{"blockHash":"` + blockHash + `"}]`, `{"estimate":false,"block":"` + blockHash + `",` + to + `,"data":"0x02"}`},
		{`[{` + to + `,"gas":"0x5"}]`, `{"estimate":false,"block":"latest",` + to + `,"gas":5}`},
		{`[{` + to + `,"gas":"0xffffff"}]`, `{"estimate":false,"block":"latest",` + to + `,"gas":1000}`},
		{`[{` + to + `,"gas":"0x0","gasPrice":"0x0","value":"0x0"}]`, `{"estimate":false,"block":"latest",` + to + `}`},
		{`[{` + to + `,"gasPrice":"0xffffffffffffffffff"}]`, `{"estimate":false,"block":"latest",` + to + `,"gasPrice":4722366482869645213695}`},
		// Weibar become tinybars; the least amount is one.
		{`[{` + to + `,"value":"0x4a817c800"}]`, `{"estimate":false,"block":"latest",` + operatorText + to + `,"value":2}`},
		{`[{` + to + `,"value":"0x1"}]`, `{"estimate":false,"block":"latest",` + operatorText + to + `,"value":1}`},
		{`[{"from":"0x0B00000000000000000000000000000000000000",` + to + `,"value":"0x"}]`, `{"estimate":false,"block":"latest","from":"0x0b00000000000000000000000000000000000000",` + to + `}`},
		{`[{"data":"0x6001","to":null}]`, `{"estimate":false,"block":"latest","data":"0x6001"}`},
		{`[{` + to + `},"latest",{"0x05fba803be258049a27b820088bab1cad2058871":{"balance":"0x4a817c800"}}]`, `{"estimate":false,"block":"latest",` + to + `,"state_overrides":[{"address":"0x05fba803be258049a27b820088bab1cad2058871","balance":"0x2"}]}`},
		{`[{` + to + `},"latest",{}]`, `{"estimate":false,"block":"latest",` + to + `}`},
		{`[{` + to + `},"latest",{},{}]`, `{"estimate":false,"block":"latest",` + to + `}`}, // nothing of the block is another
		{`[{` + to + `},"latest",null,{"number":null}]`, `{"estimate":false,"block":"latest",` + to + `}`},
		{`[{` + to + `},"latest",null,null]`, `{"estimate":false,"block":"latest",` + to + `}`},
		{`[{` + to + `,"accessList":[],"nonce":"0x1","type":"0x2","maxFeePerGas":"0x1","unknown":{}}]`, `{"estimate":false,"block":"latest",` + to + `,"accessList":[]}`},
	}
	for _, test := range tests {
		relay.node.set(test.sent, `{"result":"0x2a"}`)
		relay.node.requests()
		got := relay.call("eth_call", test.params)
		if diff := cmp.Diff([]string{test.sent}, relay.node.requests()); diff != "" || got.String() != `"0x2a"` {
			t.Errorf("%s: %s %s", test.params, got, diff)
		}
	}
	relay.expect(
		[3]string{"eth_call", `[{` + to + `,"value":"0x` + strings.Repeat("f", 40) + `"}]`, "-32000 Invalid arguments: value 0x" + strings.Repeat("f", 40) + " is more than there is"},
		[3]string{"eth_call", `[{` + to + `,"gas":"0x1ffffffffffffffff"}]`, "-32000 Invalid arguments: gas 0x1ffffffffffffffff does not fit 64 bits"},
	)
}

func TestEstimateGas(t *testing.T) {
	relay, _ := populated(t)
	estimate := func(params, sent, answer, want string) {
		t.Helper()
		relay.node.set(sent, answer)
		relay.expect([3]string{"eth_estimateGas", params, want})
	}
	estimate(`[{`+to+`,"data":"0x"}]`, `{"estimate":true,"block":"latest",`+to+`}`, `{"result":"0x0000000000005208"}`, `"0x5208"`)
	estimate(`[{`+to+`,"gas":"0xffffffff"},"0x10"]`, `{"estimate":true,"block":"0x10",`+to+`,"gas":15000000}`, `{"result":"0x00000000000061a8"}`, `"0x61a8"`)
	estimate(`[{`+to+`,"gas":"0x1"}]`, `{"estimate":true,"block":"latest",`+to+`,"gas":1}`, `{"result":"0x"}`, "-32603 Error invoking RPC: Fail to retrieve gas estimate")

	drop, _ := populated(t, hiero)
	drop.node.set(`{"estimate":true,"block":"latest",`+to+`,"gas":4294967295}`, `{"result":"0x5209"}`)
	drop.expect([3]string{"eth_estimateGas", `[{` + to + `,"gas":"0xffffffff"}]`, `"0x5209"`})
}

// message is a mirror node's error: message, detail and data of each of its parts.
func message(parts ...string) string {
	var all []string
	for i := 0; i+2 < len(parts); i += 3 {
		all = append(all, fmt.Sprintf(`{"message":%q,"detail":%q,"data":%q}`, parts[i], parts[i+1], parts[i+2]))
	}
	return `{"_status":{"messages":[` + strings.Join(all, ",") + `]}}`
}

func TestCallErrors(t *testing.T) {
	const reverted = "CONTRACT_REVERT_EXECUTED"
	both := func(text string) [2]string { return [2]string{text, text} }
	tests := map[string]struct {
		status int
		body   string
		want   [2]string // hiero, ethereum
	}{
		"reason":           {400, message(reverted, "hi", errorHi), both(`3 execution reverted: hi "` + errorHi + `"`)},
		"no detail":        {400, message(reverted, "", errorHi), both(`3 execution reverted: hi "` + errorHi + `"`)},
		"no reason":        {400, message(reverted, "", "0x"), [2]string{`3 execution reverted: CONTRACT_REVERT_EXECUTED "0x"`, `3 execution reverted "0x"`}},
		"no data":          {400, message(reverted, "", ""), [2]string{`3 execution reverted: CONTRACT_REVERT_EXECUTED ""`, `3 execution reverted "0x"`}},
		"custom":           {400, message(reverted, "", custom), [2]string{`3 execution reverted: CONTRACT_REVERT_EXECUTED "0xdeadbeef"`, `3 execution reverted "0xdeadbeef"`}},
		"panic":            {400, message(reverted, "", panic11), [2]string{`3 execution reverted: CONTRACT_REVERT_EXECUTED "` + panic11 + `"`, `3 execution reverted: arithmetic underflow or overflow "` + panic11 + `"`}},
		"encoded detail":   {400, message(reverted, errorHi, ""), [2]string{`3 execution reverted: hi ""`, `3 execution reverted "0x"`}},
		"hex in the text":  {400, message(reverted, "not 0xabc", errorHi), [2]string{`3 execution reverted: not 0xabc "` + errorHi + `"`, `3 execution reverted: hi "` + errorHi + `"`}},
		"inner calls":      {400, message(reverted, "outer", "0x", "INSUFFICIENT_GAS", "", "", "X", "inner", ""), [2]string{`3 execution reverted: outer, INSUFFICIENT_GAS, inner "0x"`, `3 execution reverted "0x"`}},
		"fail invalid":     {400, message("FAIL_INVALID", "", "0x12"), both(`3 execution reverted: FAIL_INVALID "0x12"`)},
		"fail invalid 500": {500, message("FAIL_INVALID", "", ""), [2]string{`3 execution reverted: FAIL_INVALID ""`, `3 execution reverted: FAIL_INVALID "0x"`}},
		"validation":       {400, message("Bad Request", "gas field must be less than or equal to 15000000", ""), both("-32000 Error occurred during transaction simulation: gas field must be less than or equal to 15000000")},
		"halt":             {400, message("INVALID_CONTRACT_ID", "", ""), both("-32000 Error occurred during transaction simulation: INVALID_CONTRACT_ID")},
		"funds":            {400, message("INSUFFICIENT_PAYER_BALANCE", "not enough", ""), [2]string{"-32000 Error occurred during transaction simulation: not enough", "-32000 insufficient funds for gas * price + value"}},
		"gas":              {400, message("INSUFFICIENT_GAS", "", ""), [2]string{"-32000 Error occurred during transaction simulation: INSUFFICIENT_GAS", "-32000 out of gas"}},
		"unknown block":    {404, message("Not Found", "block", ""), [2]string{"-39012 Unknown block", "-39012 header not found"}},
		"throttled":        {429, message("Too Many Requests", "", ""), both("-32020 Mirror node upstream failure: statusCode=429, message=Too Many Requests 429")},
		"not implemented":  {501, message("Not Implemented", "", ""), both("-32020 Mirror node upstream failure: statusCode=501, message=Not Implemented 501")},
		"gateway's 404":    {404, "<html>", both("-32020 Mirror node upstream failure: statusCode=502, message=unreadable answer 502")},
		"gateway's 400":    {400, "<html>", both("-32020 Mirror node upstream failure: statusCode=400, message=Request failed with status code 400 400")},
		"broken":           {503, "", both("-32020 Mirror node upstream failure: statusCode=503, message=Request failed with status code 503 503")},
	}
	drop, _ := populated(t, hiero)
	right, _ := populated(t)
	for name, test := range tests {
		for i, relay := range []*relay{drop, right} {
			for method, estimate := range map[string]string{"eth_call": "false", "eth_estimateGas": "true"} {
				relay.node.fail(`{"estimate":`+estimate+`,"block":"latest",`+to+`}`, test.status, test.body)
				got := relay.call(method, `[{`+to+`},"latest"]`)
				if _, rest, prefixed := strings.Cut(got.Error.Message, "] "); prefixed && i == 0 {
					got.Error.Message = rest
				}
				if got.String() != test.want[i] {
					t.Errorf("%s, %s: %s, want %s", name, method, got, test.want[i])
				}
				if got.Error.Code == 3 && got.status != 200 {
					t.Errorf("%s: HTTP status %d", name, got.status)
				}
			}
		}
	}
}

func TestRevertReason(t *testing.T) {
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	for text, want := range map[string]string{
		errorHi: "hi", panic11: "arithmetic underflow or overflow",
		"0x4e487b71" + word(0x99):           "unknown panic code: 0x99",
		"0x08c379a0" + word(0x20) + word(0): "",
	} {
		if got, ok := revertReason(common.FromHex(text)); !ok || got != want {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "0x", "0x08c379", custom, "0x08c379a0", "0x08c379a0" + word(0x20), "0x08c379a0" + word(0x21) + word(2), "0x08c379a0" + word(0x20) + word(99),
		"0x08c379a0" + strings.Repeat("f", 64), "0x08c379a0" + word(0x20) + strings.Repeat("f", 64), "0x4e487b71", "0x4e487b71" + strings.Repeat("f", 64),
		"0x08c379a0" + word(0x20) + word(1) + "ff" + strings.Repeat("0", 62),
	} {
		if got, ok := revertReason(common.FromHex(text)); ok {
			t.Errorf("%s: decoded as %q", text, got)
		}
	}
}

func FuzzRevertReason(f *testing.F) {
	f.Add(common.FromHex(errorHi))
	f.Add(common.FromHex(panic11))
	f.Fuzz(func(t *testing.T, data []byte) {
		if reason, ok := revertReason(data); ok && len(reason) > len(data)+64 {
			t.Errorf("%x gives %q", data, reason)
		}
	})
}

// mocked is the address of a contract that exists for one call only, and running an
// override that gives it some code.
const mocked = "0x7700000000000000000000000000000000000abc"

func running(code string) string { return `{"` + mocked + `":{"code":"0x` + code + `"}}` }

// A call sees the block that it asks for.
func TestCallInAnotherBlock(t *testing.T) {
	s := newTraced(t)
	for _, test := range []struct{ opcode, overrides, want string }{
		{"43", `{"number":"0x1234"}`, "0x1234"},
		{"42", `{"time":"0xffffffffff"}`, "0xffffffffff"},
		{"45", `{"gasLimit":"0x99"}`, "0x99"},
		{"41", `{"feeRecipient":"` + mocked + `"}`, mocked},
		{"44", `{"prevRandao":"0x77","difficulty":"0x66"}`, "0x77"},
		{"48", `{"baseFeePerGas":"0x55"}`, "0x55"},
		{"4a", `{"blobBaseFee":"0x44"}`, "0x44"},
		{"43", `{"number":"0x8","time":null}`, "0x8"},
		{"42", `{"time":"0x0"}`, "0x0"},
		{"45", `{"gasLimit":"0x0"}`, "0x0"},
		{"44", `{"prevRandao":"0x0"}`, "0x0"},
		{"48", `{"baseFeePerGas":"0x0"}`, "0x0"},
		{"4a", `{"blobBaseFee":"0x0"}`, "0x0"},
	} {
		want := fmt.Sprintf(`"%s"`, common.HexToHash(test.want))
		s.expect([3]string{"eth_call", `[{"to":"` + mocked + `"},"latest",` + running(test.opcode+"60005260206000f3") + `,` + test.overrides + `]`, want})
	}
	to := fmt.Sprintf(`"to":"%s"`, s.counter)
	other := func(call, overrides string) string { return `[` + call + `,"latest",{},` + overrides + `]` }
	const system = `{"to":"0x0000000000000000000000000000000000000167"}`
	reverted := s.relay.call("eth_call", `[{"to":"`+s.refuser.Hex()+`"}]`).String()
	if !strings.HasPrefix(reverted, `3 execution reverted: never "0x08c379a0`) {
		t.Fatal(reverted)
	}
	for _, method := range []string{"eth_call", "eth_estimateGas"} {
		s.expect(
			[3]string{method, other(`{"to":"`+s.refuser.Hex()+`"}`, `{"time":"0xffffffffff"}`), reverted},
			[3]string{method, other(`{`+to+`,"gas":"0x55f0"}`, `{"number":"0x1"}`), "-32000 out of gas"},
			[3]string{method, other(`{`+to+`,"gas":"0x5207"}`, `{"number":"0x1"}`), "-32000 Error occurred during transaction simulation: intrinsic gas too low: have 20999, want 21000"},
			[3]string{method, other(`{`+to+`,"from":"`+s.refuser.Hex()+`","value":"0xffffffffffff"}`, `{"number":"0x1"}`), "-32000 insufficient funds for gas * price + value"},
			[3]string{method, other(system, `{"number":"0x1"}`), "-32000 Error occurred during transaction simulation: the system contract at 0x0000000000000000000000000000000000000167 runs on the network only; use eth_call without block overrides"},
			[3]string{method, `[{"to":"` + mocked + `"},"latest",` + running("fe") + `,{"number":"0x1"}]`, "-32000 Error occurred during transaction simulation: invalid opcode: INVALID"},
			[3]string{method, other(`{`+to+`}`, `{"withdrawals":[]}`), `-32000 Invalid arguments: block override "withdrawals" is not supported`},
			[3]string{method, other(`{`+to+`}`, `{"number":"now"}`), `-32602 invalid argument 3: block override "number": Expected 0x prefixed hexadecimal value without leading zeros, value: now`},
			[3]string{method, other(`{`+to+`}`, `{"gasLimit":"0x05"}`), `-32602 invalid argument 3: block override "gasLimit": Expected 0x prefixed hexadecimal value without leading zeros, value: 0x05`},
			[3]string{method, other(`{`+to+`}`, `{"baseFeePerGas":"0x"}`), `-32602 invalid argument 3: block override "baseFeePerGas": Expected 0x prefixed hexadecimal value without leading zeros, value: 0x`},
			[3]string{method, other(`{`+to+`}`, `{"feeRecipient":"0x1"}`), `-32602 invalid argument 3: block override "feeRecipient": Expected 0x prefixed string representing the address (20 bytes), value: 0x1`},
			[3]string{method, `[{` + to + `},"latest",{"` + mocked + `":{"balance":"0x05"}},{"number":"0x1"}]`, `-32602 invalid argument 2: override of ` + strings.ToLower(mocked) + `: balance: Expected 0x prefixed hexadecimal value without leading zeros`},
			[3]string{method, other(`{`+to+`}`, `7`), "-32602 invalid argument 3: Expected BlockOverrides object, value: 7"},
			[3]string{method, other(`{`+to+`}`, `{},{}`), "-32602 too many arguments, want at most 4"},
		)
		if got := s.hiero.call(method, other(`{`+to+`}`, `{}`)); got.Error == nil || got.Error.Code != -32602 || !strings.HasSuffix(got.Error.Message, "Invalid params") {
			t.Errorf("%s in profile hiero: %s", method, got)
		}
	}
}

// An estimate is enough, and not much more than that.
func TestEstimateInAnotherBlock(t *testing.T) {
	s := newTraced(t)
	check := func(name, call, rest string) {
		t.Helper()
		estimate := s.quantity("eth_estimateGas", `[`+call+`,`+rest+`]`).Uint64()
		limited := func(gas uint64) response {
			return s.relay.call("eth_call", fmt.Sprintf(`[%s,"gas":"0x%x"},%s]`, strings.TrimSuffix(call, "}"), gas, rest))
		}
		if got := limited(estimate); got.Error != nil {
			t.Errorf("%s: %d gas: %s", name, estimate, got)
		}
		if less := estimate - estimate/64 - 1; limited(less).Error == nil {
			t.Errorf("%s: %d gas is said to be needed, and %d is enough", name, estimate, less)
		}
	}
	for name, tx := range map[string]*types.Transaction{"nested": s.call, "log": s.withLog, "creation": s.deploy, "transfer that creates": s.plain} {
		call := s.callOf(tx)
		head, tail, _ := strings.Cut(call, fmt.Sprintf(`"gas":"0x%x",`, tx.Gas()))
		check(name, head+tail, `"`+s.before(tx)+`",{},{"number":"0x99"}`)
	}
	const spared = "5a620186a010600e5760006000fd5b00" // REVERT unless more than 100,000 gas is left
	check("gas that must be left", `{"to":"`+mocked+`"}`, `"latest",`+running(spared)+`,{"number":"0x99"}`)
	exact := s.quantity("eth_estimateGas", fmt.Sprintf(`[%s,"%s",null,{"time":"0xffffffffff"}]`, s.callOf(s.withLog), s.before(s.withLog)))
	if used := s.receipt(s.withLog).GasUsed; exact.Uint64() != used {
		t.Errorf("a plain call: %s gas, the network took %s", exact, hexutil.Uint64(used))
	}
	unaffordable := fmt.Sprintf(`[{"from":"%s","to":"%s","maxFeePerGas":"0xba43b7400000"},"%s",null,{"number":"0x99"}]`, s.refuser, s.counter, s.before(s.withLog))
	if got := s.quantity("eth_estimateGas", unaffordable); got.Cmp(exact) != 0 {
		t.Errorf("for one who cannot pay: %s gas, want %s", got, exact)
	}
}

func TestStateOverrides(t *testing.T) {
	const address = "0x05fba803be258049a27b820088bab1cad2058871"
	word := func(digit string) string { return "0x" + strings.Repeat("0", 63) + digit }
	member := func(members string) string { return `{"` + address + `":{` + members + `}}` }
	sent := func(members string) string { return `[{"address":"` + address + `"` + members + `}]` }
	wrong := func(text string) string {
		return "Invalid parameter 2: override of " + address + ": " + text
	}
	tests := []struct{ overrides, want string }{
		{`{}`, ``},
		{`{"` + address + `":null}`, ``},
		{member(``), sent(``)},
		{member(`"nonce":"0x5","code":"0x6001","balance":null`), sent(`,"nonce":"0x5","code":"0x6001"`)},
		{member(`"balance":"0xde0b6b3a7640000"`), sent(`,"balance":"0x5f5e100"`)},
		{member(`"code":"0x"`), sent(`,"code":"0x"`)},
		{member(`"state":{}`), sent(`,"state":[]`)},
		{member(`"stateDiff":{"0x1":"0x2"}`), sent(`,"state_diff":[{"key":"` + word("1") + `","value":"` + word("2") + `"}]`)},
		{member(`"unknown":1`), sent(``)},
		{strings.ToUpper(`{"` + address + `":{}}`), sent(``)},
		{member(`"state":{},"stateDiff":{}`), wrong("state and stateDiff are mutually exclusive")},
		{member(`"state":[]`), wrong("state: Expected an object of 32-byte words by 32-byte keys")},
		{member(`"state":{"0xg":"0x1"}`), wrong("state: Expected an object of 32-byte words by 32-byte keys")},
		{member(`"stateDiff":{"0x1":7}`), wrong("stateDiff: Expected an object of 32-byte words by 32-byte keys")},
		{member(`"nonce":"0x1ffffffffffffffff"`), wrong("nonce: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"nonce":7`), wrong("nonce: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"nonce":"0x"`), wrong("nonce: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"nonce":"0x0","balance":"0x0"`), sent(`,"balance":"0x0","nonce":"0x0"`)},
		{member(`"balance":"0x05"`), wrong("balance: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"balance":"0x1` + strings.Repeat("0", 64) + `"`), wrong("balance: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"code":"0x1"`), wrong("code: Expected 0x prefixed hexadecimal value with even length")},
		{member(`"balance":7`), wrong("balance: Expected 0x prefixed hexadecimal value without leading zeros")},
		{member(`"balance":"0x` + strings.Repeat("f", 64) + `"`), sent(`,"balance":"0x4563918244f40000"`)},
		{member(`"movePrecompileToAddress":"0x1"`), wrong("movePrecompileToAddress: not supported")},
		{`{"` + address + `":1}`, wrong("Expected an object")},
		{`{"0x1":{}}`, "Invalid parameter 2: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
	}
	for _, test := range tests {
		got, err := stateOverrides(nil, jsonx.Value(test.overrides))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.overrides, text, test.want)
		}
	}
}

// Overrides reach the simulation.
func TestStateOverridesOnDevnet(t *testing.T) {
	n := newNetwork(t, 0)
	contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
	call := func(overrides string) [3]string {
		return [3]string{"eth_call", fmt.Sprintf(`[{"to":"%s"},"latest",%s]`, contract, overrides)}
	}
	count := func(n int) string { return fmt.Sprintf(`"0x%064x"`, n) }
	for overrides, want := range map[string]string{
		`{}`: count(1),
		fmt.Sprintf(`{"%s":{"stateDiff":{"0x0":"0x8"}}}`, contract):                               count(9),
		fmt.Sprintf(`{"%s":{"code":"0x602a60005260206000f3"}}`, contract):                         count(42),
		fmt.Sprintf(`{"%s":{"code":"0x303160005260206000f3","balance":"0x4a817c800"}}`, contract): fmt.Sprintf(`"0x%064x"`, 2),
	} {
		c := call(overrides)
		c[2] = want
		n.expect(c)
	}
}

// TestManyOverridesHoldNoMoreThanARequestMay: a megabyte of short words is thirteen in the mirror node's form, several times.
func TestManyOverridesHoldNoMoreThanARequestMay(t *testing.T) {
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 24, Client: 16, Request: 8, HeavyReads: 16})
	words := func(n int) jsonx.Value {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"0x%x":"0x1"`, i)
		}
		return jsonx.Value(`{"0x00000000000000000000000000000000000003ea":{"stateDiff":{` + strings.Join(list, ",") + `}}}`)
	}
	for count, fits := range map[int]bool{1000: true, 80_000: false} {
		holding := memory.Open("192.0.2.1")
		_, err := readOverrides(holding, 0, words(count))
		var exceeded *capacity.Exceeded
		if fits && err != nil || !fits && !errors.As(err, &exceeded) {
			t.Errorf("%d words: %v", count, err)
		}
		if held := holding.Held(); held < int64(min(count, 6000))*overrideBytes || held > 8<<20 {
			t.Errorf("%d words: %d bytes are held", count, held)
		}
		holding.Close()
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are held at the end", used)
	}
}

type filled struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

// A transaction that is filled in, signed and sent is executed.
func TestFilledTransactionRuns(t *testing.T) {
	n := newNetwork(t, 0)
	n.dynamic(0, nil, 0, 500_000, initCode(counter))
	contract := common.HexToAddress("0x77000000000000000000000000000000000beef1")
	for i, request := range []string{
		fmt.Sprintf(`{"from":"%s","data":"0x%x"}`, n.sender, initCode(counter)),
		fmt.Sprintf(`{"from":"%s","to":"%s","value":"0xde0b6b3a7640000"}`, n.sender, contract),
		fmt.Sprintf(`{"from":"%s","to":"%s","input":"0x01","gasPrice":"0xba43b7400000"}`, n.sender, contract),
	} {
		var f filled
		unmarshal(t, n.call("eth_fillTransaction", `[`+request+`]`), &f)
		if f.Tx.Nonce() != uint64(i+1) || f.Tx.Gas() < 21_000 || f.Tx.GasFeeCap().Sign() == 0 {
			t.Errorf("%s: %s", request, n.call("eth_fillTransaction", `[`+request+`]`))
		}
		var decoded types.Transaction
		if err := decoded.UnmarshalBinary(f.Raw); err != nil || decoded.Hash() != f.Tx.Hash() {
			t.Errorf("%s: the encoding is of another transaction: %v", request, err)
		}
		signed := n.send(inner(f.Tx))
		if receipt := n.receipt(signed); receipt.Status != types.ReceiptStatusSuccessful {
			t.Errorf("%s: %+v", request, receipt)
		}
	}
}

// inner is what there is to sign of a transaction.
func inner(tx *types.Transaction) types.TxData {
	if tx.Type() == types.LegacyTxType {
		return &types.LegacyTx{Nonce: tx.Nonce(), GasPrice: tx.GasPrice(), Gas: tx.Gas(), To: tx.To(), Value: tx.Value(), Data: tx.Data()}
	}
	return &types.DynamicFeeTx{
		ChainID: tx.ChainId(), Nonce: tx.Nonce(), GasTipCap: tx.GasTipCap(), GasFeeCap: tx.GasFeeCap(),
		Gas: tx.Gas(), To: tx.To(), Value: tx.Value(), Data: tx.Data(), AccessList: tx.AccessList(),
	}
}

// What the client gave stays, and decides on the type; the price offered is a fifth
// above the network's 71 tinybars.
func TestFillTransaction(t *testing.T) {
	n := newNetwork(t, 0)
	const to = `"to":"0x77000000000000000000000000000000000beef1","gas":"0x5208","nonce":"0x7"`
	const authorization = `{"chainId":"0x12a","address":"0x77000000000000000000000000000000000beef1","nonce":"0x01","yParity":"0x1","r":"0x0a","s":"0x0b"}`
	for request, want := range map[string]string{
		`{` + to + `}`: "2 fee 860000000000 tip 0 value 0",
		`{` + to + `,"maxPriorityFeePerGas":"0x5"}`: "2 fee 860000000005 tip 5 value 0",
		`{` + to + `,"maxFeePerGas":"0x9"}`:         "2 fee 9 tip 0 value 0",
		`{` + to + `,"gasPrice":"0x9"}`:             "0 fee 9 tip 9 value 0",
		`{` + to + `,"gasPrice":"0x9","accessList":[{"address":"0x77000000000000000000000000000000000beef1","storageKeys":["0x1"]}]}`: "1 fee 9 tip 9 value 0",
		`{` + to + `,"value":"0x10","chainId":"0x12a","authorizationList":[` + authorization + `]}`:                                   "4 fee 860000000000 tip 0 value 16",
	} {
		var f filled
		unmarshal(t, n.call("eth_fillTransaction", `[`+request+`]`), &f)
		got := fmt.Sprintf("%d fee %d tip %d value %d", f.Tx.Type(), f.Tx.GasFeeCap(), f.Tx.GasTipCap(), f.Tx.Value())
		if got != want || f.Tx.Nonce() != 7 || f.Tx.Gas() != 21_000 || f.Tx.Protected() && f.Tx.ChainId().Cmp(big.NewInt(298)) != 0 {
			t.Errorf("%s\n got %s\nwant %s", request, got, want)
		}
		if len(f.Tx.SetCodeAuthorizations()) == 1 && f.Tx.SetCodeAuthorizations()[0].S.Uint64() != 11 {
			t.Errorf("authorization %+v", f.Tx.SetCodeAuthorizations()[0])
		}
	}
	for request, want := range map[string]string{
		`{"nonce":"0x1"}`: "-32000 Invalid arguments: contract creation without any data provided",
		`{` + to + `,"gasPrice":"0x1","maxFeePerGas":"0x1"}`:                        "-32000 Invalid arguments: both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
		`{` + to + `,"gasPrice":"0x0"}`:                                             "-32000 Invalid arguments: gasPrice must be non-zero",
		`{` + to + `,"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x2"}`:            "-32000 Invalid arguments: maxFeePerGas (1) < maxPriorityFeePerGas (2)",
		`{` + to + `,"maxPriorityFeePerGas":"0x` + strings.Repeat("f", 64) + `"}`:   "-32000 Invalid arguments: maxPriorityFeePerGas 115792089237316195423570985008687907853269984665640564039457584007913129639935 is too high",
		`{` + to + `,"chainId":"0x1"}`:                                              "-32000 invalid chain id for signer: have 1 want 298",
		`{` + to + `,"data":"0x01","input":"0x02"}`:                                 `-32000 Invalid arguments: both "data" and "input" are set and not equal; use "input"`,
		`{` + to + `,"blobVersionedHashes":[]}`:                                     "-32611 transaction type not supported: type 3",
		`{` + to + `,"gasPrice":"0x1","authorizationList":[` + authorization + `]}`: "-32000 Invalid arguments: both gasPrice and authorizationList specified",
	} {
		n.expect([3]string{"eth_fillTransaction", `[` + request + `]`, want})
	}
	if got := n.call("eth_fillTransaction", `[{"data":"0x60006000fd"}]`); got.Error == nil || got.Error.Code != eth.CodeReverted {
		t.Errorf("a creation that reverts: %s", got)
	}
}

// A receipt that comes in time is the answer; else the error has the hash; and a
// verdict is not waited for any longer.
func TestAwaitReceipt(t *testing.T) {
	n := newNetwork(t, 300*time.Millisecond)
	tx := n.dynamic(0, nil, 0, 500_000, initCode(counter))
	receipt, err := n.api.awaitReceipt(t.Context(), tx.Hash(), time.Minute)
	if r, ok := receipt.(*eth.Receipt); err != nil || !ok || r.TxHash != tx.Hash() || r.Status != 1 {
		t.Errorf("%+v %v", receipt, err)
	}
	unknown := common.Hash{1}
	_, err = n.api.awaitReceipt(t.Context(), unknown, 50*time.Millisecond)
	if client := forClient(err); client.Code != 4 || client.Data != unknown.Hex() {
		t.Errorf("%v", err)
	}
	refused := n.dynamic(9, &common.Address{1}, 1, 21_000, nil)
	_, err = n.api.awaitReceipt(t.Context(), refused.Hash(), time.Minute)
	if client := forClient(err); client.Code != eth.CodeRejected {
		t.Errorf("%v", err)
	}
}

// forClient is the error that a client sees, or an empty one.
func forClient(err error) *eth.Error {
	if client := (*eth.Error)(nil); errors.As(err, &client) {
		return client
	}
	return new(eth.Error)
}

func TestSyncWait(t *testing.T) {
	c := SyncConfig{Default: envx.Millis(20 * time.Second), Max: envx.Millis(time.Minute)}
	for asked, want := range map[uint64]time.Duration{0: 20 * time.Second, 5: 5 * time.Millisecond, 60_000: time.Minute, 1 << 63: time.Minute} {
		if got := c.wait(asked); got != want {
			t.Errorf("%d: %v, want %v", asked, got, want)
		}
	}
}

// callOf is the transaction object of a transaction.
func (n *network) callOf(tx *types.Transaction) string {
	to := ""
	if tx.To() != nil {
		to = fmt.Sprintf(`"to":"%s",`, tx.To())
	}
	return fmt.Sprintf(`{"from":"%s",%s"gas":"0x%x","value":"0x%x","input":"0x%x","maxFeePerGas":"0x%x"}`, n.sender, to, tx.Gas(), tx.Value(), tx.Data(), tx.GasFeeCap())
}

// before is the block before that of a transaction.
func (n *network) before(tx *types.Transaction) string {
	return hexutil.EncodeUint64(n.receipt(tx).BlockNumber.Uint64() - 1)
}

// What is run here must show what the network showed when it ran the same: every call,
// every log, every account and every instruction.
func TestTraceCallAgreesWithNetwork(t *testing.T) {
	s := newTraced(t)
	for name, tx := range map[string]*types.Transaction{
		"nested": s.call, "reverted": s.fail, "out of gas": s.outOfGas, "log": s.withLog, "creation": s.deploy, "transfer that creates": s.plain,
	} {
		for _, options := range []string{
			`{"tracer":"callTracer"}`, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`,
			`{"tracer":"prestateTracer"}`, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`, `{"tracer":"prestateTracer","tracerConfig":{"disableCode":true}}`,
			`{}`, `{"enableMemory":true,"disableStack":true,"disableStorage":true}`, `{"limit":100}`,
		} {
			want := s.relay.call("debug_traceTransaction", params(tx, options)).String()
			got := s.relay.call("debug_traceCall", fmt.Sprintf(`[%s,"%s",%s]`, s.callOf(tx), s.before(tx), options)).String()
			if diff := cmp.Diff(comparable(decoded(t, want)), comparable(decoded(t, got))); diff != "" {
				t.Errorf("%s with %s (-network +here)\n%s", name, options, diff)
			}
		}
	}
}

// comparable leaves out what the mirror node's list of instructions has otherwise than
// go-ethereum's: which words of storage it shows where, and that it calls a revert's own
// instruction an error.
func comparable(trace any) any {
	object, _ := trace.(map[string]any)
	steps, _ := object["structLogs"].([]any)
	for _, step := range steps {
		s := step.(map[string]any)
		delete(s, "storage")
		if s["op"] == "REVERT" {
			delete(s, "error")
		}
	}
	return trace
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestTraceCall(t *testing.T) {
	s := newTraced(t)
	// A call of now, of a contract that exists for this call only, with the block's number.
	const number = "4360005260206000f3" // NUMBER, returned
	call := `{"to":"` + mocked + `"},"latest",{"tracer":"callTracer","stateOverrides":` + running(number)
	var frame callFrame
	unmarshal(t, s.relay.call("debug_traceCall", `[`+call+`,"blockOverrides":{"number":"0x1234"}}]`), &frame)
	if string(frame.Output) != string(common.BigToHash(hexutil.MustDecodeBig("0x1234")).Bytes()) {
		t.Errorf("block override: %x", frame.Output)
	}
	var steps struct {
		StructLogs []struct {
			Op      string
			Storage map[string]string
		}
	}
	unmarshal(t, s.relay.call("debug_traceCall", fmt.Sprintf(`[{"to":"%s"},"%s"]`, s.counter, s.before(s.withLog))), &steps)
	var storage []string
	for _, step := range steps.StructLogs {
		if step.Storage != nil {
			storage = append(storage, fmt.Sprint(step.Op, len(step.Storage), step.Storage[common.Hash{}.Hex()][64:]))
		}
	}
	if got := fmt.Sprint(storage); got != "[SLOAD101 SSTORE102]" {
		t.Errorf("storage of instructions: %s", got)
	}
	var tokens callFrame
	token := `{"to":"0x0000000000000000000000000000000000000167"},"latest",{"tracer":"callTracer","stateOverrides":{"0x0000000000000000000000000000000000000167":{"code":"0x602a60005260206000f3"}}}`
	unmarshal(t, s.relay.call("debug_traceCall", `[`+token+`]`), &tokens)
	if len(tokens.Output) != 32 || tokens.Output[31] != 42 {
		t.Errorf("overridden system contract: %+v", tokens)
	}
	to := fmt.Sprintf(`"to":"%s"`, s.counter)
	s.expect(
		[3]string{"debug_traceCall", `[{"to":"0x0000000000000000000000000000000000000167"}]`, "-32000 Error occurred during transaction simulation: the system contract at 0x0000000000000000000000000000000000000167 runs on the network only; use eth_call without block overrides"},
		[3]string{"debug_traceCall", `[{` + to + `},"0x99999"]`, "-39012 header not found"},
		[3]string{"debug_traceCall", `[{` + to + `,"gas":"0x5207"}]`, "-32000 Error occurred during transaction simulation: intrinsic gas too low: have 20999, want 21000"},
		[3]string{"debug_traceCall", `[{` + to + `,"from":"` + s.refuser.Hex() + `","value":"0xffffffffffff"}]`, "-32000 insufficient funds for gas * price + value"},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"txIndex":"0x0"}]`, "-32000 Invalid arguments: txIndex is not supported: the state is that of the end of the block"},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"blockOverrides":{"difficulty":"hard"}}]`, `-32602 invalid argument 2: block override "difficulty": Expected 0x prefixed hexadecimal value without leading zeros, value: hard`},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"blockOverrides":{"time":"now"}}]`, `-32602 invalid argument 2: block override "time": Expected 0x prefixed hexadecimal value without leading zeros, value: now`},
		[3]string{"debug_traceCall", `[{` + to + `},"latest",{"stateOverrides":{"0x1":{}}}]`, "-32602 invalid argument 2: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
	)
	for _, profile := range []func(*settings){hiero, func(*settings) {}} { // null is what clients send for nothing
		r := newRelay(t, s.node, debugging, profile)
		for method, params := range map[string]string{
			"debug_traceCall": `[{` + to + `},null,null]`, "eth_createAccessList": `[{` + to + `},null,null]`, "eth_simulateV1": `[{"blockStateCalls":[{}]},null]`,
		} {
			if got := r.call(method, params); got.Error != nil {
				t.Errorf("%s%s: %s", method, params, got)
			}
		}
	}
	s.relay = newRelay(t, s.node) // without the gate
	s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, "-32601 Unsupported JSON-RPC method"})
	for change, want := range map[string]func(*settings){
		"-32601 Unsupported JSON-RPC method": func(s *settings) { s.API.Debug.OpcodeLogger = false },
		"-32000 The trace exceeds the limit of 300 bytes: leave out stack, storage and memory, or use callTracer":        func(s *settings) { s.API.Debug.MaxBytes = 300 },
		"-32000 Error occurred during transaction simulation: evm: more than 1 accounts and words of storage are needed": func(s *settings) { s.API.Simulation.Reads = 1 },
	} {
		s.relay = newRelay(t, s.node, debugging, want)
		s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, change})
	}
	s.relay = newRelay(t, s.node, debugging)
	s.relay.api.cfg.Simulation.Timeout = 1 // less than anything takes
	s.expect([3]string{"debug_traceCall", `[{` + to + `}]`, "-32000 Error occurred during transaction simulation: the simulation takes too long"})
}

// An access list names what the network says that the transaction used.
func TestCreateAccessList(t *testing.T) {
	s := newTraced(t)
	var got struct {
		AccessList types.AccessList
		Error      string
		GasUsed    hexutil.Uint64
	}
	unmarshal(t, s.call1("eth_createAccessList", s.callOf(s.call), s.before(s.call)), &got)
	if want := s.receipt(s.call); uint64(got.GasUsed) != want.GasUsed || got.Error != "" {
		t.Errorf("%d gas, the network took %d: %s", got.GasUsed, want.GasUsed, got.Error)
	}
	words := map[common.Address]int{}
	for _, tuple := range got.AccessList {
		words[tuple.Address] = len(tuple.StorageKeys)
	}
	// The caller's own word, which the counter's code wrote by DELEGATECALL, and the sender's
	// absence: what is warm anyhow is named only for its storage.
	if diff := cmp.Diff(map[common.Address]int{s.counter: 1, s.refuser: 0, s.caller: 1}, words); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	unmarshal(t, s.call1("eth_createAccessList", s.callOf(s.fail), s.before(s.fail)), &got)
	if got.Error != "execution reverted" || len(got.AccessList) != 0 {
		t.Errorf("a revert: %+v", got)
	}
	given := strings.TrimSuffix(s.callOf(s.fail), "}") + `,"accessList":[{"address":"` + s.counter.Hex() + `","storageKeys":["0x1"]}]}`
	unmarshal(t, s.call1("eth_createAccessList", given, s.before(s.fail)), &got)
	if len(got.AccessList) != 1 || got.AccessList[0].StorageKeys[0] != (common.Hash{31: 1}) {
		t.Errorf("what was given is lost: %+v", got)
	}
	s.expect([3]string{"eth_createAccessList", `[{"to":"` + s.counter.Hex() + `","accessList":[{"address":"0x1"}]}]`, "-32602 invalid argument 0: 'accessList': Expected 0x prefixed string representing the address (20 bytes)"})
}

func (n *network) call1(method, call, block string) response {
	return n.call(method, fmt.Sprintf(`[%s,"%s"]`, call, block))
}

// TestALongParameterWaitsForAPermit, and a short one at once.
func TestALongParameterWaitsForAPermit(t *testing.T) {
	a := &API{processors: capacity.NewPermits(1, 1)}
	permit := must.Get(a.processors.Enter(t.Context(), nil, 1, false))(t)
	short, long := jsonx.Value("{}"), jsonx.Value(strings.Repeat(" ", 40<<10))
	read := 0
	count := func() error { read++; return nil }
	if err := a.withPermit(t.Context(), short, count); err != nil || read != 1 {
		t.Errorf("a short parameter: read %d times, %v", read, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.withPermit(ended, long, count); !errors.Is(err, context.Canceled) || read != 1 {
		t.Errorf("a long parameter while others have the processors: read %d times, %v", read, err)
	}
	permit.Leave()
	if err := a.withPermit(t.Context(), long, count); err != nil || read != 2 {
		t.Errorf("a long parameter with its permit: read %d times, %v", read, err)
	}
}

// simulated is a block of eth_simulateV1 as a client reads it.
type simulated struct {
	Hash, ParentHash  common.Hash
	Number, Timestamp hexutil.Uint64
	GasUsed, GasLimit hexutil.Uint64
	BaseFeePerGas     *hexutil.Big
	Transactions      []json.RawMessage
	LogsBloom         types.Bloom
	Calls             []struct {
		ReturnData                  hexutil.Bytes
		Logs                        []*types.Log
		GasUsed, MaxUsedGas, Status hexutil.Uint64
		Error                       *struct {
			Message, Data string
			Code          int
		}
	}
}

func (n *network) simulate(payload, block string) (blocks []simulated) {
	n.t.Helper()
	unmarshal(n.t.(*testing.T), n.call("eth_simulateV1", fmt.Sprintf(`[%s,"%s"]`, payload, block)), &blocks)
	return blocks
}

// What is simulated must be what happens: every transaction of a chain, one simulated
// after the other on the state before the first, agrees with its receipt.
func TestSimulateAgreesWithNetwork(t *testing.T) {
	s := newTraced(t)
	sent := []*types.Transaction{s.call, s.fail, s.outOfGas, s.plain, s.withLog}
	var blocks []string
	for _, tx := range sent {
		blocks = append(blocks, fmt.Sprintf(`{"calls":[%s]}`, s.callOf(tx)))
	}
	got := s.simulate(`{"validation":true,"blockStateCalls":[`+strings.Join(blocks, ",")+`]}`, s.before(s.call))
	if len(got) != len(sent) {
		t.Fatalf("%d blocks", len(got))
	}
	for i, tx := range sent {
		receipt, call := s.receipt(tx), got[i].Calls[0]
		if price := got[i].BaseFeePerGas.ToInt(); price.Cmp(receipt.EffectiveGasPrice) != 0 {
			t.Errorf("transaction %d: base fee %d, the network took %d", i, price, receipt.EffectiveGasPrice)
		}
		if uint64(call.GasUsed) != receipt.GasUsed || uint64(call.Status) != receipt.Status || len(call.Logs) != len(receipt.Logs) || got[i].LogsBloom != receipt.Bloom {
			t.Errorf("transaction %d: %+v, receipt %+v", i, call, receipt)
			continue
		}
		for j, l := range call.Logs {
			want := receipt.Logs[j]
			if l.Address != want.Address || !cmp.Equal(l.Topics, want.Topics) || !cmp.Equal(l.Data, want.Data) || l.BlockHash != got[i].Hash || l.TxHash == (common.Hash{}) {
				t.Errorf("transaction %d log %d: %+v, want %+v", i, j, l, want)
			}
		}
		if i > 0 && (got[i].ParentHash != got[i-1].Hash || got[i].Number != got[i-1].Number+1 || got[i].Timestamp != got[i-1].Timestamp+simulatedBlockTime) {
			t.Errorf("block %d: %+v after %+v", i, got[i], got[i-1])
		}
	}
	if e := got[1].Calls[0].Error; e == nil || e.Code != 3 || e.Message != "execution reverted: never" || !strings.HasPrefix(e.Data, "0x08c379a0") || len(got[1].Calls[0].ReturnData) != 0 {
		t.Errorf("revert: %+v", e)
	}
	if e := got[2].Calls[0].Error; e == nil || e.Code != -32015 || e.Message != "out of gas" {
		t.Errorf("out of gas: %+v", e)
	}
}

func TestSimulate(t *testing.T) {
	s := newTraced(t)
	const (
		alice = "0xa11ce00000000000000000000000000000000001"
		bob   = "0xb0b0000000000000000000000000000000000002"
	)
	// Alice, who has 3 hbar by assumption, sends Bob one; he sends her back half in the
	// next block, seven numbers later; the counter counts on.
	payload := fmt.Sprintf(`{"traceTransfers":true,"returnFullTransactions":true,"blockStateCalls":[
		{"stateOverrides":{"%[1]s":{"balance":"0x29a2241af62c0000","nonce":"0x5"}},"calls":[{"from":"%[1]s","to":"%[2]s","value":"0xde0b6b3a7640000"},{"to":"%[3]s"},{"to":"%[3]s"}]},
		{"blockOverrides":{"number":"0x3e8","time":"0xffffffffff","baseFeePerGas":"0x7","gasLimit":"0x1000000"},"calls":[{"from":"%[2]s","to":"%[1]s","value":"0x6f05b59d3b20000","gasPrice":"0x0"},{"to":"%[3]s"}]}
	]}`, alice, bob, s.counter)
	head := hexutil.Uint64(s.ledger.View().LatestBlock().Number)
	payload = strings.Replace(payload, "0x3e8", hexutil.EncodeUint64(uint64(head)+8), 1)
	got := s.simulate(payload, "latest")
	if len(got) != 8 || got[0].Number != head+1 || got[7].Number != head+8 || len(got[3].Calls) != 0 {
		t.Fatalf("%d blocks: %+v", len(got), got)
	}
	if got[3].Transactions == nil {
		t.Error("the transactions of an empty block are null")
	}
	first, last := got[0], got[7]
	if fee := first.BaseFeePerGas; fee == nil || fee.ToInt().Sign() != 0 {
		t.Errorf("base fee without validation: %s", fee)
	}
	if last.Timestamp != 0xffffffffff || last.BaseFeePerGas.ToInt().Int64() != 7 || last.GasLimit != 0x1000000 || last.ParentHash != got[6].Hash {
		t.Errorf("overrides: %+v", last)
	}
	// Balances by transfers: logs in weibar, of the address that stands for hbar.
	transfer := first.Calls[0].Logs
	if len(transfer) != 1 || transfer[0].Address != common.HexToAddress("0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee") ||
		new(big.Int).SetBytes(transfer[0].Data).Cmp(big.NewInt(1e18)) != 0 || common.BytesToAddress(transfer[0].Topics[1][:]) != common.HexToAddress(alice) {
		t.Errorf("transfer: %+v", transfer)
	}
	if first.LogsBloom != types.CreateBloom(&types.Receipt{Logs: append(first.Calls[1].Logs, first.Calls[2].Logs...)}) {
		t.Error("the bloom is not that of the events")
	}
	counts := []byte{first.Calls[1].ReturnData[31], first.Calls[2].ReturnData[31], last.Calls[1].ReturnData[31]}
	if start := counts[0]; counts[1] != start+1 || counts[2] != start+2 {
		t.Errorf("counts %v", counts)
	}
	if l := first.Calls[2].Logs; len(l) != 1 || l[0].Index != 2 || l[0].TxIndex != 2 || l[0].BlockHash != first.Hash {
		t.Errorf("log: %+v", l[0])
	}
	var tx struct {
		From       common.Address
		Nonce      hexutil.Uint64
		Type       hexutil.Uint64
		BlockHash  common.Hash
		AccessList types.AccessList
	}
	if err := json.Unmarshal(first.Transactions[0], &tx); err != nil || tx.AccessList == nil || tx.From != common.HexToAddress(alice) || tx.Nonce != 5 || tx.Type != 2 || tx.BlockHash != first.Hash {
		t.Errorf("transaction: %s %v", first.Transactions[0], err)
	}
	// The hash of a simulated block is what BLOCKHASH says of it.
	const lastHash = "6001430340" + "60005260206000f3" // BLOCKHASH(NUMBER - 1)
	hashes := s.simulate(`{"blockStateCalls":[{},{"stateOverrides":{"`+bob+`":{"code":"0x`+lastHash+`"}},"calls":[{"to":"`+bob+`"}]}]}`, "latest")
	if common.BytesToHash(hashes[1].Calls[0].ReturnData) != hashes[0].Hash {
		t.Errorf("BLOCKHASH %x, want %s", hashes[1].Calls[0].ReturnData, hashes[0].Hash)
	}
	hashes = s.simulate(`{"blockStateCalls":[{"stateOverrides":{"`+bob+`":{"code":"0x`+lastHash+`"}},"calls":[{"to":"`+bob+`"}]}]}`, "latest")
	if common.BytesToHash(hashes[0].Calls[0].ReturnData) != hashes[0].ParentHash {
		t.Errorf("BLOCKHASH %x, want %s", hashes[0].Calls[0].ReturnData, hashes[0].ParentHash)
	}
}

func TestSimulateRefuses(t *testing.T) {
	s := newTraced(t)
	from, to := s.sender.Hex(), s.counter.Hex()
	block := func(text string) string { return `[{"blockStateCalls":[` + text + `]}]` }
	strict := func(call string) string { return `[{"validation":true,"blockStateCalls":[{"calls":[` + call + `]}]}]` }
	nonce := s.quantity("eth_getTransactionCount", `["`+from+`"]`).Uint64()
	head := s.ledger.View().LatestBlock()
	fee := `"maxFeePerGas":"0xba43b7400000"`
	for _, w := range [][2]string{
		{`[{}]`, "-32602 missing value for required argument 'blockStateCalls' for SimulatePayload"},
		{block(``), "-32602 invalid argument 0: empty input"},
		{block(`1`), "-32602 invalid argument 'blockStateCalls' for SimulatePayload: Expected Object, value: 1"},
		{block(`{"calls":[7]}`), "-32602 invalid argument 'calls' for BlockStateCall: Expected TransactionObject, value: 7"},
		{block(`{"calls":[{"to":"0x1"}]}`), "-32602 invalid argument 'to' for TransactionObject: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
		{block(`{"stateOverrides":{"0x1":{}}}`), "-32602 invalid argument 0: Expected 0x prefixed string representing the address (20 bytes), value: 0x1"},
		{block(strings.TrimSuffix(strings.Repeat(`{},`, maxSimulatedBlocks+1), ",")), "-38026 too many blocks"},
		{block(`{"blockOverrides":{"number":"0xffffff"}}`), "-38026 too many blocks"},
		{block(`{"calls":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxSimulatedCalls+1), ",") + `]}`), "-38026 too many calls: more than 5000"},
		{block(`{"blockOverrides":{"number":"0x0"}}`), fmt.Sprintf("-38020 block numbers must be in order: 0 <= %d", head.Number)},
		{block(`{"blockOverrides":{"time":"0x1"}}`), fmt.Sprintf("-38021 block timestamps must be in order: 1 <= %d", head.From.Seconds)},
		{block(`{"blockOverrides":{"difficulty":"0x1"}}`), `-32000 Invalid arguments: block override "difficulty" is not supported`},
		{block(`{"blockOverrides":{"withdrawals":[]}}`), `-32000 Invalid arguments: block override "withdrawals" is not supported`},
		{block(`{"blockOverrides":{"gasLimit":"0x5208"},"calls":[{"to":"` + to + `","gas":"0x5209"}]}`), "-38015 block gas limit reached: remaining: 21000, required: 21001"},
		{block(`{"calls":[{"to":"` + to + `","gas":"0x5"}]}`), "-38013 intrinsic gas too low: have 5, want 21000"},
		{block(`{"calls":[{"from":"` + to + `","to":"` + to + `","value":"0xde0b6b3a7640000"}]}`), "-38014 insufficient funds for gas * price + value: address " + to},
		{block(`{"calls":[{"to":"0x0000000000000000000000000000000000000167"}]}`), "-32000 Error occurred during transaction simulation: the system contract at 0x0000000000000000000000000000000000000167 runs on the network only; use eth_call without block overrides"},
		{strict(`{"from":"` + from + `","to":"` + to + `","nonce":"0x0",` + fee + `}`), fmt.Sprintf("-38010 nonce too low: address %s, tx: 0 state: %d", from, nonce)},
		{strict(`{"from":"` + from + `","to":"` + to + `","nonce":"0xffff",` + fee + `}`), fmt.Sprintf("-38011 nonce too high: address %s, tx: 65535 state: %d", from, nonce)},
		{strict(`{"from":"` + from + `","to":"` + to + `","maxFeePerGas":"0x1"}`), "-38012 max fee per gas less than block base fee: address " + from + ", maxFeePerGas: 1, baseFee: 710000000000"},
		{strict(`{"from":"` + to + `","to":"` + to + `",` + fee + `}`), "-38014 insufficient funds for gas * price + value: address " + to},
	} {
		s.expect([3]string{"eth_simulateV1", w[0], w[1]})
	}
	s.relay = newRelay(t, s.node, func(s *settings) { s.API.Simulation.Bytes = 400 })
	s.expect([3]string{"eth_simulateV1", block(`{"calls":[{"to":"` + to + `"},{"to":"` + to + `"}]}`), "-38026 the calls return and log more than 400 bytes"})
	s.relay = newRelay(t, s.node, func(s *settings) { s.API.Simulation.Gas = 60_000 })
	call := `{"to":"` + to + `"}`
	s.expect([3]string{"eth_simulateV1", block(`{"calls":[` + call + `,` + call + `,` + call + `]}`), "-38026 the calls need more than the 60000 gas that one request may use"})
}
