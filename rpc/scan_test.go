package rpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

var scanSeeds = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nullx`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e`, `1e5`, `1E+5`, `1e-`,
	`""`, `"a`, `"\u00e9"`, `"\u00g9"`, `"\x"`, `"\`, "\"\x01\"", "\"\x7f\"", `"0123456789abcdef\""`, `"0123456\u0041"`,
	`[]`, `[ ]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2`, `[[[]]]`, `{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`,
	`{"a":1 "b":2}`, `{"a":{"b":[1,{"c":null}]}}`, ` {"a" : 1} `, `{} {}`, "\ufeff{}", "\"\xff\"", `"é漢"`,
	chainIDCall, "[" + chainIDCall + "]", `"` + strings.Repeat("ab", 100) + `"`,
}

// valid is the scanner's verdict on a whole text.
func valid(b []byte) bool {
	i := scanValue(b, skipSpace(b, 0), 0)
	return i >= 0 && skipSpace(b, i) == len(b)
}

func checkScan(t *testing.T, b []byte) {
	t.Helper()
	if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > maxDepth {
		return // json.Valid allows deeper nesting
	}
	if got, want := valid(b), json.Valid(b); got != want {
		t.Errorf("%q: got %v, encoding/json says %v", b, got, want)
	}
}

func TestScan(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, []byte(s))
		for i := range s { // every prefix, too
			checkScan(t, []byte(s[:i]))
		}
	}
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if !valid(deep(maxDepth)) || valid(deep(maxDepth+2)) {
		t.Error("the limit of nesting is not where it should be")
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(checkScan)
}

// FuzzMessage: whatever comes in, the answer is valid JSON-RPC, or nothing where
// nothing is due.
func FuzzMessage(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s), false)
	}
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":"\ud800","method":"eth_chainId"}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"eth_\u0000"}`,
		`{"jsonrpc":"2.0","id":[],"method":"eth_call","params":[{"type":"0x4","authorizationList":[{}]},{}]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"topics":[[null,"0x"]],"address":[]}]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0X",[[],{},null]]}`,
		`{"jsonrpc":"2.0","method":"eth_chainId"}`,
		`[1,{"jsonrpc":"2.0","method":"eth_chainId"},[]]`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	c := testConfig()
	hiero := testDispatcher(f, c, Options{})
	c.Profile = ProfileEthereum
	ethereum := testDispatcher(f, c, Options{})
	f.Fuzz(func(t *testing.T, body []byte, plain bool) {
		d := hiero
		if plain {
			d = ethereum
		}
		answer := exchangeOnce(t.Context(), d, string(body))
		if answer == "" {
			if !plain {
				t.Fatalf("%q: no answer", body)
			}
			return
		}
		if !utf8.ValidString(answer) {
			t.Fatalf("%q: the answer is not UTF-8: %q", body, answer)
		}
		checkAnswer(t, body, []byte(answer))
	})
}

func checkAnswer(t *testing.T, body, answer []byte) {
	t.Helper()
	items := []json.RawMessage{answer}
	if answer[0] == '[' {
		if err := json.Unmarshal(answer, &items); err != nil {
			t.Fatalf("%q: %v in %q", body, err, answer)
		}
		var sent []json.RawMessage
		if err := json.Unmarshal(body, &sent); err != nil || len(items) > max(len(sent), 1) {
			t.Fatalf("%q: %d answers: %q", body, len(items), answer)
		}
	}
	for _, item := range items {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(item, &m); err != nil {
			t.Fatalf("%q: %v in %q", body, err, item)
		}
		_, hasResult := m["result"]
		_, hasError := m["error"]
		if string(m["jsonrpc"]) != `"2.0"` || len(m["id"]) == 0 || hasResult == hasError || len(m) != 3 {
			t.Fatalf("%q: not an answer: %q", body, item)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\r\t\x00\x1f", "é\xff漢\xe2\x82", "\u2028<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
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

func TestUnquote(t *testing.T) {
	for _, s := range []string{`""`, `"abc"`, `"a\"b\\\n\u0041\ud83d\ude00"`} {
		var want string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(unquote([]byte(s))); got != want {
			t.Errorf("%s: got %q, want %q", s, got, want)
		}
	}
}
