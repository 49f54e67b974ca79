package ethapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/mirror"
)

func debugging(s *settings) { s.API.Debug.Enabled = true }

// Contracts that call each other. The caller calls the first address of its call data,
// leaves a log, calls it again through DELEGATECALL and through STATICCALL, which
// cannot work because the counter writes, calls the second address, which reverts, and
// creates an empty contract.
const (
	caller = "60006000600060006000600035" + "5af150" + // CALL(first)
		"602a60006000a1" + // LOG1(0, 0, 42)
		"6000600060006000600035" + "5af450" + // DELEGATECALL(first)
		"6000600060006000600035" + "61ea60fa50" + // STATICCALL(first) with 60,000 gas
		"60006000600060006000602035" + "61ea60f150" + // CALL(second)
		"600060006000f050" + "00" // CREATE, STOP
	refusal = "08c379a0" + "0000000000000000000000000000000000000000000000000000000000000020" +
		"0000000000000000000000000000000000000000000000000000000000000005" + "6e65766572000000000000000000000000000000000000000000000000000000"
	refuser = "6064600c60003960646000fd" + refusal
)

// traced is a network with transactions worth tracing.
type traced struct {
	*network
	hiero                      *relay
	counter, refuser, caller   common.Address
	plain, call, fail, deploy  *types.Transaction
	outOfGas, refused, withLog *types.Transaction
}

func newTraced(t *testing.T) *traced {
	n := newNetwork(t, 0)
	n.relay = newRelay(t, n.node, debugging)
	s := &traced{network: n, hiero: newRelay(t, n.node, debugging, hiero)}
	s.deploy = n.dynamic(0, nil, 0, 500_000, initCode(counter))
	s.counter = n.receipt(s.deploy).ContractAddress
	s.refuser = n.receipt(n.dynamic(1, nil, 0, 500_000, initCode(refuser))).ContractAddress
	s.caller = n.receipt(n.dynamic(2, nil, 0, 500_000, initCode(caller))).ContractAddress
	data := append(common.LeftPadBytes(s.counter[:], 32), common.LeftPadBytes(s.refuser[:], 32)...)
	s.call = n.dynamic(3, &s.caller, 5, 1_000_000, data)
	s.fail = n.dynamic(4, &s.refuser, 0, 100_000, nil)
	s.outOfGas = n.dynamic(5, &s.counter, 0, 22_000, nil)
	receiver := common.HexToAddress("0x7700000000000000000000000000000000000777")
	s.plain = n.dynamic(6, &receiver, 100_000_000, 800_000, nil)
	s.withLog = n.dynamic(7, &s.counter, 0, 100_000, nil)
	s.refused = n.dynamic(20, &receiver, 1, 21_000, nil)
	return s
}

func params(tx *types.Transaction, options string) string {
	if options != "" {
		options = "," + options
	}
	return fmt.Sprintf(`["%s"%s]`, tx.Hash(), options)
}

