package ethapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/mirror"
)

// What can be shown of transactions of which the mirror node has no actions, and of
// events that no transaction of Ethereum made.
func TestTraceWithoutActions(t *testing.T) {
	for suffix, change := range map[string]func(*settings){"": debugging, "_hiero": func(s *settings) { debugging(s); hiero(s) }} {
		r, block := populated(t, change)
		r.golden("trace_block"+suffix, "debug_traceBlockByNumber", `["0x11"]`)
		r.golden("trace_synthetic"+suffix, "debug_traceTransaction", `["`+synthetic+`",{"tracer":"callTracer","tracerConfig":{"withLog":true}}]`)
		r.golden("trace_synthetic_opcodes"+suffix, "debug_traceTransaction", `["`+synthetic+`"]`)
		r.expect(
			[3]string{"debug_traceTransaction", `["` + synthetic + `",{"tracer":"prestateTracer"}]`, `{}`},
			[3]string{"debug_traceTransaction", `["` + synthetic + `",{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}]`, `{"post":{},"pre":{}}`},
		)
		got := r.call("debug_traceTransaction", fmt.Sprintf(`["%s"]`, block[0].Hash())).String()
		if want := `"structLogs":[]}`; !strings.Contains(got, `"failed":false`) || !strings.HasSuffix(got, want) {
			t.Errorf("opcodes of a transaction without code: %s", got)
		}
	}
}

// A synthetic transaction is in the raw block, so that there are as many as the block
// shows.
func TestRawSynthetic(t *testing.T) {
	r, transactions := populated(t, debugging)
	n := &network{relay: r}
	var block types.Block
	must.Do(t, rlp.DecodeBytes(n.bytes("debug_getRawBlock", `["0x11"]`), &block))
	if got := len(block.Transactions()); got != len(transactions)+1 {
		t.Fatalf("%d transactions", got)
	}
	if root := listRoot(block.Transactions()); root != block.TxHash() {
		t.Errorf("transactionsRoot %s, that of the transactions is %s", block.TxHash(), root)
	}
	raw := n.bytes("debug_getRawTransaction", `["`+synthetic+`"]`)
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil || tx.Gas() != syntheticGas || tx.Hash() != block.Transactions()[len(transactions)].Hash() {
		t.Errorf("%v: %+v", err, tx)
	}
}

// actionJSON is an action of the mirror node; members replace the usual ones.
func actionJSON(depth int, operation string, members member) member {
	m := member{
		"call_depth": depth, "call_operation_type": operation, "call_type": "CALL", "caller": "0.0.1010", "caller_type": "ACCOUNT", "from": longZero,
		"gas": 100, "gas_used": 50, "index": 0, "input": "0x", "recipient": "0.0.1003", "recipient_type": "CONTRACT", "result_data": "0x",
		"result_data_type": "OUTPUT", "timestamp": "1767225600.000000001", "to": contract.Hex(), "value": 3,
	}
	for name, value := range members {
		m[name] = value
	}
	return m
}

