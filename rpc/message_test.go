package rpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"lockstep/internal/jsonx"
)

// FuzzMessage: whatever comes in, the answer is valid JSON-RPC, or nothing where
// nothing is due.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{``, ` `, `null`, `01`, `"a`, `[]`, `[1,]`, `{}`, `{"a":1,}`, ` {"a" : 1} `, `{} {}`, "\ufeff{}", "\"\xff\"", chainIDCall, "[" + chainIDCall + "]"} {
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

func TestLooseText(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: "[object Object]", `["a",null,{},5]`: "a,,[object Object],5", `[]`: "", `"x"`: "x",
		"[" + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + "]": strings.Repeat("1,", maxParams) + "…",
	} {
		if got := looseText(jsonx.Value(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
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