// One golden file for each tracer, option and profile.
func TestTraceGolden(t *testing.T) {
	s := newTraced(t)
	const calls, prestate = `{"tracer":"callTracer"}`, `{"tracer":"prestateTracer"}`
	tests := []struct {
		name    string
		tx      *types.Transaction
		options string
	}{
		{"calls", s.call, calls},
		{"calls_logs", s.call, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`},
		{"calls_top", s.call, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`},
		{"calls_creation", s.deploy, calls},
		{"calls_reverted", s.fail, calls},
		{"calls_out_of_gas", s.outOfGas, calls},
		{"calls_transfer", s.plain, calls},
		{"calls_refused", s.refused, calls},
		{"prestate", s.call, prestate},
		{"prestate_top", s.call, `{"tracer":"prestateTracer","tracerConfig":{"onlyTopCall":true}}`},
		{"prestate_diff", s.call, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`},
		{"prestate_diff_creation", s.deploy, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`},
		{"prestate_diff_transfer", s.plain, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`},
		{"prestate_refused", s.refused, prestate},
		{"opcodes", s.withLog, ``},
		{"opcodes_memory", s.withLog, `{"enableMemory":true,"disableStack":true}`},
		{"opcodes_bare", s.fail, `{"tracer":"opcodeLogger","tracerConfig":{"disableStack":true,"disableStorage":true}}`},
		{"opcodes_limit", s.withLog, `{"limit":100}`},
		{"opcodes_refused", s.refused, `{"tracer":"opcodeLogger"}`},
	}
	for _, test := range tests {
		s.golden("trace_"+test.name, "debug_traceTransaction", params(test.tx, test.options))
		s.hiero.golden("trace_"+test.name+"_hiero", "debug_traceTransaction", params(test.tx, test.options))
	}
}

// What a trace says of money must be what the receipt and the balances say.
func TestTraceAgrees(t *testing.T) {
	s := newTraced(t)
	for _, relay := range []*relay{s.relay, s.hiero} {
		s.agrees(t, relay)
	}
}

func (s *traced) agrees(t *testing.T, relay *relay) {
	type state struct {
		Balance *hexutil.Big
		Nonce   uint64
	}
	for i, tx := range []*types.Transaction{s.call, s.fail, s.plain, s.withLog} {
		receipt := s.receipt(tx)
		var diff struct{ Pre, Post map[common.Address]state }
		unmarshal(t, relay.call("debug_traceTransaction", params(tx, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`)), &diff)
		cost := new(big.Int).Mul(receipt.EffectiveGasPrice, new(big.Int).SetUint64(receipt.GasUsed))
		if receipt.Status == 1 {
			cost.Add(cost, tx.Value())
		}
		pre, post := diff.Pre[s.sender], diff.Post[s.sender]
		paid := new(big.Int).Sub(pre.Balance.ToInt(), post.Balance.ToInt())
		if paid.Cmp(cost) != 0 || pre.Nonce != tx.Nonce() || post.Nonce != tx.Nonce()+1 {
			t.Errorf("transaction %d: the sender paid %d, want %d; %+v, %+v", i, paid, cost, pre, post)
		}
		before := hexutil.EncodeUint64(receipt.BlockNumber.Uint64() - 1)
		if got := s.quantity("eth_getBalance", fmt.Sprintf(`["%s","%s"]`, s.sender, before)); got.Cmp(pre.Balance.ToInt()) != 0 {
			t.Errorf("transaction %d: %d before, eth_getBalance says %d", i, pre.Balance.ToInt(), got)
		}
		var frame callFrame
		unmarshal(t, relay.call("debug_traceTransaction", params(tx, `{"tracer":"callTracer"}`)), &frame)
		if uint64(frame.GasUsed) != receipt.GasUsed || uint64(frame.Gas) != tx.Gas() || frame.From != s.sender {
			t.Errorf("transaction %d: %+v", i, frame)
		}
	}
}