// Trees of calls as they come, and as they should not.
func TestTraceTrees(t *testing.T) {
	root := actionJSON(0, "CALL", nil)
	made := strings.ToLower("0x00000000000000000000000000000000000ABcDe")
	tests := map[string]struct {
		actions []any
		want    string // types, with what they called in brackets
	}{
		"alone":         {[]any{root}, "CALL"},
		"in a row":      {[]any{root, actionJSON(1, "CALL", nil), actionJSON(1, "STATICCALL", nil)}, "CALL(CALL STATICCALL)"},
		"down and up":   {[]any{root, actionJSON(1, "CALL", nil), actionJSON(2, "DELEGATECALL", nil), actionJSON(3, "CALL", nil), actionJSON(1, "CALLCODE", nil)}, "CALL(CALL(DELEGATECALL(CALL)) CALLCODE)"},
		"a level lost":  {[]any{root, actionJSON(3, "CALL", nil), actionJSON(7, "CALL", nil)}, "CALL(CALL(CALL))"},
		"a second root": {[]any{root, actionJSON(0, "CALL", nil)}, "CALL(CALL)"},
		"unknown":       {[]any{root, actionJSON(1, "UNKNOWN", nil)}, "CALL(CALL)"},
		"code elsewhere": {
			[]any{root, actionJSON(1, "CREATE2", member{"to": made, "input": nil, "call_type": "CREATE"})}, "CALL(CREATE2[0xaa:0xbb])",
		},
		"failed creation": {
			[]any{root, actionJSON(1, "CREATE", member{"to": nil, "input": "0x01", "result_data_type": "ERROR", "result_data": "0x494e53554646494349454e545f474153"})},
			"CALL(CREATE[0x01:] out of gas)",
		},
		"nameless error": {[]any{root, actionJSON(1, "CALL", member{"result_data_type": "ERROR", "result_data": "0x00ff"})}, "CALL(CALL CONTRACT_EXECUTION_EXCEPTION)"},
	}
	for name, test := range tests {
		r, block := populated(t, debugging)
		hash := block[0].Hash().Hex()
		r.node.set("contracts/results/"+hash+"/actions?limit=100&order=asc", listOf("actions", test.actions...))
		r.node.set("contracts/"+made, text(member{"bytecode": "0xaa", "runtime_bytecode": "0xbb", "evm_address": made}))
		var frame callFrame
		unmarshal(t, r.call("debug_traceTransaction", `["`+hash+`",{"tracer":"callTracer"}]`), &frame)
		if got := sketch(&frame); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func sketch(f *callFrame) string {
	text := f.Type
	if strings.HasPrefix(f.Type, "CREATE") {
		output := ""
		if f.Output != nil {
			output = f.Output.String()
		}
		text += fmt.Sprintf("[%s:%s]", f.Input, output)
	}
	if f.Error != "" {
		text += " " + f.Error
	}
	if len(f.Calls) > 0 {
		calls := make([]string, len(f.Calls))
		for i, c := range f.Calls {
			calls[i] = sketch(c)
		}
		text += "(" + strings.Join(calls, " ") + ")"
	}
	return text
}

// A failing mirror node is reported as one, and never as a transaction without calls.
func TestTraceUpstream(t *testing.T) {
	const failure = `{"_status":{"messages":[{"message":"Replay is off"}]}}`
	r, block := populated(t, debugging)
	hash := block[0].Hash().Hex()
	r.node.fail("contracts/results/"+hash+"/actions?limit=100&order=asc", 503, failure)
	r.node.fail("contracts/results/"+hash+"/opcodes?stack=true&memory=false&storage=true", 501, failure)
	r.expect(
		[3]string{"debug_traceTransaction", `["` + hash + `",{"tracer":"callTracer"}]`, "-32020 Mirror node upstream failure: statusCode=503, message=Replay is off 503"},
		[3]string{"debug_traceTransaction", `["` + hash + `",{"tracer":"prestateTracer"}]`, "-32020 Mirror node upstream failure: statusCode=503, message=Replay is off 503"},
		[3]string{"debug_traceBlockByNumber", `["0x11"]`, "-32020 Mirror node upstream failure: statusCode=503, message=Replay is off 503"},
		[3]string{"debug_traceTransaction", `["` + hash + `"]`, "-32020 Mirror node upstream failure: statusCode=501, message=Replay is off 501"},
	)
}

// Instructions that do not fit the calls place no logs.
func TestPlaceBySteps(t *testing.T) {
	one, two := common.Address{1}, common.Address{2}
	tree := func() *callFrame {
		child := &callFrame{To: frameReceiver{Address: &two}, context: &two}
		return &callFrame{To: frameReceiver{Address: &one}, context: &one, Calls: []*callFrame{child}}
	}
	steps := func(list ...string) (steps []mirror.Step) {
		for _, s := range list {
			var step mirror.Step
			must.Get(fmt.Sscan(s, &step.Depth, &step.Op))(t)
			steps = append(steps, step)
		}
		return steps
	}
	tests := map[string]struct {
		steps []mirror.Step
		logs  []common.Address
		want  bool
	}{
		"both":            {steps("1 LOG0", "1 CALL", "2 LOG1", "1 STOP"), []common.Address{one, two}, true},
		"from depth 0":    {steps("0 CALL", "1 LOG4", "0 LOG0"), []common.Address{two, one}, true},
		"another address": {steps("1 LOG0"), []common.Address{two}, false},
		"too few":         {steps("1 LOG0"), []common.Address{one, one}, false},
		"too many":        {steps("1 LOG0", "1 LOG0"), []common.Address{one}, false},
		"no call":         {steps("1 ADD", "2 LOG0"), []common.Address{two}, false},
		"one call more":   {steps("1 CALL", "1 CALL", "2 LOG0"), []common.Address{two}, false},
		"too deep":        {steps("1 CALL", "3 LOG0"), []common.Address{two}, false},
		"above the root":  {steps("1 CALL", "0 LOG0"), []common.Address{one}, false},
		"no steps":        {nil, []common.Address{one}, false},
	}
	for name, test := range tests {
		root, logs := tree(), make([]*eth.Log, len(test.logs))
		for i, address := range test.logs {
			logs[i] = &eth.Log{Address: address}
		}
		if got := placeBySteps(root, test.steps, logs); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		placed := len(root.Logs) + len(root.Calls[0].Logs)
		if test.want && placed != len(logs) || !test.want && placed != 0 {
			t.Errorf("%s: %d logs placed", name, placed)
		}
	}
}

// FuzzTraceOptions: no options make a tracer fail that the rules of requests let pass.
func FuzzTraceOptions(f *testing.F) {
	r, block := populated(f, debugging)
	hash := block[0].Hash().Hex()
	f.Add(`{"tracer":"callTracer","tracerConfig":{"withLog":true}}`)
	f.Add(`{"limit":-1,"tracerConfig":null}`)
	f.Fuzz(func(t *testing.T, options string) {
		if !json.Valid([]byte(options)) {
			return
		}
		r := &relay{t: t, url: r.url}
		if got := r.call("debug_traceTransaction", `["`+hash+`",`+options+`]`); got.Error != nil && got.Error.Code != -32602 && got.Error.Code != -32700 {
			t.Errorf("%s: %s", options, got)
		}
	})
}
