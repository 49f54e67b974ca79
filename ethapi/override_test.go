package ethapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
)

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
