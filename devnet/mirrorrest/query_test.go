package mirrorrest

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

var testParams = params{"timestamp": isTime, "block.number": isBlockNumber, "hbar": isFlag}

func TestParseQuery(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      []string // problem messages; none: accepted
	}{
		{"nothing", "", nil},
		{"every operator", "timestamp=eq:1&timestamp=ne:1&timestamp=gt:1&timestamp=gte:1&timestamp=lt:1&timestamp=lte:1", nil},
		{"escaped colon", "timestamp=gte%3A1.000000001", nil},
		{"names in any case", "TimeStamp=1&LIMIT=2&Order=ASC", nil},
		{"stray separators", "&timestamp=1&&", nil},
		{"unknown parameter", "foo=1", []string{"Unknown query parameter: foo"}},
		{"several faults", "foo=1&timestamp=x&limit=0", []string{
			"Unknown query parameter: foo", "Invalid parameter: timestamp", "Invalid parameter: limit",
		}},
		{"empty value", "timestamp=", []string{"Invalid parameter: timestamp"}},
		{"no value", "timestamp", []string{"Invalid parameter: timestamp"}},
		{"empty value behind an operator", "timestamp=gte:", []string{"Invalid parameter: timestamp"}},
		{"unknown operator", "timestamp=at:1", []string{"Invalid parameter: timestamp"}},
		{"two operators", "timestamp=gt:lt:1", []string{"Invalid parameter: timestamp"}},
		{"ten decimals", "timestamp=1.0000000001", []string{"Invalid parameter: timestamp"}},
		{"eleven digits", "timestamp=12345678901", []string{"Invalid parameter: timestamp"}},
		{"signed", "timestamp=+1", []string{"Invalid parameter: timestamp"}},
		{"broken escape", "timestamp=%zz", []string{"Invalid parameter: timestamp"}},
		{"ne on a block number", "block.number=ne:1", []string{"Invalid parameter: block.number"}},
		{"hex block number", "block.number=gte:0x1f", nil},
		{"negative block number", "block.number=-1", []string{"Invalid parameter: block.number"}},
		{"flag with an operator", "hbar=gt:true", []string{"Invalid parameter: hbar"}},
		{"flag in capitals", "hbar=FALSE", nil},
		{"flag that is none", "hbar=maybe", []string{"Invalid parameter: hbar"}},
		{"limit zero", "limit=0", []string{"Invalid parameter: limit"}},
		{"limit not a number", "limit=ten", []string{"Invalid parameter: limit"}},
		{"unknown order", "order=up", []string{"Invalid parameter: order"}},
		{"a hundred times", strings.Repeat("timestamp=1&", 100), nil},
		{"once more", strings.Repeat("timestamp=1&", 101), []string{
			"Parameter values count exceeds maximum number allowed: timestamp count: 101 max: 100",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseQuery(test.raw, testParams, ascending)
			var got []string
			if p, ok := errors.AsType[*problem](err); ok {
				for _, m := range p.messages {
					got = append(got, m.Message)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitAndOrder(t *testing.T) {
	for _, test := range []struct {
		raw   string
		by    listing
		limit int
		desc  bool
	}{
		{"", ascending, 25, false},
		{"", descending, 25, true},
		{"limit=1&order=desc", ascending, 1, true},
		{"limit=100", ascending, 100, false},
		{"limit=101", ascending, 100, false},
		{"limit=9223372036854775807", ascending, 100, false},
		{"limit=3&limit=4", ascending, 4, false},
		{"order=ASC", descending, 25, false},
	} {
		q, err := parseQuery(test.raw, nil, test.by)
		if err != nil {
			t.Errorf("%q: %v", test.raw, err)
			continue
		}
		if q.limit != test.limit || q.desc != test.desc {
			t.Errorf("%q: limit %d, descending %t; want %d, %t", test.raw, q.limit, q.desc, test.limit, test.desc)
		}
	}
	if _, err := parseQuery("limit=1", nil, single); err == nil {
		t.Error("an endpoint without paging took a limit")
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		raw     string
		allowed []int64
	}{
		{"", []int64{0, 1, 2, 3, 4, 5}},
		{"n=2", []int64{2}},
		{"n=2&n=4", []int64{2, 4}},
		{"n=gt:2", []int64{3, 4, 5}},
		{"n=gte:2&n=lt:4", []int64{2, 3}},
		{"n=gte:2&n=gt:3", []int64{4, 5}},
		{"n=ne:2&n=lte:3", []int64{0, 1, 3}},
		{"n=2&n=4&n=gt:2", []int64{4}},
		{"n=gt:4&n=lt:2", nil},
		{"n=gt:9223372036854775807", nil},
		{"n=lt:0", nil},
	} {
		q := must.Get(parseQuery(test.raw, params{"n": isCount}, ascending))(t)
		b := q.bounds("n", parseCount)
		var got []int64
		low, high := b.span()
		for v := range int64(6) {
			if b.allows(v) {
				got = append(got, v)
				if v < low || v > high {
					t.Errorf("%q allows %d outside its span %d to %d", test.raw, v, low, high)
				}
			}
		}
		if diff := cmp.Diff(test.allowed, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.raw, diff)
		}
	}
}

func TestNextLink(t *testing.T) {
	for _, test := range []struct {
		raw     string
		cursors []cursor
		want    string
	}{
		{"limit=2&order=asc", []cursor{{name: "n", value: "7"}}, "/p?limit=2&order=asc&n=gt:7"},
		{"limit=2&order=desc", []cursor{{name: "n", value: "7"}}, "/p?limit=2&order=desc&n=lt:7"},
		{"order=asc&n=gte:1&n=lte:9", []cursor{{name: "n", value: "7"}}, "/p?order=asc&n=lte:9&n=gt:7"},
		{"order=desc&n=gte:1&n=lte:9", []cursor{{name: "n", value: "7"}}, "/p?order=desc&n=gte:1&n=lt:7"},
		{"n=3&n=7&n=9", []cursor{{name: "n", value: "7"}}, "/p?n=3&n=7&n=9&n=gt:7"},
		{"n=gt:1&m=0x1", []cursor{{name: "n", value: "7", inclusive: true}, {name: "m", value: "2"}}, "/p?m=0x1&n=gte:7&m=gt:2"},
		{"m=a%26b", []cursor{{name: "n", value: "7"}}, "/p?m=a%26b&n=gt:7"},
	} {
		anything := func(operator, string) bool { return true }
		q := must.Get(parseQuery(test.raw, params{"n": anything, "m": anything}, ascending))(t)
		if got := *q.next("/p", test.cursors).Next; got != test.want {
			t.Errorf("after %q: %s, want %s", test.raw, got, test.want)
		}
	}
}

func TestParseNanos(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                    0,
		"1":                    1_000_000_000,
		"1.5":                  1_500_000_000,
		"1767225600.000000001": 1_767_225_600_000_000_001,
		"9999999999.999999999": math.MaxInt64,
	} {
		if got, ok := parseNanos(text); !ok || got != want {
			t.Errorf("%s: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".", "1.", ".1", "-1", "1e9", "0x1", "1.2.3", " 1", "1.1234567890"} {
		if got, ok := parseNanos(text); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseEntity(t *testing.T) {
	for text, want := range map[string]int64{
		"5": 5, "0.5": 5, "0.0.5": 5, "0.0.9223372036854775807": math.MaxInt64, "1.0.5": absent, "0.2.5": absent,
	} {
		if got, ok := parseEntity(text); !ok || got != want {
			t.Errorf("%s: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".", "0.0.", "0.0.0.1", "-1", "0.0.+1", "0x1", "0.0.9223372036854775808"} {
		if _, ok := parseEntity(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}

func TestParseAddress(t *testing.T) {
	const hex = "00000000000000000000000000000000000003EA"
	for _, text := range []string{hex, "0x" + hex, "0X" + hex, "0.0." + hex, "0." + hex} {
		if a, ok := parseAddress(text); !ok || a[19] != 0xea {
			t.Errorf("%s: %s, %t", text, a, ok)
		}
	}
	for _, text := range []string{"", hex[1:], hex + "00", "x.y." + hex, "0x" + hex[2:] + "zz"} {
		if _, ok := parseAddress(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}

// Whatever a client sends as a query string is either refused or gives a query
// whose bounds and link can be computed, and the link is accepted in its turn.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=2&order=desc", "timestamp=gte:1.5&timestamp=lt:2", "block.number=0x10&hbar=false",
		"TIMESTAMP=eq%3a1", "&&=&%", "foo=bar", "topic0=0x0", "timestamp=lt:0&order=desc",
	} {
		f.Add(seed)
	}
	accepted := params{
		"timestamp": isTime, "block.number": isBlockNumber, "hbar": isFlag, "account.id": isParty,
		"topic0": isTopic, "slot": isSlot, "block.hash": isHash, "account.publickey": isPublicKey,
		"transactiontype": isTransactionType,
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw, accepted, ascending)
		if err != nil {
			if p := (*problem)(nil); !errors.As(err, &p) || p.status != 400 {
				t.Fatalf("not a problem: %v", err)
			}
			return
		}
		if q.limit < 1 || q.limit > maxLimit {
			t.Fatalf("limit %d", q.limit)
		}
		times := q.timestamps()
		if low, high := times.span(); times.allows(low) && high < low {
			t.Fatalf("allows %d outside its span %d to %d", low, low, high)
		}
		newSlotFilter(q)
		if _, err := newLogFilter(q); err != nil {
			return
		}
		link := *q.next("/p", []cursor{{name: "timestamp", value: "1.000000000"}}).Next
		u, err := url.Parse(link)
		if err != nil {
			t.Fatalf("link %q: %v", link, err)
		}
		again, err := parseQuery(u.RawQuery, accepted, ascending)
		if p, ok := errors.AsType[*problem](err); ok {
			if strings.HasPrefix(p.messages[0].Message, "Parameter values count") {
				return // it already had as many as are allowed
			}
			t.Fatalf("link %q is refused: %v", link, err)
		}
		if again.limit != q.limit || again.desc != q.desc {
			t.Fatalf("link %q changes the page", link)
		}
	})
}

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
