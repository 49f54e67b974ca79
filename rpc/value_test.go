package rpc

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
)

func TestValueNumbers(t *testing.T) {
	for text, want := range map[string]struct {
		n  uint64
		ok bool
	}{
		`"0x0"`: {0, true}, `"0x1f"`: {31, true}, `"0xffffffffffffffff"`: {1<<64 - 1, true}, `12`: {12, true},
		`"0x10000000000000000"`: {0, false}, `"0x"`: {0, false}, `"12"`: {0, false}, `-1`: {0, false}, `1.5`: {0, false},
		`null`: {0, false}, `{}`: {0, false}, ``: {0, false},
	} {
		n, ok := Value(text).Uint64()
		if ok != want.ok || ok && n != want.n {
			t.Errorf("%s: got %d, %v", text, n, ok)
		}
	}
	for text, want := range map[string]*big.Int{
		`"0x"`: new(big.Int), `"0xff"`: big.NewInt(255), `"0x10000000000000000"`: new(big.Int).Lsh(big.NewInt(1), 64),
		`"ff"`: nil, `5`: nil, ``: nil,
	} {
		got := Value(text).Big()
		if (got == nil) != (want == nil) || got != nil && got.Cmp(want) != 0 {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if f := Value("2.5").Float(); f != 2.5 {
		t.Errorf("float: got %v", f)
	}
}

func TestValueBytes(t *testing.T) {
	for text, want := range map[string][]byte{
		`"0x"`: {}, `"0x00fF"`: {0, 255}, `"0x\u0030\u0031"`: {1}, `"0x1"`: nil, `"0xg0"`: nil, `"00"`: nil, `7`: nil, ``: nil,
	} {
		if diff := cmp.Diff(want, Value(text).Bytes()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
	const address = "0x00000000000000000000000000000000000004d2"
	if got := Value(`"` + address + `"`).Address(); got != common.HexToAddress(address) {
		t.Errorf("address: got %s", got)
	}
	if got := Value(`"0x01"`).Hash(); got != common.HexToHash("0x1") {
		t.Errorf("hash: got %s", got)
	}
}

func TestValueInside(t *testing.T) {
	v := Value(`{"a":1, "A":2, "\u0061b":[1,"x",null,{}], "a":3}`)
	if got := string(v.Field("a")); got != "3" {
		t.Errorf("a: got %s, want the last one", got)
	}
	if v.Field("c").Present() || v.Field("ab").Field("x").Present() {
		t.Error("found what is not there")
	}
	list := v.Field("ab")
	if list.Len() != 4 {
		t.Errorf("length: got %d", list.Len())
	}
	var kinds []string
	for e := range list.Elements() {
		switch {
		case e.IsNumber():
			kinds = append(kinds, "number")
		case e.IsString():
			kinds = append(kinds, "string")
		case e.Null():
			kinds = append(kinds, "null")
			continue
		case e.IsObject():
			kinds = append(kinds, "object")
		}
	}
	if diff := cmp.Diff([]string{"number", "string", "null", "object"}, kinds); diff != "" {
		t.Error(diff)
	}
	for range list.Elements() {
		break // ending early is allowed
	}
	var names []string
	for name := range v.Fields() {
		if names = append(names, name); len(names) == 3 {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "A", "ab"}, names); diff != "" {
		t.Error(diff)
	}
	var decoded []any
	if err := list.Decode(&decoded); err != nil || len(decoded) != 4 {
		t.Errorf("decode: %v, %v", decoded, err)
	}
	absent := Value(nil)
	if absent.Present() || absent.Null() || absent.Given() || absent.Text() != "" || absent.Bool() || absent.Len() != 0 {
		t.Error("an absent value is something")
	}
	encoded, err := json.Marshal(map[string]Value{"v": list, "w": nil})
	if err != nil || string(encoded) != `{"v":[1,"x",null,{}],"w":null}` {
		t.Errorf("encoded: %s, %v", encoded, err)
	}
}

func TestDisplay(t *testing.T) {
	for text, want := range map[string]string{
		`"a\"b"`: `a"b`, `5`: `5`, `true`: `true`, `null`: `null`, `[ 1, {"a" : 2} ]`: `[1,{"a":2}]`,
	} {
		if got := Value(text).display(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	long := Value(`"` + strings.Repeat("é", 10_000) + `"`).display()
	if len(long) > 4200 || !strings.HasSuffix(long, "é…") {
		t.Errorf("long text: %d bytes, ends with %q", len(long), long[len(long)-8:])
	}
}

func TestLooseText(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: "[object Object]", `["a",null,{},5]`: "a,,[object Object],5", `[]`: "", `"x"`: "x",
		"[" + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + "]": strings.Repeat("1,", maxParams) + "…",
	} {
		if got := looseText(Value(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	n := hexutil.Big(*big.NewInt(300))
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{json.RawMessage(`[1]`), `[1]`},
		{json.RawMessage(nil), `null`},
		{Value(`5`), `5`},
		{"a<b>\"\x01é", `"a<b>\"\u0001é"`},
		{true, `true`},
		{hexutil.Uint64(255), `"0xff"`},
		{hexutil.Bytes{}, `"0x"`},
		{hexutil.Bytes{1, 0xab}, `"0x01ab"`},
		{&n, `"0x12c"`},
		{new(hexutil.Big), `"0x0"`},
		{(*hexutil.Big)(nil), `null`},
		{(*hexutil.Big)(big.NewInt(-300)), `"-0x12c"`},
		{common.HexToHash("0x1"), `"0x` + strings.Repeat("0", 63) + `1"`},
		{common.HexToAddress("0x1"), `"0x` + strings.Repeat("0", 39) + `1"`},
		{[]string{"<&>"}, `["<&>"]`},
		{map[string]any{"a": nil}, `{"a":null}`},
		{selfWriting{3}, `{"n":3}`},
	} {
		got, err := appendJSON([]byte("x"), tt.v)
		if err != nil || string(got) != "x"+tt.want {
			t.Errorf("%T %v: got %s, %v; want %s", tt.v, tt.v, got, err, tt.want)
		}
	}
	if got, err := appendJSON([]byte("x"), func() {}); err == nil || string(got) != "x" {
		t.Errorf("a function: got %s, %v", got, err)
	}
}

func TestRules(t *testing.T) {
	const (
		address = `"0x1111111111111111111111111111111111111111"`
		hash    = `"0x1111111111111111111111111111111111111111111111111111111111111111"`
		entry   = `{"address":` + address + `,"chainId":"0x0","nonce":"0x1","r":"0x1","s":"0x2","yParity":"0x"}`
	)
	for _, tt := range []struct {
		name    string
		rule    Rule
		yes, no []string
	}{
		{"address", Address(), []string{address, `"0X11111111111111111111111111111111111111aB"`}, []string{hash, `"0x1"`, `"1111111111111111111111111111111111111111"`, `5`, `[` + address + `]`, `{}`, `true`}},
		{"address filter", AddressFilter(), []string{address, `[]`, `[` + address + `]`, `[[` + address + `],` + address + `]`}, []string{`[1]`, `[[[` + address + `]]]`, `[null]`, `{}`}},
		{"array", Array(), []string{`[]`, `[1]`}, []string{`{}`, `"[]"`}},
		{"array of", ArrayOf(Hex()), []string{`[]`, `["0x"]`}, []string{`[1]`, `"0x"`}},
		{"block hash", BlockHash(), []string{hash}, []string{address, strings.Replace(hash, "x", "X", 1), `"latest"`}},
		{"transaction hash", TransactionHash(), []string{hash}, []string{address, `null`}},
		{
			"block number", BlockNumber(),
			[]string{`"0x0"`, `"0x1"`, `"0xABC"`, `"0x1fffffffffffff"`, `"latest"`, `"earliest"`, `"pending"`, `"safe"`, `"finalized"`},
			[]string{`"0x"`, `"0x00"`, `"0x01"`, `"0x20000000000000"`, `"0x100000000000000"`, `"Latest"`, `"1"`, `1`, `""`, `{}`, hash},
		},
		{
			"block params", BlockParams(),
			[]string{`"0x1"`, `"latest"`, hash, `{}`, `{"blockNumber":"0x1"}`, `{"blockHash":` + hash + `}`, `{"blockHash":` + hash + `,"requireCanonical":false}`},
			[]string{`"x"`, `{"blockNumber":1}`, `{"blockHash":null}`, `{"blockHash":` + hash + `,"blockNumber":"0x1"}`, `{"blockHash":` + hash + `,"requireCanonical":"yes"}`, `[]`, `7`},
		},
		{"boolean", Boolean(), []string{`true`, `false`}, []string{`"true"`, `1`, `[true]`}},
		{"hex", Hex(), []string{`"0x"`, `"0x1"`, `"0xaF"`}, []string{`"0X1"`, `"1"`, `"0xg"`, `1`, `""`}},
		{"raw transaction", RawTransaction(), []string{`"0x"`, `"0X1"`, `"0xaF"`}, []string{`"1"`, `"0Xg"`, `"X1"`, `1`, `""`}},
		{"even hex", HexEvenLength(), []string{`"0x"`, `"0x12"`}, []string{`"0x1"`, `"0x123"`}},
		{"hex64", Hex64(), []string{`"0x1"`, hash}, []string{`"0x"`, `"0x11` + hash[3:]}},
		{"topic hash", TopicHash(), []string{hash, `null`}, []string{address, `[]`}},
		{"topics", Topics(), []string{`[]`, `[` + hash + `,null,[` + hash + `,null],[]]`}, []string{`[[[` + hash + `]]]`, hash, `[1]`}},
		{"percentiles", RewardPercentiles(), []string{`[]`, `[0,99.5,100,5]`}, []string{`[-1]`, `[101]`, `["5"]`, `[1e400]`, `[` + strings.Repeat("1,", 100) + `1]`, `5`}},
		{"parity", YParityHex(), []string{`"0x"`, `"0x0"`, `"0x01"`}, []string{`"0x001"`, `0`}},
		{"tracer", TracerType(), []string{`"callTracer"`, `"opcodeLogger"`, `"prestateTracer"`}, []string{`"calltracer"`, `"muxTracer"`, `""`}},
		{"text", Text(), []string{`""`, `"x"`}, []string{`1`}},
		{"override", StateOverride(), []string{`{}`, `{"a":1}`}, []string{`[]`, `"x"`}},
		{"union", AnyOf(BlockNumber(), BlockHash()), []string{`"latest"`, hash}, []string{address, `{}`}},
		{"more than it says", BlockNumber().Also(BlockParams()), []string{`"latest"`, hash, `{"blockNumber":"0x1"}`}, []string{address, `{"blockNumber":1}`, `[]`}},
		{"union of objects", AnyOf(Hex(), BlockParams()), []string{`"0x"`, `{"blockNumber":"0x1"}`}, []string{`{"blockNumber":1}`}},
		{
			"transaction", Transaction(),
			[]string{`{}`, `{"to":null,"from":` + address + `,"gas":"0x1","input":"0x","data":null,"other":[]}`, `{"accessList":[],"authorizationList":[` + entry + `]}`, `{"type":"0x4","authorizationList":[` + entry + `]}`, `{"type":"0x2"}`},
			[]string{
				`[]`, `"x"`, `{"to":"0x"}`, `{"gas":1}`, `{"input":"0x1"}`, `{"accessList":{}}`, `{"authorizationList":[1]}`, `{"authorizationList":{}}`, `{"type":"0x1","authorizationList":[` + entry + `]}`,
				`{"type":"0x4","authorizationList":[` + strings.Replace(entry, `"0x0"`, `"0x1`+strings.Repeat("0", 64)+`"`, 1) + `]}`,
			},
		},
		{"authorization", AuthorizationListEntry(), []string{entry}, []string{`{}`, strings.Replace(entry, `"s":"0x2"`, `"s":"0x"`, 1)}},
		{"filter", Filter(), []string{`{}`, `{"blockHash":` + hash + `}`, `{"blockHash":` + hash + `,"toBlock":null}`, `{"address":[],"topics":null}`}, []string{`{"blockHash":` + hash + `,"fromBlock":"0x1"}`, `{"fromblock":"0x1"}`, `{"address":{}}`, `[]`}},
		{"tracer config", TracerConfig(), []string{`{}`, `{"onlyTopCall":true}`, `{"withLog":true}`, `{"unknown":1}`}, []string{`{"onlyTopCall":1}`, `[]`}},
		{
			"tracer options", TracerConfigWrapper(),
			[]string{`{}`, `{"timeout":"5s"}`, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`, `{"tracer":"opcodeLogger","tracerConfig":{"enableMemory":true}}`, `{"enableMemory":true}`},
			[]string{`{"tracer":"x"}`, `{"tracer":"callTracer","enableMemory":true}`, `{"tracerConfig":{},"enableMemory":true}`, `{"tracer":"opcodeLogger","tracerConfig":{"onlyTopCall":true}}`, `{"tracer":"callTracer","tracerConfig":{"enableMemory":true}}`, `{"enableMemory":1}`, `"x"`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range tt.yes {
				if err := tt.rule.verify(0, Value(v)); err != nil {
					t.Errorf("%s: refused: %v", v, err)
				}
			}
			for _, v := range tt.no {
				if tt.rule.Matches(Value(v)) {
					t.Errorf("%s: accepted", v)
				}
			}
			if tt.rule.Text() == "" {
				t.Error("no phrase for messages")
			}
		})
	}
}

func TestNewParams(t *testing.T) {
	p, ok := NewParams([]byte(` ["0x12", true , "x"] `))
	if !ok || p.Len() != 3 || p.Text(2) != "x" || !p.Bool(1) || len(p.Bytes(0)) != 1 || p.Given(3) || p.At(-1).Present() {
		t.Errorf("got %v, %v", p, ok)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1] 2`, `"x"`} {
		if _, ok := NewParams([]byte(bad)); ok {
			t.Errorf("%s: accepted", bad)
		}
	}
	many, ok := NewParams([]byte("[" + strings.Repeat("1,", 999) + "1]"))
	if !ok || many.Len() != 1000 || len(many.args) != maxParams || many.At(maxParams).Present() {
		t.Errorf("many: %d, %d kept", many.Len(), len(many.args))
	}
}
