package jsonx

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

var seeds = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nullx`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e`, `1e5`, `1E+5`, `1e-`,
	`""`, `"a`, `"\u00e9"`, `"\u00g9"`, `"\x"`, `"\`, "\"\x01\"", "\"\x7f\"", `"0123456789abcdef\""`, `"0123456\u0041"`,
	`[]`, `[ ]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2`, `[[[]]]`, `{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`,
	`{"a":1 "b":2}`, `{"a":{"b":[1,{"c":null}]}}`, ` {"a" : 1} `, `{} {}`, "\ufeff{}", "\"\xff\"", `"é漢"`,
	`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`, `"` + strings.Repeat("ab", 100) + `"`,
}

// same holds a text against encoding/json: both accept it or none does, and both read the same
// value. doc.go lists what is left out here.
func same(t *testing.T, text []byte) {
	t.Helper()
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > MaxDepth {
		return
	}
	accepted := Valid(text)
	if want := json.Valid(text); accepted != want {
		t.Fatalf("%q: got %v, encoding/json says %v", text, accepted, want)
	}
	if !accepted || !utf8.Valid(text) {
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var want any
	must.Do(t, decoder.Decode(&want))
	start := SkipSpace(text, 0)
	value := Value(text[start:ScanValue(text, start, 0)])
	if got := plain(value); !reflect.DeepEqual(got, want) {
		t.Errorf("%q: read as %#v, encoding/json says %#v", text, got, want)
	}
	if f, err := strconv.ParseFloat(string(value), 64); value.IsNumber() && err == nil && value.Float() != f {
		t.Errorf("%q: %v is not %v", text, value.Float(), f)
	}
	written, err := Append(nil, want)
	if back := SkipSpace(written, 0); err != nil || !Valid(written) || !reflect.DeepEqual(plain(written[back:]), want) {
		t.Errorf("%q: written as %q, %v", text, written, err)
	}
}

// plain is a value as encoding/json reads it into an empty interface, numbers as text.
func plain(v Value) any {
	switch {
	case v.IsString():
		return v.Text()
	case v.IsNumber():
		return json.Number(v)
	case v.IsBool():
		return v.Bool()
	case v.IsArray():
		list := []any{}
		for e := range v.Elements() {
			list = append(list, plain(e))
		}
		return list
	case v.IsObject():
		object := map[string]any{}
		for name := range v.Fields() {
			object[name] = plain(v.Field(name))
		}
		return object
	}
	return nil
}

func TestSameAsEncodingJSON(t *testing.T) {
	for _, s := range seeds {
		same(t, []byte(s))
		for i := range s { // every prefix, too
			same(t, []byte(s[:i]))
		}
	}
}

func FuzzSameAsEncodingJSON(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(same)
}

func TestDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if !Valid(nested(MaxDepth)) || Valid(nested(MaxDepth+2)) {
		t.Error("the limit of nesting is not where it should be")
	}
	if !Valid([]byte(strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth))) {
		t.Error("objects may be nested less deeply than arrays")
	}
}

func TestWhatIsNoNumber(t *testing.T) {
	if f := Value("1e999").Float(); !math.IsInf(f, 1) {
		t.Errorf("a number out of range: %v", f)
	}
	if _, ok := Value("1e2").Uint64(); ok {
		t.Error("an exponent was read")
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\r\t\x00\x1f", "é\xff漢\xe2\x82", "\u2028<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		var want strings.Builder
		for _, r := range s { // yields U+FFFD per invalid byte
			want.WriteRune(r)
		}
		if got != want.String() {
			t.Fatalf("%q: got %q, want %q", s, got, want.String())
		}
	})
}

// FuzzUnquote: escapes mean what they mean to encoding/json, for the text of a string as for
// the comparison of a key.
func FuzzUnquote(f *testing.F) {
	for _, seed := range []string{
		`""`, `"a"`, `"\u0061\"\\\/\b\f\n\r\t"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0061"`, `"\ude00\ud83d"`, `"é\u00e9"`, `"\uD800\uDC00\u0000"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, quoted []byte) {
		if len(quoted) == 0 || quoted[0] != '"' || ScanString(quoted, 0) != len(quoted) || !utf8.Valid(quoted) {
			t.Skip()
		}
		var want string
		must.Do(t, json.Unmarshal(quoted, &want))
		if got := Unquote(quoted); !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s is %q, want %q", quoted, got, want)
		}
		if !IsKey(quoted, want) || IsKey(quoted, want+"x") || want != "" && IsKey(quoted, want[1:]) && want[1:] != want {
			t.Errorf("%s is not the key %q", quoted, want)
		}
	})
}

// TestEscapedKeysCostNoMemory: a megabyte of keys that are written with escapes is looked
// through without decoding any.
func TestEscapedKeysCostNoMemory(t *testing.T) {
	object := Value("{" + strings.Repeat(`"\u0061\u0062":1,`, 50_000) + `"\u0074o":"0x01"}`)
	if got := object.Field("to").Text(); got != "0x01" {
		t.Fatalf("an escaped key was not found: %q", got)
	}
	if allocs := testing.AllocsPerRun(3, func() { object.Field("to") }); allocs > 0 {
		t.Errorf("%v allocations to find a member", allocs)
	}
}

// TestScanningCostsNoMemory: nothing is allocated for the nesting of a text.
func TestScanningCostsNoMemory(t *testing.T) {
	text := []byte(`[{"a":[1,2,{"b":["x"]}]},` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]`)
	if allocs := testing.AllocsPerRun(10, func() { Valid(text) }); allocs > 0 {
		t.Errorf("%v allocations to check a text", allocs)
	}
}

func TestLongNumbersAreNotRead(t *testing.T) {
	if n := Value(`"0x` + strings.Repeat("0", 1_000_000) + `7"`).Big(); n == nil || n.Int64() != 7 {
		t.Errorf("zeros in front: %v", n)
	}
	if n := Value(`"0x` + strings.Repeat("f", 1_000_000) + `"`).Big(); n != nil {
		t.Error("a number of a million digits was read")
	}
}

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
		if got := Value(text).Display(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	long := Value(`"` + strings.Repeat("é", 10_000) + `"`).Display()
	if len(long) > 4200 || !strings.HasSuffix(long, "é…") {
		t.Errorf("long text: %d bytes, ends with %q", len(long), long[len(long)-8:])
	}
}

func TestAppend(t *testing.T) {
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
	} {
		got, err := Append([]byte("x"), tt.v)
		if err != nil || string(got) != "x"+tt.want {
			t.Errorf("%T %v: got %s, %v; want %s", tt.v, tt.v, got, err, tt.want)
		}
	}
	if got, err := Append([]byte("x"), func() {}); err == nil || string(got) != "x" {
		t.Errorf("a function: got %s, %v", got, err)
	}
}