// The logs of a transaction are in the frames that left them, all of them, in order.
func TestTraceLogs(t *testing.T) {
	s := newTraced(t)
	for _, relay := range []*relay{s.relay, newRelay(t, s.node, debugging, func(s *settings) { s.API.Debug.OpcodeLogger = false })} {
		var root callFrame
		unmarshal(t, relay.call("debug_traceTransaction", params(s.call, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`)), &root)
		var got []string
		var walk func(f *callFrame)
		walk = func(f *callFrame) {
			for _, l := range f.Logs {
				got = append(got, fmt.Sprintf("%s %d@%d", f.Type, l.Index, l.Position))
			}
			for _, c := range f.Calls {
				walk(c)
			}
		}
		walk(&root)
		want := "[CALL 1@1 CALL 0@0 DELEGATECALL 2@0]"
		if relay != s.relay {
			want = "[CALL 1@0 CALL 2@0 CALL 0@0]" // whose they are is all that is known
		}
		if fmt.Sprint(got) != want {
			t.Errorf("logs %v, want %s", got, want)
		}
	}
}

// A block's traces are those of its transactions.
func TestTraceBlock(t *testing.T) {
	s := newTraced(t)
	for _, relay := range []*relay{s.relay, s.hiero} {
		relay.tracesBlock(s.call, s.receipt(s.call))
	}
	missing := common.MaxHash.Hex()
	s.expect(
		[3]string{"debug_traceBlockByNumber", `["0x0"]`, "[]"},
		[3]string{"debug_traceBlockByNumber", `["0x99999"]`, "-32001 Requested resource not found. Block 0x99999 not found"},
		[3]string{"debug_traceBlockByHash", `["` + missing + `"]`, "-32001 Requested resource not found. Block " + missing + " not found"},
		[3]string{"debug_traceTransaction", `["` + missing + `"]`, "-32001 Requested resource not found. Failed to retrieve transaction information for " + missing},
	)
}

// tracesBlock expects of a block with one transaction what is expected of that.
func (r *relay) tracesBlock(tx *types.Transaction, receipt *types.Receipt) {
	r.t.Helper()
	for _, options := range []string{``, `{"tracer":"prestateTracer"}`, `{"tracer":"opcodeLogger"}`, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`} {
		single := options
		if options == "" {
			single = `{"tracer":"callTracer"}`
		} else {
			options = "," + options
		}
		trace := r.call("debug_traceTransaction", params(tx, single)).String()
		want := fmt.Sprintf(`[{"txHash":"%s","result":%s}]`, tx.Hash(), trace)
		r.expect(
			[3]string{"debug_traceBlockByHash", fmt.Sprintf(`["%s"%s]`, receipt.BlockHash, options), want},
			[3]string{"debug_traceBlockByNumber", fmt.Sprintf(`["0x%x"%s]`, receipt.BlockNumber, options), want},
		)
	}
}

// The raw encodings decode with go-ethereum and say what the objects say.
func TestRaw(t *testing.T) {
	s := newTraced(t)
	for _, tx := range []*types.Transaction{s.call, s.fail, s.deploy, s.plain} {
		raw := s.bytes("debug_getRawTransaction", params(tx, ""))
		decoded := new(types.Transaction)
		if err := decoded.UnmarshalBinary(raw); err != nil || decoded.Hash() != tx.Hash() {
			t.Errorf("transaction: %v, %x", err, raw)
		}
		receipt := s.receipt(tx)
		ref := fmt.Sprintf(`["%s"]`, receipt.BlockHash)
		var shown types.Header
		unmarshal(t, s.relay.call("eth_getBlockByHash", fmt.Sprintf(`["%s",false]`, receipt.BlockHash)), &shown)
		var header types.Header
		if err := rlp.DecodeBytes(s.bytes("debug_getRawHeader", ref), &header); err != nil || header.Hash() != shown.Hash() {
			t.Errorf("header: %v\n got %+v\nwant %+v", err, header, shown)
		}
		var block types.Block
		must.Do(t, rlp.DecodeBytes(s.bytes("debug_getRawBlock", ref), &block))
		if block.Header().Hash() != shown.Hash() || len(block.Transactions()) != 1 || block.Transactions()[0].Hash() != tx.Hash() || len(block.Withdrawals()) != 0 {
			t.Errorf("block %+v", block.Header())
		}
		var receipts []hexutil.Bytes
		unmarshal(t, s.relay.call("debug_getRawReceipts", ref), &receipts)
		var single types.Receipt
		if err := single.UnmarshalBinary(receipts[0]); err != nil || single.Status != receipt.Status || single.CumulativeGasUsed != receipt.CumulativeGasUsed ||
			single.Bloom != receipt.Bloom || len(single.Logs) != len(receipt.Logs) || single.Type != receipt.Type {
			t.Errorf("receipt %+v, %v", single, err)
		}
	}
	var header types.Header
	var raw hexutil.Bytes
	unmarshal(t, s.hiero.call("debug_getRawHeader", `["latest"]`), &raw)
	if err := rlp.DecodeBytes(raw, &header); err != nil || header.Coinbase != hedera.Entity(801).LongZero() {
		t.Errorf("beneficiary %s, %v", header.Coinbase, err)
	}
	missing := `["` + common.MaxHash.Hex() + `"]`
	s.expect(
		[3]string{"debug_getRawHeader", missing, `"0x"`}, [3]string{"debug_getRawBlock", missing, `"0x"`},
		[3]string{"debug_getRawReceipts", missing, `[]`}, [3]string{"debug_getRawTransaction", missing, `"0x"`},
		[3]string{"debug_getRawTransaction", params(s.refused, ""), `"0x"`}, [3]string{"debug_getBadBlocks", `[]`, `[]`},
	)
}

func (n *network) bytes(method, params string) (raw hexutil.Bytes) {
	n.t.Helper()
	answer := n.call(method, params)
	if answer.Error != nil {
		n.t.Fatalf("%s%s: %s", method, params, answer)
	}
	must.Do(n.t, json.Unmarshal(answer.Result, &raw))
	return raw
}

// Parameters are checked before the gate, which hides the whole namespace.
func TestDebugGates(t *testing.T) {
	node := newMirrorNode(t)
	off, on := newRelay(t, node), newRelay(t, node, debugging, func(s *settings) { s.API.Debug.OpcodeLogger = false })
	hash := `"` + common.MaxHash.Hex() + `"`
	const unsupported = "-32601 Unsupported JSON-RPC method"
	for method, params := range map[string]string{
		"debug_traceTransaction": `[` + hash + `]`, "debug_traceBlockByNumber": `["latest"]`, "debug_traceBlockByHash": `[` + hash + `]`,
		"debug_getRawHeader": `["0x1"]`, "debug_getRawBlock": `["latest"]`, "debug_getRawReceipts": `[` + hash + `]`,
		"debug_getRawTransaction": `[` + hash + `]`, "debug_getBadBlocks": `[]`, "debug_traceCall": `[{}]`,
	} {
		off.expect([3]string{method, params, unsupported})
		if asked := node.requests(); len(asked) > 0 {
			t.Errorf("%s asked for %v", method, asked)
		}
		if method != "debug_getBadBlocks" {
			if got := off.call(method, `[true]`); got.Error == nil || got.Error.Code != -32602 {
				t.Errorf("%s[true]: %s", method, got)
			}
		}
	}
	node.set("contracts/results/"+common.MaxHash.Hex()+"?hbar=false", `{"hash":`+hash+`,"block_number":1,"transaction_index":0,"block_hash":`+hash+`,"timestamp":"1.000000001"}`)
	on.expect([3]string{"debug_traceTransaction", `[` + hash + `]`, unsupported})
}

// The options that cannot be together, and those that need not be known.
func TestTraceOptions(t *testing.T) {
	node := newMirrorNode(t)
	r := newRelay(t, node, debugging)
	const name = "-32602 invalid argument 1: "
	for options, want := range map[string]string{
		`{"tracer":"callTracer","tracerConfig":{},"enableMemory":true}`:    "Cannot specify tracer config properties both at top level and in 'tracerConfig' for TracerConfigWrapper",
		`{"tracer":"callTracer","enableMemory":true}`:                      "Cannot specify tracer config properties at top level when 'tracer' is explicitly set for TracerConfigWrapper",
		`{"tracer":"opcodeLogger","tracerConfig":{"onlyTopCall":true}}`:    "callTracer config properties for TracerConfigWrapper are only valid when tracer=callTracer",
		`{"tracer":"prestateTracer","tracerConfig":{"disableStack":true}}`: "opcodeLogger config properties for TracerConfigWrapper are only valid when tracer=opcodeLogger",
		`{"tracerConfig":{"enableMemory":true}}`:                           "opcodeLogger config properties for TracerConfigWrapper are only valid when tracer=opcodeLogger",
		`"callTracer"`:                                                     "Expected TracerConfigWrapper which contains a valid TracerType and/or TracerConfig, value: callTracer",
	} {
		r.expect([3]string{"debug_traceTransaction", `["` + common.MaxHash.Hex() + `",` + options + `]`, name + want})
	}
	const member = "-32602 invalid argument "
	for options, want := range map[string]string{
		`{"tracer":"muxTracer"}`: "'tracer' for TracerConfigWrapper: Expected TracerType, value: muxTracer",
		`{"tracer":7}`:           "'tracer' for TracerConfigWrapper: Expected TracerType, value: 7",
		`{"tracer":"callTracer","tracerConfig":{"onlyTopCall":1}}`: `'tracerConfig' for TracerConfigWrapper: Expected TracerConfig, value: {"onlyTopCall":1}`,
		`{"tracer":"callTracer","tracerConfig":"x"}`:               "'tracerConfig' for TracerConfigWrapper: Expected TracerConfig, value: x",
		`{"enableMemory":1}`: "'enableMemory' for TracerConfigWrapper: Expected boolean type, value: 1",
	} {
		r.expect([3]string{"debug_traceTransaction", `["` + common.MaxHash.Hex() + `",` + options + `]`, member + want})
	}
	for _, options := range []string{`{}`, `{"timeout":"5s"}`, `{"reexec":9}`, `{"tracer":"callTracer","tracerConfig":{"unknown":[1]}}`} {
		if got := r.call("debug_traceTransaction", `["`+common.MaxHash.Hex()+`",`+options+`]`); got.Error == nil || got.Error.Code != -32001 {
			t.Errorf("%s: %s", options, got)
		}
	}
}

// A trace that is too long is refused, however it is too long.
func TestTraceTooLarge(t *testing.T) {
	s := newTraced(t)
	const tooLarge = "-32000 The trace exceeds the limit of %d bytes: leave out stack, storage and memory, or use callTracer"
	limit := func(bytes int64) *relay {
		return newRelay(t, s.node, debugging, func(s *settings) { s.API.Debug.MaxBytes = bytes })
	}
	limit(1000).expect([3]string{"debug_traceTransaction", params(s.withLog, ""), fmt.Sprintf(tooLarge, 1000)})
	block := fmt.Sprintf(`["0x%x"]`, s.receipt(s.call).BlockNumber)
	limit(100).expect([3]string{"debug_traceBlockByNumber", block, fmt.Sprintf(tooLarge, 100)})
	if got := limit(1<<20).call("debug_traceTransaction", params(s.withLog, "")); got.Error != nil || !strings.Contains(got.String(), "SSTORE") {
		t.Error(got)
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *frameReceiver) UnmarshalJSON(text []byte) error {
	r.null = string(text) == "null"
	return json.Unmarshal(text, &r.Address)
}

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
	maps.Copy(m, members)
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
