package ethtx_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethtx"
)

// TestEncode holds call data against the examples of Solidity's ABI specification, and against words counted by hand.
func TestEncode(t *testing.T) {
	word := func(digits string) string { return strings.Repeat("0", 64-len(digits)) + digits }
	right := func(digits string) string { return digits + strings.Repeat("0", 64-len(digits)) }
	const token = `{"abi":[{"type":"constructor","inputs":[{"name":"supply","type":"uint256"}]},{"type":"function","name":"mint","inputs":[{"name":"to","type":"address"},{"name":"ids","type":"uint8[]"}]},
		{"type":"function","name":"twice","inputs":[]},{"type":"function","name":"twice","inputs":[{"name":"x","type":"bool"}]}]}`
	for name, c := range map[string]struct{ function, args, bytecode, abi, want, problem string }{
		"baz":         {function: "baz(uint32,bool)", args: `[69,true]`, want: "cdcd77c0" + word("45") + word("1")},
		"bar":         {function: "bar(bytes3[2])", args: `[["0x616263","0x646566"]]`, want: "fce353f6" + right("616263") + right("646566")},
		"sam":         {function: "sam(bytes,bool,uint256[])", args: `["0x64617665",true,[1,"2","0x3"]]`, want: "a5643bf2" + word("60") + word("1") + word("a0") + word("4") + right("64617665") + word("3") + word("1") + word("2") + word("3")},
		"f":           {function: "function f(uint256 a,uint32[] b,bytes10 c,bytes d)", args: `[291,[1110,1929],"0x31323334353637383930","0x48656c6c6f2c20776f726c6421"]`, want: "8be65246" + word("123") + word("80") + right("31323334353637383930") + word("e0") + word("2") + word("456") + word("789") + word("d") + right("48656c6c6f2c20776f726c6421")},
		"a tuple":     {function: "pay((address to,int16 n)[] list)", args: `[[["0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",-2]]]`, want: "5e44a7c8" + word("20") + word("1") + word("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed") + strings.Repeat("f", 63) + "e"},
		"beyond 2⁵³":  {function: "g(uint256)", args: `[100000000000000000001]`, want: "e420264a" + word("56bc75e2d63100001")},
		"a name":      {function: "mint", args: `["0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",[7]]`, abi: token, want: "d01fa1f9" + word("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed") + word("40") + word("1") + word("7")},
		"constructor": {bytecode: "6001", args: `["5"]`, abi: token, want: "6001" + word("5")},
		"declared":    {bytecode: "6001", function: "constructor(string name)", args: `["ab"]`, want: "6001" + word("20") + word("2") + right("6162")},
		"code alone":  {bytecode: "6001", want: "6001"},

		"too large":      {function: "f(uint8 level)", args: `[256]`, problem: "args[0] (uint8 level): want a whole number of 8 bits"},
		"negative":       {function: "f(uint8)", args: `[-1]`, problem: "args[0] (uint8 arg0)"},
		"too low":        {function: "f(int8)", args: `[-129]`, problem: "args[0] (int8 arg0)"},
		"a fraction":     {function: "f(bool a,uint256 amount)", args: `[false,0.5]`, problem: "args[1] (uint256 amount): want a whole number"},
		"an exponent":    {function: "f(uint256)", args: `[1e3]`, problem: "args[0] (uint256 arg0)"},
		"a bad checksum": {function: "f(address to)", args: `["0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"]`, problem: "args[0] (address to): the checksum"},
		"null":           {function: "f(bool a,string b)", args: `[null,""]`, problem: "args[0] (bool a): want true or false"},
		"short bytes":    {function: "f(bytes4 id)", args: `["0x01"]`, problem: "args[0] (bytes4 id): want 4 bytes, not 1"},
		"inside":         {function: "f((uint8,bool)[2] x)", args: `[[[1,true],[2,3]]]`, problem: "args[0] ((uint8,bool)[2] x): [1]: [1]: want true or false"},
		"too few":        {function: "f(uint8,bool)", args: `[1]`, problem: "args: f(uint8,bool) has 2 arguments, not 1"},
		"a bare name":    {function: "f", args: `[1]`, problem: "function: want its signature"},
		"no type":        {function: "f(uint7)", args: `[1]`, problem: "function: "},
		"unknown":        {function: "burn", abi: token, problem: `function: the abi has no function "burn"`},
		"overloaded":     {function: "twice", abi: token, problem: `function: the abi has 2 functions "twice"`},
		"not an abi":     {function: "x", abi: `7`, problem: "abi: "},
		"code and call":  {function: "f(uint8)", bytecode: "6001", args: `[1]`, problem: "function: with bytecode want constructor"},
	} {
		t.Run(name, func(t *testing.T) {
			call := txmgr.Calling{Function: c.function, ABI: json.RawMessage(c.abi)}
			call.Bytecode, _ = hex.DecodeString(c.bytecode)
			if c.args != "" {
				must.Do(t, json.Unmarshal([]byte(c.args), &call.Args))
			}
			data, _, err := ethtx.Form{ChainID: 1}.Encode(call)
			if c.problem != "" {
				if !errors.Is(err, txmgr.ErrInvalid) || !strings.HasPrefix(err.Error(), c.problem) {
					t.Errorf("%v, want %q", err, c.problem)
				}
				return
			}
			if got := hex.EncodeToString(data); err != nil || got != c.want {
				t.Errorf("%v\n got %s\nwant %s", err, got, c.want)
			}
		})
	}
}
