package ethapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
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
