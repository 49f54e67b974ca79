package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/watch/decode"
)

const (
	alice = "0x1111111111111111111111111111111111111111"
	bob   = "0x2222222222222222222222222222222222222222"
)

func word(hex string) string { return strings.Repeat("0", 64-len(hex)) + hex }

func bare(address string) string { return strings.TrimPrefix(address, "0x") }

// Calls, errors and events are told in words: by an ABI, or by the signatures that are known without.
func TestDecode(t *testing.T) {
	base := serve(t, deps(t, ""))
	type arg struct {
		Name, Type string
		Value      any
	}
	type phrase struct {
		Name string
		Args []arg
	}
	type words struct {
		Call, Fail *phrase
		Logs       []*phrase
	}
	const transfers = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	none := []*phrase{}
	for name, c := range map[string]struct {
		question string
		want     words
	}{
		"a call that is known": {
			`{"call":"0xa9059cbb` + word(bare(bob)) + word("2a") + `"}`,
			words{Call: &phrase{"transfer", []arg{{"to", "address", bob}, {"amount", "uint256", "42"}}}, Logs: none},
		},
		"a call without arguments":          {`{"call":"0x18160ddd"}`, words{Call: &phrase{"totalSupply", []arg{}}, Logs: none}},
		"a call that nobody knows":          {`{"call":"0x01020304"}`, words{Logs: none}},
		"a call whose arguments do not fit": {`{"call":"0xa9059cbb00"}`, words{Logs: none}},
		"a plain transfer":                  {`{"call":"0x"}`, words{Logs: none}},
		"the reason of a revert":            {`{"fail":"0x08c379a0` + word("20") + word("2") + "6e6f" + strings.Repeat("0", 60) + `"}`, words{Fail: &phrase{"Error", []arg{{"reason", "string", "no"}}}, Logs: none}},
		"a panic":                           {`{"fail":"0x4e487b71` + word("11") + `"}`, words{Fail: &phrase{"Panic", []arg{{"code", "uint256", "17"}}}, Logs: none}},
		"an event of a token":               {`{"logs":[{"topics":["` + transfers + `","0x` + word(bare(alice)) + `","0x` + word(bare(bob)) + `"],"data":"0x` + word("7") + `"}]}`, words{Logs: []*phrase{{"Transfer", []arg{{"from", "address", alice}, {"to", "address", bob}, {"value", "uint256", "7"}}}}}},
		"the same event of an NFT":          {`{"logs":[{"topics":["` + transfers + `","0x` + word(bare(alice)) + `","0x` + word(bare(bob)) + `","0x` + word("7") + `"],"data":"0x"}]}`, words{Logs: []*phrase{{"Transfer", []arg{{"from", "address", alice}, {"to", "address", bob}, {"value", "uint256", "7"}}}}}},
		"an anonymous event":                {`{"logs":[{"topics":[],"data":"0x"}]}`, words{Logs: []*phrase{nil}}},
	} {
		status, body, _ := ask(t, http.MethodPost, base+"/ui/decode", c.question)
		var got words
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// What cannot be decoded is refused with the reason, before it is worked on.
func TestDecodeRefuses(t *testing.T) {
	base := serve(t, deps(t, ""))
	for question, status := range map[string]int{
		`{`:                        400,
		`{"call":"0x1"}`:           400,
		`{"abi":{"not":"a list"}}`: 422,
		`{"call":"0x` + strings.Repeat("00", 300<<10) + `"}`:                                 413,
		`{"logs":[` + strings.Repeat(`{"topics":[],"data":"0x"},`, 1000) + `{"topics":[]}]}`: 413,
		`{"calls":[` + strings.Repeat(`{"call":"0x"},`, 1000) + `{"call":"0x"}]}`:            413,
		`{"calls":[{"call":"0x` + strings.Repeat("00", 300<<10) + `"}]}`:                     413,
		`{"calls":[{"fail":"0x` + strings.Repeat("00", 300<<10) + `"}]}`:                     413,
	} {
		if got, body, _ := ask(t, http.MethodPost, base+"/ui/decode", question); got != status {
			t.Errorf("%.40s: %d %.100s, want %d", question, got, body, status)
		}
	}
}

// What an ABI names is told by it, before what is known without; an entry that has no readable form spoils nothing.
func TestDecodeByABI(t *testing.T) {
	const text = `[
		{"type":"function","name":"set","inputs":[{"name":"","type":"uint8[]"},{"name":"flag","type":"bool"}]},
		{"type":"function","name":"twice","inputs":[{"name":"a","type":"bool"},{"name":"a","type":"bool"}]},
		{"type":"error","name":"Short","inputs":[{"name":"by","type":"int64"}]},
		{"type":"event","name":"Transfer","inputs":[{"name":"source","type":"address","indexed":true},{"name":"target","type":"address","indexed":true},{"name":"cents","type":"uint256"}]}]`
	contract := must.Get(abi.JSON(strings.NewReader(text)))(t)
	call := must.Get(contract.Pack("set", []uint8{5, 6}, true))(t)
	short := contract.Errors["Short"]
	fail := must.Get(short.Inputs.Pack(int64(-3)))(t)
	question := fmt.Sprintf(`{"abi":%s,"call":"%#x","fail":"%#x","logs":[{"topics":["%s","0x%s","0x%s"],"data":"0x%s"}]}`,
		text, call, append(short.ID[:4:4], fail...), contract.Events["Transfer"].ID, word(bare(alice)), word(bare(bob)), word("7"))
	_, body, _ := ask(t, http.MethodPost, serve(t, deps(t, ""))+"/ui/decode", question)
	want := `{"call":{"name":"set","args":[{"name":"arg0","type":"uint8[]","value":[5,6]},{"name":"flag","type":"bool","value":true}]},` +
		`"fail":{"name":"Short","args":[{"name":"by","type":"int64","value":"-3"}]},` +
		`"logs":[{"name":"Transfer","args":[{"name":"source","type":"address","value":"` + alice + `"},{"name":"target","type":"address","value":"` + bob + `"},{"name":"cents","type":"uint256","value":"7"}]}],"calls":[]}`
	if diff := cmp.Diff(want, strings.TrimSpace(body)); diff != "" {
		t.Error(diff)
	}
}

// The calls of a tree are told in one answer, each in its place.
func TestDecodeCalls(t *testing.T) {
	question := `{"calls":[{"call":"0x18160ddd"},{"call":"0x01020304","fail":"0x4e487b71` + word("11") + `"},{"call":"0x"}]}`
	_, body, _ := ask(t, http.MethodPost, serve(t, deps(t, ""))+"/ui/decode", question)
	want := `{"call":null,"fail":null,"logs":[],"calls":[{"call":{"name":"totalSupply","args":[]},"fail":null},` +
		`{"call":null,"fail":{"name":"Panic","args":[{"name":"code","type":"uint256","value":"17"}]}},{"call":null,"fail":null}]}`
	if diff := cmp.Diff(want, strings.TrimSpace(body)); diff != "" {
		t.Error(diff)
	}
}

// A question that would decode to far more than it has bytes costs a few times its size, and counts in the memory of all requests.
func TestDecodeBomb(t *testing.T) {
	const n = 1000
	data := word("20") + word("3e8")
	for range n {
		data += word("7d00")
	}
	data += word("3e8") + strings.Repeat("11", 32<<10)
	lists := `[{"type":"function","name":"f","inputs":[{"name":"a","type":"uint256` + strings.Repeat("[]", 30_000) + `"}]},{"type":"function","name":"g","inputs":[{"name":"a","type":"bytes[]"}]}]`
	parsed := must.Get(decode.Parse("g(bytes[])"))(t)
	question := fmt.Sprintf(`{"abi":%s,"call":"%#x%s"}`, lists, parsed.Selector[:4], data)
	d := deps(t, "")
	base := serve(t, d)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, body, _ := ask(t, http.MethodPost, base+"/ui/decode", question)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; status != http.StatusOK || taken > uint64(100*len(question)) {
		t.Errorf("%d: %d bytes took %d: %.200s", status, len(question), taken, body)
	}
	d.Memory = capacity.NewMemory(capacity.Config{Limit: 64, Requests: 8, Client: 8, Request: 8})
	if status, body, _ := ask(t, http.MethodPost, serve(t, d)+"/ui/decode", `{"call":"0x`+strings.Repeat("00", 250<<10)+`"}`); status != http.StatusOK {
		t.Errorf("within the memory: %d %s", status, body)
	}
	if status, body, _ := ask(t, http.MethodPost, serve(t, d)+"/ui/decode", `{"abi":[`+strings.Repeat(" ", 500<<10)+`]}`); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the memory: %d %s", status, body)
	}
	if used := d.Memory.Used(); used != 0 {
		t.Errorf("%d bytes are held afterwards", used)
	}
}
