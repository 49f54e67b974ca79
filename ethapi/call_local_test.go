package ethapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

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
