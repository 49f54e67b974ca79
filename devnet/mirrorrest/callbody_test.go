package mirrorrest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

const (
	alice = "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"
	bob   = "0x05FbA803Be258049A27B820088bab1cAD2058871"
)

func TestCallBody(t *testing.T) {
	from, to := common.HexToAddress(alice), common.HexToAddress(bob)
	for _, test := range []struct {
		name, body string
		want       evm.CallRequest
		problems   []string
	}{
		{
			name: "plain", body: `{"to":"` + bob + `","data":"0x0102"}`,
			want: evm.CallRequest{To: &to, Data: []byte{1, 2}, Gas: maxCallGas},
		},
		{
			name: "everything, and what is not known",
			body: `{"from":"` + alice + `","to":"` + bob + `","data":"01","gas":21000,"gasPrice":710000000000,"value":5,"estimate":false,"block":"latest","maxFeePerGas":"0x1"}`,
			want: evm.CallRequest{From: &from, To: &to, Data: []byte{1}, Gas: 21000, Value: 5},
		},
		{
			name: "nulls", body: `{"to":"` + bob + `","data":null,"from":null,"gas":null,"gasPrice":null,"value":null,"block":null,"estimate":null}`,
			want: evm.CallRequest{To: &to, Gas: maxCallGas, Data: []byte{}},
		},
		{
			name: "the zero address sends for nobody", body: `{"from":"0x0000000000000000000000000000000000000000","to":"` + bob + `","value":1}`,
			want: evm.CallRequest{To: &to, Gas: maxCallGas, Value: 1, Data: []byte{}},
		},
		{name: "too much gas", body: `{"to":"` + bob + `","gas":15000001}`, problems: []string{"gas field must be less than or equal to 15000000"}},
		{name: "too little gas", body: `{"to":"` + bob + `","gas":20999}`, problems: []string{"gas field must be greater than or equal to 21000"}},
		{name: "value without sender", body: `{"to":"` + bob + `","value":1}`, problems: []string{"from field must not be empty"}},
		{name: "negative", body: `{"to":"` + bob + `","value":-1,"gasPrice":-1}`, problems: []string{"gasPrice field must be greater than or equal to 0", "value field must be greater than or equal to 0"}},
		{name: "nothing at all", body: `{}`, problems: []string{"to field must not be empty"}},
		{name: "value to nowhere", body: `{"from":"` + alice + `","value":1,"data":"0x1234"}`, problems: []string{"to field must not be empty"}},
		{name: "odd digits", body: `{"to":"` + bob + `","data":"0x123"}`, problems: []string{"data field invalid hexadecimal string"}},
		{name: "short address", body: `{"to":"0x1234","from":"zz"}`, problems: []string{"from field invalid hexadecimal string", "to field invalid hexadecimal string"}},
		{name: "data too long", body: `{"to":"` + bob + `","data":"0x` + strings.Repeat("00", maxCallLen+1) + `"}`, problems: []string{"data field invalid hexadecimal string"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := must.Get(parseCall([]byte(test.body)))(t)
			got, problems := body.call()
			if diff := cmp.Diff(test.problems, problems); diff != "" {
				t.Fatalf("problems (-want +got):\n%s", diff)
			}
			if test.problems != nil {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallOverrides(t *testing.T) {
	slot := func(n string) string { return "0x" + strings.Repeat("0", 64-len(n)) + n }
	body := must.Get(parseCall(fmt.Appendf(nil, `{"to":%q,"state_overrides":[
		{"address":%q,"balance":"0x10","nonce":"0x2","code":"0x6001","state_diff":[{"key":%q,"value":%q}]},
		{"address":%q,"code":"0x","state":[{"key":%q,"value":%q}]}]}`,
		bob, alice, slot("1"), slot("2"), bob, slot("3"), slot("4"))))(t)
	call, problems := body.call()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	word := common.HexToHash
	want := map[common.Address]state.Override{
		common.HexToAddress(alice): {
			Balance: new(hedera.Tinybar(16)), Nonce: new(uint64(2)), Code: []byte{0x60, 1},
			StateDiff: map[common.Hash]common.Hash{word("1"): word("2")},
		},
		common.HexToAddress(bob): {Code: []byte{}, State: map[common.Hash]common.Hash{word("3"): word("4")}},
	}
	if diff := cmp.Diff(want, call.Override); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
	entry := `{"key":"` + slot("1") + `","value":"` + slot("1") + `"}`
	for name, bad := range map[string]string{
		"no address":         `[{"balance":"0x1"}]`,
		"twice":              `[{"address":"` + bob + `"},{"address":"` + bob + `"}]`,
		"both storages":      `[{"address":"` + bob + `","state":[` + entry + `],"state_diff":[` + entry + `]}]`,
		"balance over int64": `[{"address":"` + bob + `","balance":"0x8000000000000000"}]`,
		"long nonce":         `[{"address":"` + bob + `","nonce":"0x10000000000000000"}]`,
		"code not hex":       `[{"address":"` + bob + `","code":"0xz"}]`,
		"slot not hex":       `[{"address":"` + bob + `","state":[{"key":"x","value":"1"}]}]`,
		"too many accounts":  `[` + strings.Repeat(`{"address":"`+bob+`"},`, maxOverrides) + `{"address":"` + bob + `"}]`,
		"too many slots":     `[{"address":"` + bob + `","state":[` + strings.Repeat(entry+",", maxOverrideSlots) + entry + `]}]`,
	} {
		body := must.Get(parseCall([]byte(`{"to":"` + bob + `","state_overrides":` + bad + `}`)))(t)
		if _, problems := body.call(); len(problems) != 1 {
			t.Errorf("%s: problems %v", name, problems)
		}
	}
}

func TestRevertReason(t *testing.T) {
	const selector, offset = "08c379a0", "0000000000000000000000000000000000000000000000000000000000000020"
	word := func(s string) string { return s + strings.Repeat("0", 64-len(s)) }
	length := func(n string) string { return strings.Repeat("0", 64-len(n)) + n }
	for _, test := range []struct{ name, data, want string }{
		{"a reason", selector + offset + length("2") + word("6f6b"), "ok"},
		{"an empty one", selector + offset + length("0"), ""},
		{"a panic code", "4e487b71" + length("11"), ""},
		{"longer than its data", selector + offset + length("40") + word("6f6b"), ""},
		{"nothing", "", ""},
	} {
		if got := revertReason(common.FromHex(test.data)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// No body makes the reader panic, and what it accepts keeps within the limits.
func FuzzCallBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"to":"` + bob + `","data":"0x00"}`, `{"gas":1e3}`, `{"value":99999999999999999999}`,
		`{"to":"` + bob + `","state_overrides":[{"address":"` + bob + `","state":[{"key":"1","value":"2"}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := parseCall(raw)
		if err != nil {
			return
		}
		call, problems := body.call()
		if len(problems) > 0 {
			return
		}
		if call.Gas < minCallGas || call.Gas > maxCallGas || call.Value < 0 || len(call.Data) > maxCallLen {
			t.Fatalf("accepted %+v", call)
		}
	})
}
