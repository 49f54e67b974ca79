package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/must"
	"lockstep/rpc"
)

func TestRules(t *testing.T) {
	const (
		address = `"0x1111111111111111111111111111111111111111"`
		hash    = `"0x1111111111111111111111111111111111111111111111111111111111111111"`
		entry   = `{"address":` + address + `,"chainId":"0x0","nonce":"0x1","r":"0x1","s":"0x2","yParity":"0x"}`
	)
	for _, tt := range []struct {
		name    string
		rule    rpc.Rule
		yes, no []string
	}{
		{"address", AddressRule(), []string{address, `"0X11111111111111111111111111111111111111aB"`}, []string{hash, `"0x1"`, `"1111111111111111111111111111111111111111"`, `5`, `[` + address + `]`, `{}`, `true`}},
		{"address filter", addressFilterRule(), []string{address, `[]`, `[` + address + `]`, `[[` + address + `],` + address + `]`}, []string{`[1]`, `[[[` + address + `]]]`, `[null]`, `{}`}},
		{"array", rpc.Array(), []string{`[]`, `[1]`}, []string{`{}`, `"[]"`}},
		{"block hash", blockHashRule(), []string{hash}, []string{address, strings.Replace(hash, "x", "X", 1), `"latest"`}},
		{"transaction hash", txHashRule(), []string{hash}, []string{address, `null`}},
		{
			"block number", blockNumberRule(),
			[]string{`"0x0"`, `"0x1"`, `"0xABC"`, `"0x1fffffffffffff"`, `"latest"`, `"earliest"`, `"pending"`, `"safe"`, `"finalized"`},
			[]string{`"0x"`, `"0x00"`, `"0x01"`, `"0x20000000000000"`, `"0x100000000000000"`, `"Latest"`, `"1"`, `1`, `""`, `{}`, hash},
		},
		{
			"block params", blockParamsRule(blockNumberRule()),
			[]string{`"0x1"`, `"latest"`, hash, `{}`, `{"blockNumber":"0x1"}`, `{"blockHash":` + hash + `}`, `{"blockHash":` + hash + `,"requireCanonical":false}`},
			[]string{`"x"`, `{"blockNumber":1}`, `{"blockHash":null}`, `{"blockHash":` + hash + `,"blockNumber":"0x1"}`, `{"blockHash":` + hash + `,"requireCanonical":"yes"}`, `[]`, `7`},
		},
		{"block number, plain", plainBlockRule(), []string{`0`, `17`, `9007199254740991`}, []string{`-1`, `1.5`, `1e3`, `9007199254740992`, `"17"`, `"0x11"`, `null`}},
		{"boolean", rpc.Boolean(), []string{`true`, `false`}, []string{`"true"`, `1`, `[true]`}},
		{"hex", HexRule(), []string{`"0x"`, `"0x1"`, `"0xaF"`}, []string{`"0X1"`, `"1"`, `"0xg"`, `1`, `""`}},
		{"raw transaction", rawTransactionRule(), []string{`"0x"`, `"0X1"`, `"0xaF"`}, []string{`"1"`, `"0Xg"`, `"X1"`, `1`, `""`}},
		{"even hex", HexBytesRule(), []string{`"0x"`, `"0x12"`}, []string{`"0x1"`, `"0x123"`}},
		{"hex64", wordRule(), []string{`"0x1"`, hash}, []string{`"0x"`, `"0x11` + hash[3:]}},
		{"topics", topicsRule(), []string{`[]`, `[` + hash + `,null,[` + hash + `,null],[]]`}, []string{`[[[` + hash + `]]]`, hash, `[1]`}},
		{"percentiles", percentilesRule(), []string{`[]`, `[0,99.5,100,5]`}, []string{`[-1]`, `[101]`, `["5"]`, `[1e400]`, `[` + strings.Repeat("1,", 100) + `1]`, `5`}},
		{"parity", parityRule(), []string{`"0x"`, `"0x0"`, `"0x01"`}, []string{`"0x001"`, `0`}},
		{"tracer", tracerRule(), []string{`"callTracer"`, `"opcodeLogger"`, `"prestateTracer"`}, []string{`"calltracer"`, `"muxTracer"`, `""`}},
		{"text", rpc.Text(), []string{`""`, `"x"`}, []string{`1`}},
		{"override", stateOverrideRule(), []string{`{}`, `{"a":1}`}, []string{`[]`, `"x"`}},
		{"union", rpc.AnyOf(blockNumberRule(), blockHashRule()), []string{`"latest"`, hash}, []string{address, `{}`}},
		{"more than it says", blockNumberRule().Also(blockParamsRule(blockNumberRule())), []string{`"latest"`, hash, `{"blockNumber":"0x1"}`}, []string{address, `{"blockNumber":1}`, `[]`}},
		{"union of objects", rpc.AnyOf(HexRule(), blockParamsRule(blockNumberRule())), []string{`"0x"`, `{"blockNumber":"0x1"}`}, []string{`{"blockNumber":1}`}},
		{
			"transaction", transactionRule(),
			[]string{`{}`, `{"to":null,"from":` + address + `,"gas":"0x1","input":"0x","data":null,"other":[]}`, `{"accessList":[],"authorizationList":[` + entry + `]}`, `{"type":"0x4","authorizationList":[` + entry + `]}`, `{"type":"0x2"}`},
			[]string{
				`[]`, `"x"`, `{"to":"0x"}`, `{"gas":1}`, `{"input":"0x1"}`, `{"accessList":{}}`, `{"authorizationList":[1]}`, `{"authorizationList":{}}`, `{"type":"0x1","authorizationList":[` + entry + `]}`,
				`{"type":"0x4","authorizationList":[` + strings.Replace(entry, `"0x0"`, `"0x1`+strings.Repeat("0", 64)+`"`, 1) + `]}`,
			},
		},
		{"authorization", authorizationRule(), []string{entry}, []string{`{}`, strings.Replace(entry, `"s":"0x2"`, `"s":"0x"`, 1)}},
		{"filter", filterRule(blockNumberRule(), true), []string{`{}`, `{"blockHash":` + hash + `}`, `{"blockHash":` + hash + `,"toBlock":null}`, `{"address":[],"topics":null}`}, []string{`{"blockHash":` + hash + `,"fromBlock":"0x1"}`, `{"fromblock":"0x1"}`, `{"address":{}}`, `[]`}},
		{"tracer config", tracerConfigRule(), []string{`{}`, `{"onlyTopCall":true}`, `{"withLog":true}`, `{"unknown":1}`}, []string{`{"onlyTopCall":1}`, `[]`}},
		{
			"tracer options", tracerOptionsRule(),
			[]string{`{}`, `{"timeout":"5s"}`, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`, `{"tracer":"opcodeLogger","tracerConfig":{"enableMemory":true}}`, `{"enableMemory":true}`},
			[]string{`{"tracer":"x"}`, `{"tracer":"callTracer","enableMemory":true}`, `{"tracerConfig":{},"enableMemory":true}`, `{"tracer":"opcodeLogger","tracerConfig":{"onlyTopCall":true}}`, `{"tracer":"callTracer","tracerConfig":{"enableMemory":true}}`, `{"enableMemory":1}`, `"x"`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range tt.yes {
				if err := tt.rule.Verify(0, jsonx.Value(v)); err != nil {
					t.Errorf("%s: refused: %v", v, err)
				}
			}
			for _, v := range tt.no {
				if tt.rule.Matches(jsonx.Value(v)) {
					t.Errorf("%s: accepted", v)
				}
			}
			if tt.rule.Phrase == "" {
				t.Error("no phrase for messages")
			}
		})
	}
}

// TestLargeObjectsAreRefused: an object of many members costs no memory before it is refused.
func TestLargeObjectsAreRefused(t *testing.T) {
	object := jsonx.Value("{" + strings.Repeat(`"\u0061\u0062":1,`, 50_000) + `"\u0074o":"0x01"}`)
	rule := transactionRule()
	if allocs := testing.AllocsPerRun(3, func() { rule.Matches(object) }); allocs > 20 {
		t.Errorf("%v allocations to refuse an object of 50,000 members", allocs)
	}
	if err := rule.Verify(0, object); err == nil || err.Code != eth.CodeInvalidParams || len(err.Message) > 200 {
		t.Errorf("an object of 50,000 members: %v", err)
	}
}

// TestLongNumbersAreRefused before anybody computes with them.
func TestLongNumbersAreRefused(t *testing.T) {
	for _, name := range []string{"gas", "gasPrice", "maxPriorityFeePerGas", "maxFeePerGas", "value", "type", "chainId", "nonce"} {
		for digits, refused := range map[int]bool{64: false, jsonx.MaxDigits: false, jsonx.MaxDigits + 1: true, 1_000_000: true} {
			object := jsonx.Value(`{"` + name + `":"0x` + strings.Repeat("f", digits) + `"}`)
			if err := transactionRule().Verify(0, object); (err != nil && err.Code == eth.CodeInvalidParams) != refused {
				t.Errorf("%s of %d digits: %v", name, digits, err)
			}
		}
	}
}

// TestRulesScript sends the requests of a script to the method table, whose handlers only show
// that the parameters were accepted, and compares the answers.
func TestRulesScript(t *testing.T) {
	relay := newRelay(t, newMirrorNode(t), hiero)
	methods := relay.api.Methods()
	for i := range methods {
		methods[i].Handler, methods[i].Inline = func(_ context.Context, p *rpc.Params) (any, error) {
			if data := p.At(0).Field("data"); data.Present() {
				return data, nil
			}
			return []int{}, nil
		}, false
	}
	registry := must.Get(rpc.NewRegistry(methods...))(t)
	dispatcher := must.Get(rpc.NewDispatcher(relay.settings.RPC, registry, rpc.Options{Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(), Unknown: UnknownMethod}))(t)
	server := httptest.NewServer(rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{}))
	defer server.Close()
	script := must.Get(os.ReadFile("testdata/rules.io"))(t)
	id := regexp.MustCompile(`\[Request ID: [0-9a-z-]+\]`)
	sent := ""
	exchanges := 0
	for line := range strings.Lines(string(script)) {
		if request, ok := strings.CutPrefix(line, ">> "); ok {
			sent = request
			continue
		}
		want, ok := strings.CutPrefix(line, "<< ")
		if !ok {
			continue
		}
		exchanges++
		answer := must.Get(http.Post(server.URL, "application/json", strings.NewReader(sent)))(t)
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := id.ReplaceAllString(string(got), "[Request ID: test]"); !sameJSON(t, got, want) {
			t.Errorf("%s got  %s\nwant %s", sent, got, want)
		}
	}
	if exchanges < 15 {
		t.Errorf("the script has %d exchanges", exchanges)
	}
}

// sameJSON compares two texts without regard to the order of members.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2][]byte
	for i, text := range []string{a, b} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		texts[i], _ = json.Marshal(v) // what was just read can be written
	}
	return bytes.Equal(texts[0], texts[1])
}

// Whatever the rules let through can be read.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		`["0x11"]`, `["latest"]`, `[{"blockHash":"` + blockHash + `","requireCanonical":true}]`, `[{"blockNumber":"0x1"}]`, `[{}]`,
		`[{"fromBlock":"0x1","toBlock":"latest","address":["` + tokenLog + `"],"topics":[null,["` + transferID + `",null],[]]}]`,
		`[{"from":"` + tokenLog + `","to":null,"gas":"0x5208","gasPrice":"0x","value":"0xde0b6b3a7640000","data":"0x00","input":"0x"},"latest",{}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ok := rpc.NewParams(text)
		if !ok {
			return
		}
		v := p.At(0)
		if blockParamsRule(blockNumberRule()).Matches(v) {
			if ref, err := blockRef(v); err == nil && ref.String() == "" {
				t.Errorf("%s names no block", v)
			}
		}
		if filterRule(blockNumberRule(), true).Matches(v) {
			q, err := new(API).readLogQuery(v)
			if err == nil && (len(q.addresses) > maxAddresses || len(q.topics.at[0]) > maxAlternatives) {
				t.Errorf("%s is too large", v)
			}
		}
		if transactionRule().Matches(v) {
			q, err := new(API).callRequest(t.Context(), p)
			if err == nil && q.Value < 0 {
				t.Errorf("%s sends %d", v, q.Value)
			}
		}
	})
}
